"""Memory over time as figures: peaks of the program, and what the machine's counters grew by meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.memory_log import MemoryLog
from pinprof.data.model import Capture, Int64

PAGE_BYTES = 4096
"""Counters of /proc/vmstat count base pages; machines with larger ones record the size of theirs."""

SUMMED = ("rss", "shmem", "pinned", "locked", "swap", "huge", "threads")


@dataclass(frozen=True)
class MemoryResult:
    """What the program held, and what happened to the machine's memory while it ran."""

    looks: int
    time_ns: Int64
    together: Mapping[str, Int64]
    """`rss, shmem, …` of all processes of the program at each time. Pages that several share count in each."""
    peak: Mapping[str, int]
    """The most of each at any look."""
    processes: int
    lowest_free_bytes: int | None
    growth: Mapping[str, int]
    """Counter → by how much it grew from the first look to the last; the whole machine's."""
    program_faults: int | None
    """Faults of the program by the page-fault event; None when it was not recorded."""

    @property
    def hidden_faults(self) -> int | None:
        """Faults of the machine beyond those that the event counted: inside pins, and of other programs."""
        grown = self.growth.get("pgfault")
        return None if grown is None or self.program_faults is None else max(grown - self.program_faults, 0)


def summarise_memory(capture: Capture) -> MemoryResult | None:
    """None when nothing recorded memory."""
    log = capture.memory
    if log is None:
        return None
    together = {name: _together(log, name) for name in SUMMED if any(name in one.values for one in log.processes)}
    page = page_bytes(capture)
    free = log.machine.get("nr_free_pages")
    faults = [number for number, event in enumerate(capture.events) if event.unit == "faults"]
    weight = capture.samples.weight[capture.samples.event == faults[0]] if faults else None
    return MemoryResult(
        looks=len(log.time_ns),
        time_ns=log.time_ns,
        together=together,
        peak={name: int(values.max()) for name, values in together.items()},
        processes=len(log.processes),
        lowest_free_bytes=None if free is None else int(free.min()) * page,
        growth={
            name: int(values[-1] - values[0])
            for name, values in log.machine.items()
            if not name.startswith("nr_") or name.startswith("nr_foll_pin")
        },
        program_faults=None if weight is None else int(weight.sum()),
    )


def page_bytes(capture: Capture) -> int:
    """Size of a base page of the machine."""
    size = capture.manifest.host.get("page_bytes")
    return size if isinstance(size, int) and size > 0 else PAGE_BYTES


def _together(log: MemoryLog, name: str) -> Int64:
    """The sum over all processes at each time of the log; a process counts while it was seen."""
    total = np.zeros(len(log.time_ns), np.int64)
    for one in log.processes:
        if name in one.values:
            total[np.searchsorted(log.time_ns, one.time_ns)] += one.values[name]
    return total
