"""What must be said of the program's processes: that some outlive it, or that some have another clock.

A program that becomes a daemon ends at once, and its recording with it, while its work goes on. In another time
namespace CLOCK_MONOTONIC is another one (time_namespaces(7)): times that a process notes itself do not fit the samples,
whose times are the kernel's own.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pinprof.base.units import format_counted, format_ns
from pinprof.collect.collector import Collector, Setup, Tool, ToolResult
from pinprof.collect.proc import contents, tree
from pinprof.collect.program import Program
from pinprof.streams.store import GPU, NVTX, RANGES

_MOST_NAMED = 3
_FIRST_LOOK_S, _LONGEST_S = 0.005, 1.0
"""Between two looks: each twice as long."""
_MOST_PROCESSES, _MOST_THREADS = 64, 64
_OFFSET = re.compile(rb"^monotonic\s+(-?\d+)\s+(\d+)$", re.MULTILINE)
_OPENED_AT = {NVTX: 32, GPU: 16}
"""Where the header of a process's file says when it was opened (tools/layout_list.py prints it)."""
_APART_NS = 1_000_000_000
"""What is noted further than this outside the recording was noted by another clock."""


def left_running(running: Mapping[int, str]) -> tuple[str, ...]:
    """What must be said of processes, by name, that went on when the program ended."""
    if not running:
        return ()
    shown = [f"{name or 'unknown'} ({pid})" for pid, name in list(running.items())[:_MOST_NAMED]]
    more = f" and {len(running) - _MOST_NAMED} more" if len(running) > _MOST_NAMED else ""
    what = format_counted(len(running), "process", "processes")
    told = f"{what} of the program went on when its first process ended: {', '.join(shown)}{more}."
    remedy = "Keep the program in the foreground, or record such a process with --pid."
    return (f"{told} What came after that is not recorded. {remedy}",)


def not_recorded(left_out: Sequence[int]) -> str:
    """What must be said of the program's processes that ran before the recording and are not in it; empty of none."""
    if not left_out:
        return ""
    what = format_counted(len(left_out), "process of the program that ran before is", "processes that ran before are")
    return f"{what} not recorded. Record one of them with --pid, or all with --system-wide."


class Clocks(Tool):
    """Looks which time namespaces the program's processes are in."""

    def __init__(self, setup: Setup) -> None:
        request = setup.request
        self._directory = setup.directory
        self._late = bool(request.pid or request.delay_s or request.own_process)
        self._root, self._began_ns, self._pause_s = 0, 0, _FIRST_LOOK_S
        self._due = 0.0
        self._own = _namespace("self")
        self._others: dict[int, str] = {}
        if _offset("self"):
            setup.notes.append(
                f"pinprof runs in a time namespace, {_apart('self')}, by which samples are timed. Python lines, memory "
                "over time and ranges do not fit the samples. Record outside the time namespace."
            )

    def attach(self, program: Program) -> None:
        """The process whose descendants are looked at."""
        self._root = program.pid
        # What has run before has noted times before.
        self._began_ns = 0 if self._late else time.monotonic_ns()

    def watch(self) -> float:
        """Look if it is time; seconds until the next look."""
        now = time.monotonic()
        if self._others:
            return float("inf")
        if now >= self._due:
            for pid in tree(self._root, _MOST_PROCESSES, _MOST_THREADS):
                if _namespace(str(pid)) not in ("", self._own):
                    name = contents(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()
                    self._others[pid] = f"{name} ({pid}) is in another time namespace, {_apart(str(pid))}"
            self._due = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_S)
        return self._due - now

    def result(self) -> ToolResult:
        """That there is another clock, by what was seen of processes, or by what they noted."""
        said = next(iter(self._others.values()), "")
        began, end = self._began_ns - _APART_NS, time.monotonic_ns() + _APART_NS
        if not said and any(not began <= at <= end for at in _noted_times(self._directory)):
            said = "A process of the program notes times at which it was not recorded, as in another time namespace"
        if not said:
            return ToolResult({})
        text = f"{said}. Its ranges, NVTX events and GPU work do not fit the samples. Record it without that namespace."
        return ToolResult({}, (text,))


def _namespace(pid: str) -> str:
    """Its name; empty where there is none, or it may not be known."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/time").readlink())
    return ""


def _offset(pid: str) -> int:
    """Nanoseconds by which CLOCK_MONOTONIC of a process is ahead of the kernel's."""
    found = _OFFSET.search(contents(f"/proc/{pid}/timens_offsets"))
    return int(found[1]) * 1_000_000_000 + int(found[2]) if found else 0


def _apart(pid: str) -> str:
    offset = _offset(pid)
    return f"whose CLOCK_MONOTONIC is {format_ns(abs(offset))} {'behind' if offset < 0 else 'ahead of'} the kernel's"


def _noted_times(directory: Path) -> Iterator[int]:
    """When processes of the program say that something was, once for each of their files."""
    for folder, place in _OPENED_AT.items():
        for path in sorted((directory / folder).glob("*.bin")):
            with suppress(OSError, struct.error), path.open("rb") as file:
                yield struct.unpack_from("<Q", file.read(place + 8), place)[0]
    with suppress(OSError, ValueError, KeyError, TypeError), (directory / RANGES).open("rb") as file:
        yield int(json.loads(file.readline(1 << 16))["start_ns"])


COLLECTOR = Collector(lambda setup: [Clocks(setup)])
