"""What no recorder of samples can record."""

from __future__ import annotations

from pinprof.base.errors import UsageError
from pinprof.collect.program import find_program
from pinprof.collect.request import RecordRequest

CALL_GRAPHS = ("fp", "dwarf", "lbr")
MAX_FREQUENCY = 50_000


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
