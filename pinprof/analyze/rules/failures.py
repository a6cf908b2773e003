"""The rules about CUDA calls that failed: any of them, and those that were to page-lock memory."""

from __future__ import annotations

from pinprof.analyze.activity.results import CallError, CallResult, FailedPin
from pinprof.analyze.results import Severity
from pinprof.analyze.rules.needs import EVERY_ALLOCATION, EVERY_CALL
from pinprof.analyze.rules.rule import Verdict, View, clear, fired, lacks
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns
from pinprof.data.cuda_errors import ALREADY_SO, NOT_SUPPORTED, OUT_OF_MEMORY
from pinprof.data.gpu_functions import Purpose, asks

_NAMED = 4
_WORK: tuple[Purpose, ...] = (
    "alloc device", "alloc pinned", "alloc managed", "register", "copy", "set", "prefetch", "launch", "sync",
)  # fmt: skip


def failed_calls(view: View) -> Verdict:
    """What failed did not happen, and may explain everything else."""
    calls = sorted((call for call in view.activity.whole.calls if call.errors), key=_weight)
    failed = [call for call in calls if not asks(call.name)]
    evidence = [failure(call, error) for call in failed for error in call.errors][:_NAMED]
    asked = [failure(call, error) for call in calls if call not in failed for error in call.errors][:_NAMED]
    if not failed and not EVERY_CALL.met(view):
        title = "It is not known whether CUDA calls failed."
        return lacks(EVERY_CALL.missing, "No traced call failed.", title=title)
    if not failed:
        return clear("No CUDA call failed.", *asked, "Query calls may return an error as their answer.")
    advice = (
        "Check the return value of every call. After a failed call, later calls use memory or data that does not exist."
    )
    if any(error.status == OUT_OF_MEMORY for call in failed for error in call.errors):
        advice += " Request less memory or smaller pieces, or free unused memory first."
    severity: Severity = "critical" if any(map(_stops, failed)) else "warning"
    return fired(
        evidence[0],
        *evidence[1:],
        "Totals exclude the bytes of failed calls.",
        advice=advice,
        stake=None,
        severity=severity,
    )


def failed_pinned(view: View) -> Verdict:
    """A program whose pin failed often goes on with pageable memory, and says nothing."""
    pins = view.activity.failed_pins
    if not pins and not EVERY_ALLOCATION.met(view):
        title = "It is not known whether page-locking failed."
        return lacks(EVERY_ALLOCATION.missing, "No traced call failed.", title=title)
    if not pins:
        return clear("No page-locking failed.", "Every call that allocates or registers pinned memory succeeded.")
    fallen = [pin for pin in pins if pin.copies]
    first = max(fallen or pins, key=lambda pin: (pin.copying_ns, pin.asked_bytes))
    evidence = [_failed_pin(pin) for pin in pins[:_NAMED]]
    evidence += [
        f"After that, {format_counted(pin.copies, 'copy', 'copies')} of pageable memory of that size moved "
        f"{format_bytes(pin.copied_bytes)} in {format_ns(pin.copying_ns)}."
        for pin in fallen[:_NAMED]
    ]
    evidence += [
        "The CUDA runtime keeps the error until cudaGetLastError takes it. The thread's next launch is"
        f" {pin.surfaces}: a check there reports this error as its own."
        for pin in pins[:_NAMED]
        if pin.surfaces
    ]
    title = f"{first.call} could not page-lock {_asked(first)}: {first.error.name}"
    return fired(
        f"{title}, and the program copies pageable memory instead." if fallen else f"{title}.",
        *evidence,
        advice=_cure({pin.error.status for pin in pins}),
        stake=None,
        severity="critical" if fallen else "warning",
    )


def _asked(pin: FailedPin) -> str:
    return "memory" if pin.largest_bytes is None else format_bytes(pin.largest_bytes)


def _failed_pin(pin: FailedPin) -> str:
    largest = f", {format_bytes(pin.largest_bytes)} at most" if pin.largest_bytes and pin.error.count > 1 else ""
    size = f", {format_bytes(pin.asked_bytes)} in total{largest}" if pin.asked_bytes else ""
    return f"{format_counted(pin.error.count, 'call', 'calls')} of {pin.call} failed with {pin.error.name}{size}."


def _cure(statuses: set[int]) -> str:
    advice = ["Check the return value of every call that page-locks memory, and log a fallback to pageable memory."]
    if OUT_OF_MEMORY in statuses:
        advice.append(
            "Pin less, or pin in pieces of at most 2 GiB. Check `ulimit -l`, the container's memory limit and the "
            "free memory of the NUMA node."
        )
    if NOT_SUPPORTED in statuses:
        advice.append(
            "Registering is not supported on this machine (confidential computing, some virtual machines). Allocate "
            "pinned memory instead."
        )
    return " ".join(advice)


def failure(call: CallResult, error: CallError) -> str:
    """`cudaMalloc failed: cudaErrorMemoryAllocation (2) in 1 of 7 calls.`"""
    of = f"{format_count(error.count)} of {format_counted(call.count, 'call', 'calls')}"
    number = "" if error.name.endswith(f" {error.status}") else f" ({error.status})"
    return f"{call.name} failed: {error.name}{number} in {of}."


def _stops(call: CallResult) -> bool:
    return call.purpose in _WORK and any(error.status not in ALREADY_SO for error in call.errors)


def _weight(call: CallResult) -> tuple[bool, int]:
    return not _stops(call), -call.failures
