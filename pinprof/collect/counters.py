"""Exact counters of the machine around a run: they count every event where samples estimate.

`pgfault` counts faults taken inside pins as well, which the sampled page-faults event does not; steal time is CPU time
that the hypervisor gave to somebody else. All of them are the whole machine's, other programs included.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_VMSTAT = Path("/proc/vmstat")
_STAT = Path("/proc/stat")

VMSTAT_NAMES = (
    "pgfault",
    "pgmajfault",
    "nr_foll_pin_acquired",
    "nr_foll_pin_released",
    "pgmigrate_success",
    "numa_pages_migrated",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "compact_stall",
    "pswpin",
    "pswpout",
)
_CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of the `cpu` line of /proc/stat, in clock ticks (proc(5))."""


def read() -> dict[str, int]:
    """The counters now; those that this kernel does not have are absent."""
    return _vmstat() | _cpu_times()


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much each counter grew."""
    return {name: after[name] - before[name] for name in before if name in after}


def _vmstat() -> dict[str, int]:
    try:
        rows = (line.split() for line in _VMSTAT.read_text().splitlines())
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[0] in VMSTAT_NAMES}
    except (OSError, ValueError):
        return {}


def _cpu_times() -> dict[str, int]:
    try:
        fields = _STAT.read_text().split("\n", 1)[0].split()[1:]
        tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        times = {f"cpu_{name}_ns": int(value) * tick_ns for name, value in zip(_CPU_FIELDS, fields, strict=False)}
    except (OSError, ValueError):
        return {}
    return times
