"""The rule about CUDA calls that failed."""

from __future__ import annotations

import re

from pinprof.analyze.activity.results import CallError, CallResult, Purpose
from pinprof.analyze.results import Severity
from pinprof.analyze.rules.rule import Verdict, View, clear, fired
from pinprof.units import format_count, format_counted

_NAMED = 4
_ASKS = re.compile(r"(cuda|cu)(Init$|\w*(Get|Query|Peek|CanAccess|Is)(?![a-z]))")
"""Calls that ask: programs and libraries take their errors for an answer."""
_WORK: tuple[Purpose, ...] = (
    "alloc device", "alloc pinned", "alloc managed", "register", "copy", "set", "prefetch", "launch", "sync",
)  # fmt: skip
_ALREADY_SO = (704, 705, 712, 713)
"""Peer access or registration that is there, or gone, already."""
_OUT_OF_MEMORY = 2


def failed_calls(view: View) -> Verdict:
    """What failed did not happen, and may explain everything else."""
    calls = sorted((call for call in view.activity.whole.calls if call.errors), key=_weight)
    failed = [call for call in calls if not _ASKS.match(call.name)]
    evidence = [failure(call, error) for call in failed for error in call.errors][:_NAMED]
    asked = [failure(call, error) for call in calls if call not in failed for error in call.errors][:_NAMED]
    if not failed:
        return clear("No CUDA call failed.", *asked, "What asks a question may answer with an error.")
    advice = "Check the return value of every call: what follows a failed one works on what is not there."
    if any(error.status == _OUT_OF_MEMORY for call in failed for error in call.errors):
        advice += " Ask for less memory, in smaller pieces, or free what is not needed before."
    severity: Severity = "critical" if any(map(_stops, failed)) else "warning"
    return fired(
        evidence[0],
        *evidence[1:],
        "Bytes of failed calls count nowhere.",
        advice=advice,
        stake=None,
        severity=severity,
    )


def failure(call: CallResult, error: CallError) -> str:
    """`cudaMalloc failed: cudaErrorMemoryAllocation (2) in 1 of 7 calls.`"""
    of = f"{format_count(error.count)} of {format_counted(call.count, 'call', 'calls')}"
    number = "" if error.name.endswith(f" {error.status}") else f" ({error.status})"
    return f"{call.name} failed: {error.name}{number} in {of}."


def _stops(call: CallResult) -> bool:
    return call.purpose in _WORK and any(error.status not in _ALREADY_SO for error in call.errors)


def _weight(call: CallResult) -> tuple[bool, int]:
    return not _stops(call), -call.failures
