"""What a capture says about itself; apart from `model`, so that recording needs no numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SHOWN_BY = {"prefault": "prefaulting", "register": "registering"}


@dataclass(frozen=True)
class Manifest:
    """What is known about how a capture was made. Holds no environment variables, user names or host names."""

    schema_version: int
    tool_version: str
    command: tuple[str, ...]
    """The profiled command line; empty when unknown."""
    scenario: Mapping[str, Any]
    """For a pinprof scenario (scenario.session): `name, backend, emulation, parameters, calls`, and, counted in its
    warm-up, `traffic`: what one iteration allocates and copies, as `what, size_bytes, count`; `memory_bytes`: what a
    framework said of its memory; `shows` (`scenario_shows`); empty otherwise.
    """
    host: Mapping[str, Any]
    """Machine facts (collect.host.facts): kernel, cpu, memory, THP, GPU, driver, link."""
    collectors: tuple[Mapping[str, Any], ...]
    """Per collector: `name, version, command, options`."""
    outcome: Mapping[str, Any]
    """`state` (`complete`, `interrupted`, `failed`), `exit_status`, `started_utc`, `duration_ns`, `notes`."""

    @property
    def scenario_shows(self) -> str:
        """What the scenario is made to show, beside where time goes: `prefaulting`, `registering`, or nothing.

        Captures of version 0.1 do not say it; the names of the scenarios do.
        """
        shows = self.scenario.get("shows", _SHOWN_BY.get(str(self.scenario.get("name")), ""))
        return shows if isinstance(shows, str) else ""

    @property
    def kernel_left_out(self) -> bool:
        """Whether the samples hold the program's own code only: more was not permitted where they were recorded."""
        options = [collector.get("options") for collector in self.collectors]
        return any(isinstance(entry, Mapping) and entry.get("kernel") is False for entry in options)
