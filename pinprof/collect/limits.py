"""What no recorder of samples can record, and what the system leaves to recorders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pinprof.base.errors import CollectError, UsageError
from pinprof.collect.program import find_program
from pinprof.collect.request import RecordRequest
from pinprof.machine import process_limits
from pinprof.machine.small_files import number

CALL_GRAPHS = ("fp", "dwarf", "lbr")
MAX_FREQUENCY = 50_000
MAX_SAMPLE_RATE = Path("/proc/sys/kernel/perf_event_max_sample_rate")


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
    return number(MAX_SAMPLE_RATE)


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
    left = process_limits.few_left()
    if left is None:
        return None
    return CollectError(
        f"This container or user can start only {left} more processes, which pinprof leaves to the program.",
        "Raise the limit (`ulimit -u`, `docker run --pids-limit`).",
        "limits",
    )
