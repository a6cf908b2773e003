"""What no recorder of samples can record, and what the system leaves to recorders."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pinprof.base.errors import CollectError, UsageError
from pinprof.collect.program import find_program
from pinprof.collect.request import RecordRequest

CALL_GRAPHS = ("fp", "dwarf", "lbr")
MAX_FREQUENCY = 50_000
MAX_SAMPLE_RATE = Path("/proc/sys/kernel/perf_event_max_sample_rate")
LEFT_TO_THE_PROGRAM = 16
"""Processes and threads: where fewer can be started, pinprof starts none."""
_COUNTED_BELOW = 256
"""A limit for a user's processes above this is no reason to count them."""


def check_request(request: RecordRequest) -> None:
    """UsageError for a call graph, frequency or fault period that does not exist, ProgramNotFound for the program."""
    if request.call_graph not in CALL_GRAPHS:
        problem = f"There is no call graph {request.call_graph!r}."
        raise UsageError(problem, f"Choose one of {', '.join(CALL_GRAPHS)}.", "call-graph")
    if not 1 <= request.frequency <= MAX_FREQUENCY:
        problem = f"{request.frequency} Hz is not a valid frequency."
        raise UsageError(problem, f"Give --frequency 1 to {MAX_FREQUENCY}.", "frequency")
    if request.fault_period < 1:
        problem = f"{request.fault_period} is not a number of page faults."
        raise UsageError(problem, "Give --fault-period 1 or more.", "fault-period")
    if not request.pid:
        find_program(request.command[0])


def max_sample_rate() -> int | None:
    """kernel.perf_event_max_sample_rate, which the kernel lowers by itself when sampling takes too long."""
    return _number(MAX_SAMPLE_RATE)


def at_the_kernels_rate(request: RecordRequest) -> tuple[RecordRequest, str]:
    """The request with a frequency that the kernel allows, and a note where that is not the one it had."""
    most = max_sample_rate()
    if most is None or request.frequency <= most:
        return request, ""
    return replace(request, frequency=max(most, 1)), (
        f"The recording has {most} samples a second, not {request.frequency}, because the kernel allows no more. It "
        "lowers this limit by itself when sampling takes long; to raise it, run "
        f"`sudo sysctl kernel.perf_event_max_sample_rate={request.frequency}`."
    )


def few_processes() -> CollectError | None:
    """What to say where a process of pinprof's own could keep the program from starting one; None where not."""
    left = min(_processes_left(), default=LEFT_TO_THE_PROGRAM)
    if left >= LEFT_TO_THE_PROGRAM:
        return None
    return CollectError(
        f"This container or user can start only {left} more processes, which pinprof leaves to the program.",
        "Raise the limit (`ulimit -u`, `docker run --pids-limit`).",
        "limits",
    )


def _processes_left() -> Iterator[int]:
    """How many more the groups of this process may have, and its user where that is few."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        root = Path("/sys/fs/cgroup", controllers)
        place = root / path.lstrip("/")
        for group in (place, *place.parents):
            most, now = _number(group / "pids.max"), _number(group / "pids.current")
            if most is not None and now is not None:
                yield most - now
            if group == root:
                break
    soft, user = resource.getrlimit(resource.RLIMIT_NPROC)[0], os.getuid()
    if user and 0 <= soft < _COUNTED_BELOW:
        yield soft - sum(map(_threads, _processes_of(user)))


def _processes_of(user: int) -> Iterator[Path]:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == user:
                yield entry
        except OSError:
            continue


def _threads(process: Path) -> int:
    try:
        return len(list((process / "task").iterdir()))
    except OSError:
        return 0


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
