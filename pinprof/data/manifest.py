"""What a capture says about itself, and what its file may hold; without numpy, so that recording needs none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.redaction import redacted
from pinprof.base.shapes import ANYTHING, COUNT, PID, TEXT, TIME, Each, Either, Facts, OneOf, Real, Record, Shape, Whole

_SIZE, _NUMBER = Whole(0, 1 << 50), Whole(1, 1 << 31)
"""A size in bytes, and how many of something there are."""


def _texts(names: str) -> dict[str, Shape]:
    return dict.fromkeys(names.split(), TEXT)


def _numbers(names: str) -> dict[str, Shape]:
    return dict.fromkeys(names.split(), COUNT)


_GPU = Facts(
    {
        **_texts("name chip driver pci persistence"),
        **_numbers("memory_bytes link_generation link_generation_max link_width link_width_max numa_node"),
    },
    ANYTHING,
)
_HOST = Facts(
    {
        **_texts("kernel arch cpu thp_enabled thp_defrag thp_shmem virtual_machine nvidia_driver cuda_driver"),
        **_numbers("memory_bytes swap_bytes huge_page_bytes huge_pages cores cores_online numa_nodes iommu_groups"),
        "page_bytes": Whole(512, 1 << 30),
        "gpus": Each(_GPU, lenient=True),
    },
    ANYTHING,
)
SCENARIO = Facts(
    {
        **_texts("name family summary backend device_name emulation"),
        "parameters": Facts(
            {"size_bytes": _SIZE, "iterations": _NUMBER, "warmup": COUNT, "threads": _NUMBER, "variant": TEXT}, ANYTHING
        ),
        "phases": Each(TEXT, lenient=True),
        "calls": Facts(others=TEXT),
        "memory_bytes": Facts(others=_SIZE),
    },
    ANYTHING,
)
_GIVEN_UP = Record({"kind": TEXT, "without": TEXT, "from_ns": COUNT, "to_ns": COUNT}, optional={"calls": COUNT})
_KEPT = Facts(others=COUNT)
_COLLECTOR = Facts(
    {
        **_texts("name version"),
        "command": Either((TEXT, Each(TEXT))),
        "options": Facts({"kernel": OneOf((True, False)), "system_wide": OneOf((True, False))}, ANYTHING),
        "pid": PID,
        "utc_offset_ns": TIME,
        "call_overhead_ns": Facts({"inside": COUNT, "around": COUNT}),
        "stacks": Facts(_numbers("samples complete continued copied deep cut"), ANYTHING),
        "thinned": Facts({**_numbers("since_ns full_ns one_in joined_ns"), "kept": _KEPT, "left_out": _KEPT}, ANYTHING),
        "probes": Facts(
            {
                "budget_percent": Real(0, 100),
                "cost_ns": COUNT,
                "price_ns": Facts({"full": COUNT, "bare": COUNT}),
                "given_up": Each(_GIVEN_UP, lenient=True),
            }
        ),
    },
    ANYTHING,
)
_OUTCOME = Facts(
    {
        **_texts("state started_utc"),
        "recorded_ns": Each(COUNT),
        "trigger": Facts({"said": TEXT, "moment_ns": Each(COUNT), "pid": PID}),
        "incomplete": Facts(others=TEXT),
        "exit_status": Whole(-(1 << 31), 1 << 31),
        "duration_ns": COUNT,
        "notes": Each(TEXT, lenient=True),
        "pid": PID,
        "counters": Facts(others=COUNT),
        "resources": Facts(others=COUNT),
    },
    ANYTHING,
)
SHAPE = Facts(
    {
        "tool_version": TEXT,
        "command": Each(TEXT),
        "scenario": SCENARIO,
        "host": _HOST,
        "collectors": Each(_COLLECTOR, lenient=True),
        "outcome": _OUTCOME,
        "labels": Facts(others=TEXT),
    }
)
"""What manifest.json may hold; what does not fit is as if it were not known, since a manifest may be edited by hand."""

USER_ONLY = "only the program's own code"
"""In the note of a recording without the kernel's part, which the pytest plugin looks for."""


@dataclass(frozen=True)
class Manifest:
    """What is known about how a capture was made. Holds no environment variables and user names, no host names but
    those that somebody gave as labels, and of command lines no likely secrets, whoever made or wrote it.
    """

    schema_version: int
    tool_version: str
    command: tuple[str, ...]
    """The profiled command line; empty when unknown."""
    scenario: Mapping[str, Any]
    """For a pinprof scenario (scenario.session): `name, backend, emulation, parameters, calls`, and `memory_bytes`:
    what a framework said of its memory; empty otherwise.
    """
    host: Mapping[str, Any]
    """Machine facts (collect.host.facts): kernel, cpu, memory, THP, GPU, driver, link."""
    collectors: tuple[Mapping[str, Any], ...]
    """Per collector: `name, version, command, options`."""
    outcome: Mapping[str, Any]
    """`state` (`complete`, `interrupted`, `failed`), `exit_status`, `started_utc`, `duration_ns`, `notes`, and in
    `incomplete` what of the program was not recorded: `children` that were there before, and `outlived` for processes
    that went on. `trigger`: what a flight recorder has captured this at, as `portions.triggers.Fired`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What who recorded called it, name by name: `host`, `job`; empty unless they said so."""

    def __post_init__(self) -> None:
        kept = {"command": redacted(self.command), "collectors": tuple(map(_shareable, self.collectors))}
        self.__dict__.update(kept)

    @property
    def kernel_left_out(self) -> bool:
        """Whether the samples hold the program's own code only: more was not permitted where they were recorded."""
        options = [collector.get("options") for collector in self.collectors]
        return any(isinstance(entry, Mapping) and entry.get("kernel") is False for entry in options)


def _shareable(collector: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said of a collector, without secrets in its command line."""
    command = collector.get("command")
    if isinstance(command, str):
        return {**collector, "command": " ".join(redacted(command.split(" ")))}
    return {**collector, "command": list(redacted(command))} if isinstance(command, list | tuple) else collector
