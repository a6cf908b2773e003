"""Exact counts of this process around a test: they need no rights, and cost less than a millisecond.

Left out, unless `all` is asked for, is what belongs to somebody else: Python threads that ran before the test began
(a plugin's, pytest-xdist's) other than the test's own. Native threads count, for pools of libraries work for whoever
asks. Of children, those count that ended during the test.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Mapping

from pinprof.base.clock import clock_ns
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.proc import stat_fields, tree
from pinprof.collect.program import resources

_FAULTS = 7, 9
"""minflt and majflt of /proc/PID/task/TID/stat, counted from behind the name (proc(5))."""
_TIMES = 11, 12
"""utime and stime there, in clock ticks."""
_MOST_PROCESSES, _MOST_THREADS = 256, 64


@dataclass(frozen=True)
class Others:
    """Who was there before a test, and is no part of it."""

    threads: Mapping[int, str]
    """Thread id → name of each Python thread but the test's own."""
    processes: frozenset[int]


NOBODY = Others({}, frozenset())


def others_now() -> Others:
    """Whoever runs now, but for the calling thread."""
    own = threading.get_native_id()
    threads = {
        thread.native_id: thread.name
        for thread in threading.enumerate()
        if thread.native_id is not None and thread.native_id != own
    }
    descendants = tree(os.getpid(), _MOST_PROCESSES, _MOST_THREADS)[1:]
    return Others(threads, frozenset(descendants))


@dataclass(frozen=True)
class Counts:
    """What a test used."""

    wall_ns: int
    cpu_ns: int
    page_faults: int
    left_out_faults: int
    """Of threads that are no part of the test."""
    resources: Mapping[str, int]
    """As a capture's manifest has it."""


class Counting:
    """Counts from its construction to `end`."""

    def __init__(self, others: Others) -> None:
        self._others = others
        self._theirs = {thread: _used(thread) for thread in others.threads}
        self._before = _all()
        self._begun_ns = clock_ns()

    def end(self) -> Counts:
        """What was used since."""
        wall_ns = clock_ns() - self._begun_ns
        grown = {name: value - self._before.get(name, 0) for name, value in _all().items()}
        grown["max_resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        left = [0, 0, 0, 0]
        for thread, before in self._theirs.items():
            # One that has ended meanwhile is not seen any more: what it did then counts.
            for place, (then, now) in enumerate(zip(before, _used(thread) or before, strict=True)):
                left[place] += max(now - then, 0)
        minor, major, user, system = left
        for name, value in (
            ("minor_faults", minor), ("major_faults", major), ("user_ns", user), ("system_ns", system)
        ):  # fmt: skip
            grown[name] = max(grown[name] - value, 0)
        return Counts(
            wall_ns=wall_ns,
            cpu_ns=grown["user_ns"] + grown["system_ns"],
            page_faults=grown["minor_faults"] + grown["major_faults"],
            left_out_faults=minor + major,
            resources=grown,
        )


def _all() -> dict[str, int]:
    own = resources(resource.getrusage(resource.RUSAGE_SELF))
    children = resources(resource.getrusage(resource.RUSAGE_CHILDREN))
    return {name: value + children[name] for name, value in own.items()}


def _used(thread: int) -> tuple[int, ...]:
    """Faults, minor and major, and CPU time, user and system, of a thread; empty where it has ended."""
    fields = stat_fields(f"/proc/self/task/{thread}/stat")
    if len(fields) <= max(*_FAULTS, *_TIMES):
        return ()
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return (*(int(fields[place]) for place in _FAULTS), *(int(fields[place]) * tick_ns for place in _TIMES))
