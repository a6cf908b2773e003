"""Memory over time: what the program's processes hold and what the machine's counters say, ten times a second at most.

    memory.jsonl    {"t": ns of CLOCK_MONOTONIC, "machine": {counter: value}, "processes": [{"pid": …, "rss": bytes}]}

It is written by pinprof itself while it waits for the program. Sampling costs time, so it samples less often where it
costs more: never above COST of a core, shared where a launch has more recordings than the machine has cores. Nor does
the file outgrow its share of the recording's size (pace.py). Huge pages are in smaps_rollup alone, which walks the page
tables under the lock of the address space: read once a second at most, within HUGE_COST, and no more of a process for
which it takes long. Where pages of CUDA programs lie costs apart from that (placement.py), and so does what is mapped
(mappings.py).

Fields are those of proc_pid_status(5), proc_pid_smaps(5) and /proc/vmstat; what a kernel does not have is left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Any

from pinprof.base import files
from pinprof.base.units import format_ns
from pinprof.collect.collector import Collector, Setup, Tool, ToolResult
from pinprof.collect.mappings import Mappings
from pinprof.collect.pace import Pace
from pinprof.collect.placement import Placement
from pinprof.collect.proc import contents, tree
from pinprof.collect.program import Program
from pinprof.streams.store import MEMORY

COST = 0.004
HUGE_INTERVAL_S, HUGE_COST, HUGE_LIMIT_S = 1.0, 0.001, 0.05
TREE_INTERVAL_S = 0.3
LONGEST_S = 60.0
SIZE_SHARE = 0.1
"""The part of the size that a recording may have."""
MOST_PROCESSES, MOST_THREADS = 64, 64
"""Processes that are followed; threads whose children are looked for. The main thread's always are."""

_STATUS = {b"VmRSS": "rss", b"RssShmem": "shmem", b"VmPin": "pinned", b"VmLck": "locked", b"VmSwap": "swap"}
_FIELD = re.compile(rb"^(VmRSS|RssShmem|VmPin|VmLck|VmSwap):\s*(\d+) kB$|^(Threads):\s*(\d+)$", re.MULTILINE)
_NAME = re.compile(rb"^Name:\t(.*)$", re.MULTILINE)
_HUGE = re.compile(rb"^AnonHugePages:\s*(\d+) kB$", re.MULTILINE)

PAGES = ("nr_free_pages", "nr_file_pages", "nr_shmem", "nr_anon_transparent_hugepages", "nr_mlock")
EVENTS = (
    "pgfault", "pgmajfault", "thp_fault_alloc", "thp_fault_fallback", "compact_stall", "nr_foll_pin_acquired",
    "nr_foll_pin_released", "pswpin", "pswpout", "numa_miss",
)  # fmt: skip
_COUNTERS = {name.encode(): name for name in (*PAGES, *EVENTS)}


class MemoryWatch(Tool):
    """Samples the memory of the program and its descendants whenever that is due."""

    def __init__(self, setup: Setup) -> None:
        setup.places.callback(self.close)
        self._root, self._file = 0, -1
        self._tree: list[int] = []
        self._names: dict[int, bytes] = {}
        self._tree_due = self._due = 0.0
        self._huge_due: dict[int, float] = {}
        self._spent_apart = 0.0
        self._placement, self._mappings = Placement(), Mappings()
        self._pace = Pace(setup.request.limits.share(SIZE_SHARE), time.monotonic_ns())
        self._pause_s = setup.request.memory_pause_s
        self._crowd = max(1 / setup.request.processors, 1.0)
        """Recordings that go on together, for each processor."""
        self._written = 0
        self._began = self._thinned = 0.0
        with contextlib.suppress(OSError):
            self._file = files.append(setup.directory / MEMORY)

    def attach(self, program: Program) -> None:
        """The process whose descendants are followed."""
        self._root, self._began = program.pid, time.monotonic()

    def watch(self) -> float:
        """Sample if it is time; seconds until the next sample."""
        if self._file < 0:
            return float("inf")
        now = time.monotonic()
        if now >= self._due:
            self._spent_apart, begin = 0.0, time.thread_time()
            self.sample()
            spent = time.thread_time() - begin - self._spent_apart
            now = time.monotonic()
            interval = self._crowd * max(self._pause_s, spent / COST)
            if step := self._pace.looked(time.monotonic_ns(), self._written):
                self._thinned = self._thinned or now
                interval = min(interval * (1 << step), LONGEST_S)
            self._due = now + interval
        return self._due - now

    def sample(self) -> None:
        """Write one line."""
        if self._file < 0:
            return
        now = time.monotonic()
        if now >= self._tree_due:
            self._tree, self._tree_due = tree(self._root, MOST_PROCESSES, MOST_THREADS), now + TREE_INTERVAL_S
            self._names = {pid: name for pid, name in self._names.items() if pid in self._tree}
            self._huge_due = {pid: due for pid, due in self._huge_due.items() if pid in self._tree}
            self._mappings.keep(self._tree)
        line: dict[str, Any] = {"t": time.monotonic_ns(), "machine": _machine(), "processes": []}
        for pid in self._tree:
            if facts := self._process(pid, now):
                line["processes"].append(facts)
        self._place(line["processes"], now)
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        room = self._pace.room(time.monotonic_ns())
        if room is not None and room < len(text):
            return
        try:
            self._written += os.write(self._file, text)
        except OSError:
            # The disk is full: the samples need what is left.
            self.close()

    def ended(self) -> None:
        """A last sample."""
        self.sample()
        self.close()

    def result(self) -> ToolResult:
        """Since when it looked less often to keep to its size."""
        if not self._thinned:
            return ToolResult({})
        since = format_ns((self._thinned - self._began) * 1e9)
        text = f"From {since} on, memory over time was sampled less often, to stay within its size limit."
        return ToolResult({}, (text,))

    def close(self) -> None:
        """No more samples."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _place(self, processes: list[dict[str, Any]], now: float) -> None:
        """Add where pages lie, of a process that is due."""
        before = self._placement.spent
        found = self._placement.look({facts["pid"]: facts["rss"] for facts in processes}, now)
        self._spent_apart += self._placement.spent - before
        if found:
            next(facts for facts in processes if facts["pid"] == found[0])["pages"] = found[1]

    def _process(self, pid: int, now: float) -> dict[str, Any] | None:
        status = contents(f"/proc/{pid}/status")
        if not status:
            return None
        facts: dict[str, Any] = {"pid": pid}
        if (name := _NAME.search(status)) and name[1] != self._names.get(pid):
            self._names[pid] = name[1]
            facts["name"] = name[1].decode("utf-8", "replace")
        for match in _FIELD.finditer(status):
            if match[3]:
                facts["threads"] = int(match[4])
            else:
                facts[_STATUS[match[1]]] = int(match[2]) * 1024
        if "rss" not in facts:
            # A process that has ended and waits for its parent holds nothing.
            return None
        before = self._mappings.spent
        if maps := self._mappings.look(pid, now):
            facts["maps"] = maps
        self._spent_apart += self._mappings.spent - before
        if now >= self._huge_due.get(pid, 0.0):
            begin = time.thread_time()
            rollup = _HUGE.search(contents(f"/proc/{pid}/smaps_rollup"))
            took = time.thread_time() - begin
            self._spent_apart += took
            self._huge_due[pid] = now + max(HUGE_INTERVAL_S, took / HUGE_COST) if took < HUGE_LIMIT_S else float("inf")
            if rollup:
                facts["huge"] = int(rollup[1]) * 1024
        return facts


def _machine() -> dict[str, int]:
    words = contents("/proc/vmstat").split()
    return {
        _COUNTERS[name]: int(value) for name, value in zip(words[::2], words[1::2], strict=False) if name in _COUNTERS
    }


# Nobody waits, and so watches, while a process records itself.
COLLECTOR = Collector(
    lambda setup: [] if setup.request.own_process else [MemoryWatch(setup)], lost="Memory over time is not recorded"
)
