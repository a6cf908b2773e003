"""What memory operations cost on one machine: measured by `pinprof bench`, stored per machine, read by reports.

    $XDG_DATA_HOME/pinprof/rates/KEY-BACKEND.json    (default ~/.local/share)

KEY stands for the facts that decide what an operation costs: processor, kernel, GPU, driver, link. A machine whose
kernel or driver was updated has another key, so old rates are never taken for those of the new system.

A calibration measures less of the same after a recording; its rates are kept apart (`bench/kept_rates.py`).
`rate_book.py` answers from both, and from others.

Schema history: 1 — first version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self

from pinprof.base import files, shapes
from pinprof.base.errors import CaptureError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.shapes import ANYTHING, COUNT, TEXT, Each, Facts, OneOf, Real, Record, Shape, Unfit

SCHEMA_VERSION = 1

MEASURES = {
    "alloc.malloc": "malloc, no page touched",
    "touch.first": "first write to every 4 KiB page of malloc memory, one thread",
    "touch.huge": "first write to memory in huge pages (MADV_HUGEPAGE), one thread",
    "touch.cow": "first write to every 4 KiB page of a private mapping that shares its pages: each page is copied",
    "pin.alloc": "cudaMallocHost",
    "pin.hostalloc": "cudaHostAlloc, default flags",
    "pin.register-touched": "cudaHostRegister of malloc memory whose pages exist",
    "pin.register-untouched": "cudaHostRegister of malloc memory without pages",
    "free.pinned": "cudaFreeHost of cudaMallocHost memory",
    "free.unregister": "cudaHostUnregister",
    "free.pageable": "free of touched malloc memory",
    "free.munmap": "munmap of a touched mapping in 4 KiB pages",
    "prefault.tN": "huge pages touched by N threads, then cudaHostRegister: pinned memory, complete",
    "h2d.pageable": "cudaMemcpy to the device from touched malloc memory",
    "h2d.pinned": "cudaMemcpy to the device from cudaMallocHost memory",
    "h2d.staged": "pageable to device through a reused ring of four pinned 4 MiB chunks",
    "h2d.write-combined": "cudaMemcpy to the device from write-combined memory",
    "h2d.small": "cudaMemcpyAsync of 4 KiB of pinned memory to the device, only the call",
    "d2h.pageable": "cudaMemcpy from the device to touched malloc memory",
    "d2h.pinned": "cudaMemcpy from the device to cudaMallocHost memory",
    "uvm.first-touch": "first write to every 4 KiB page of cudaMallocManaged memory by the CPU, one thread",
    "uvm.ondemand": "kernel x += 2 that first touches managed data resident on the host",
    "uvm.prefetch": "cudaMemPrefetchAsync of host-resident managed memory to the device",
    "uvm.prefetch-back": "cudaMemPrefetchAsync of device-resident managed memory to the host",
    "uvm.prefetched-kernel": "the same kernel after that prefetch",
    "uvm.cpu-readback": "one read in every 4 KiB page by the CPU, of managed data resident on the device",
    "zerocopy.pass": "kernel x += 2 on mapped pinned memory: every byte crosses the link twice",
    "kernel.launch-sync": "launching a kernel on one element and waiting for it",
    "memcpy.host": "memcpy between two touched host buffers",
    "file.read": "read() of a cached file into a touched buffer",
    "file.map-touch": "first read of every 4 KiB page of a mapped, cached file",
    "refill.copy-new": "memcpy into new memory in huge pages, made and unmapped",
    "refill.copy-kept": "memcpy into memory in huge pages that stays",
    "refill.add-new": "the sum of two arrays into new memory in huge pages, made and unmapped",
    "refill.add-kept": "the sum of two arrays into memory in huge pages that stays",
}
"""Name of a measure → what one call of it is, in CUDA's words. `prefault.tN` stands for `prefault.t1`, `.t2`, …"""
NEED_NO_GPU = frozenset(
    {"alloc.malloc", "touch.first", "touch.huge", "touch.cow", "free.pageable", "free.munmap", "memcpy.host"}
    | {"file.read", "file.map-touch"}
    | {"refill.copy-new", "refill.copy-kept", "refill.add-new", "refill.add-kept"}
)
"""Measures that mean the same with and without a GPU; all others, the backend `host` emulates or leaves out."""

MeasuredBy = Literal["bench", "calibration"]

BACKENDS = ("cuda", "host")
"""What rates are measured with; a name of another kind is no part of a file's name."""

_FACTS = ("arch", "cpu", "cores_online", "kernel", "thp_enabled", "init_on_alloc", "nvidia_driver")
"""Host facts (collect.host.facts) that decide what an operation costs; of each GPU, `_GPU_FACTS`."""
_GPU_FACTS = ("name", "link_generation_max", "link_width_max")
_DURATION = Real(0, 2.0**62)
_RATE: dict[str, Shape] = {
    "measure": TEXT,
    "size_bytes": COUNT,
    **dict.fromkeys(("median_ns", "low_ns", "high_ns"), _DURATION),
}
SHAPE = Record(
    {
        "machine": Facts(others=ANYTHING),
        "backend": OneOf(BACKENDS),
        "measured_utc": TEXT,
        "rates": Each(Record(_RATE)),
    },
    optional={"measured_by": OneOf(("bench", "calibration"))},
)
"""What a file of rates holds."""

_PREFAULT = re.compile(r"prefault\.t([1-9]\d{0,5})", re.ASCII)


@dataclass(frozen=True)
class Rate:
    """What one call of a measure costs at one size."""

    measure: str
    """A name of `MEASURES`, or `prefault.t8`."""
    size_bytes: int
    """0 where no memory takes part, or always as much."""
    median_ns: float
    low_ns: float
    """10th percentile of the values."""
    high_ns: float
    """90th percentile."""


@dataclass(frozen=True)
class Rates:
    """Everything measured on one machine with one backend."""

    machine: Mapping[str, Any]
    """The facts that `machine_of` takes from a host's."""
    backend: str
    """`cuda`, or `host`: without a GPU, by the same mechanisms of the kernel."""
    measured_utc: str
    """When the newest of them was measured, of calibrations the oldest, ISO 8601."""
    rates: tuple[Rate, ...]
    measured_by: MeasuredBy = "bench"
    """`bench`: thoroughly, by request. `calibration`: in seconds, after a recording on that machine."""

    def of(self, measure: str) -> tuple[Rate, ...]:
        """The rates of one measure, by size; empty when it was not measured."""
        return tuple(sorted((rate for rate in self.rates if rate.measure == measure), key=lambda rate: rate.size_bytes))

    def older_than(self, utc: str) -> timedelta | None:
        """By how much they are older than a time (ISO 8601), 0 where they are younger; None where one is unreadable."""
        try:
            return max(datetime.fromisoformat(utc) - datetime.fromisoformat(self.measured_utc), timedelta())
        except (ValueError, TypeError):  # the last one: one of them has no zone
            return None

    def updated(self, newer: Self) -> Self:
        """These with newer ones of the same machine and backend; the newer one counts where both have a size."""
        merged = {(rate.measure, rate.size_bytes): rate for rate in (*self.rates, *newer.rates)}
        return replace(newer, rates=tuple(merged.values()))


def is_measure(name: str) -> bool:
    """Whether there is a measure of that name."""
    return (name in MEASURES and name != "prefault.tN") or prefault_threads(name) > 0


def prefault_threads(name: str) -> int:
    """The threads that `prefault.t8` touches memory with; 0 for any other name."""
    match = _PREFAULT.fullmatch(name)
    return int(match[1]) if match else 0


def family(name: str) -> str:
    """The measure of `MEASURES` that a name of one stands for."""
    return "prefault.tN" if prefault_threads(name) else name


def machine_of(host_facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a machine that its rates depend on; one that is unknown is None."""
    gpus = host_facts.get("gpus")
    gpus = [gpu for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list | tuple) else []
    facts = {name: host_facts.get(name) for name in _FACTS}
    return facts | {"gpus": [{name: gpu.get(name) for name in _GPU_FACTS} for gpu in gpus]}


def directory() -> Path:
    """Where rates are stored; XDG_DATA_HOME counts only when it is an absolute path, as its specification says."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share") / "pinprof" / "rates"


def load_for(host_facts: Mapping[str, Any], backend: str | None = None) -> Rates | None:
    """The stored rates of the machine with these facts: of one backend, else `cuda` before `host`; None without any.

    CaptureError when the file is there but cannot be read.
    """
    machine = machine_of(host_facts)
    for name in BACKENDS:
        path = _path(machine, name)
        # Also one that another user keeps to himself, as where XDG_DATA_HOME is root's.
        if (not backend or backend == name) and os.access(path, os.R_OK) and path.is_file():
            return read(path)
    return None


def save(rates: Rates) -> Path:
    """Store the rates of a machine in place of older ones, in one step; returns the file."""
    path = _path(rates.machine, rates.backend)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.written(path, to_json(rates))
    return path


def to_json(rates: Rates) -> str:
    """The stored form."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **asdict(rates)}, indent=1, ensure_ascii=True) + "\n"


def read(path: Path) -> Rates:
    """Rates from a file, which may come from elsewhere; CaptureError when it is not what `to_json` writes."""
    try:
        raw = shapes.read(path)
        if isinstance(raw, dict) and raw.get("schema_version") != SCHEMA_VERSION:
            raise Unfit(
                f"has schema version {raw.get('schema_version')!r:.40} where this pinprof reads {SCHEMA_VERSION}"
            )
        return of_json(SHAPE.fit(raw))
    except (OSError, ValueError) as error:
        raise CaptureError(
            f"The rates in {path} can't be read: {error}.",
            "Remove the file, and measure this machine again with `pinprof bench`.",
            "rates",
        ) from error


def of_json(known: Mapping[str, Any]) -> Rates:
    """Rates from values that fit `SHAPE`."""
    found = tuple(Rate(**rate) for rate in known["rates"])
    return Rates(known["machine"], known["backend"], known["measured_utc"], found, known.get("measured_by", "bench"))


def key_of(machine: Mapping[str, Any]) -> str:
    """What stands for a machine in names of files."""
    return hashlib.sha256(json.dumps(machine, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]


def _path(machine: Mapping[str, Any], backend: str) -> Path:
    return directory() / f"{key_of(machine)}-{backend}.json"
