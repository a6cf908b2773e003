"""The answer in one sentence, of a recording of CUDA activity without samples of the kernel."""

from __future__ import annotations

from pinprof.analyze.activity.results import ActivityAnalysis, DeviceTime, Direction, UvmAnalysis
from pinprof.analyze.activity.sampled import sample_words
from pinprof.analyze.activity.uvm import at_most
from pinprof.analyze.evidence import LEAST_SHARE
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns, format_rate, format_share
from pinprof.data.gpu_functions import Purpose

LINK_FULL = 0.90
"""Copies in one direction, of a GPU's time from its first work to its last: the link is what the GPU waits for."""
LONG_WAIT = 0.10
"""Waits for the GPU in one function, of the run: named from this share on."""
MOST_OF_RUN = 0.50
"""The GPU's time, of the run's."""

_MEMORY_CALLS: tuple[Purpose, ...] = (
    "alloc device", "alloc pinned", "alloc managed", "register", "free device", "free pinned", "unregister", "copy",
    "set", "prefetch",
)  # fmt: skip

_WAYS: tuple[tuple[Direction, str], ...] = (("H2D", "to the device"), ("D2H", "to the host"))


_FEW = 2


def activity_headline(activity: ActivityAnalysis, *, possible: bool = True) -> str:
    """What takes the time; empty without calls and GPU work. Not `possible`: the GPU's times can't be trusted."""
    if possible and activity.uvm and activity.uvm.pattern == "fault storm":
        return _storm_sentence(activity, activity.uvm)
    if possible and (full := full_link(activity)):
        return full
    memory = [call for call in activity.whole.calls if call.purpose in _MEMORY_CALLS]
    if memory:
        dearest = max(memory, key=lambda call: call.time_ns.total)
        spent, copied = sum(call.time_ns.total for call in memory), activity.whole.copy_ns if possible else 0
        if max(spent, copied) < LEAST_SHARE * activity.span_ns:
            share = format_share(spent, activity.span_ns)
            work = _gpu_work(activity, possible=possible)
            return f"{activity.api} calls for memory take {share} of the run{_waiting(activity)}; {work}."
        size = dearest.size_bytes
        if dearest.purpose == "copy" and activity.whole.copies:
            # Copies tell more than calls: of some no call is known.
            size = sum(copy.size_bytes.total for copy in activity.whole.copies)
        moved = f" for {format_bytes(size)}" if size else ""
        return (
            f"{dearest.name} takes {format_share(dearest.time_ns.total, activity.span_ns)} of the run: "
            f"{format_ns(dearest.time_ns.total)} in {format_counted(dearest.count, 'call', 'calls')}{moved}; "
            f"{_gpu_work(activity, possible=possible)}."
        )
    if not activity.whole.calls and not activity.transfers.devices:
        return ""
    sentence = _gpu_work(activity, possible=possible)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _waiting(activity: ActivityAnalysis) -> str:
    """`; cudaDeviceSynchronize waits for the GPU in 67 % of it`; empty where no wait is long."""
    waits = [call for call in activity.whole.calls if call.purpose == "sync"]
    longest = max(waits, key=lambda call: call.time_ns.total, default=None)
    if longest is None or longest.time_ns.total < LONG_WAIT * activity.span_ns:
        return ""
    return f"; {longest.name} waits for the GPU in {format_share(longest.time_ns.total, activity.span_ns)} of it"


def _storm_sentence(activity: ActivityAnalysis, uvm: UvmAnalysis) -> str:
    """`53 % of the kernels' time is lost to 319 GPU fault groups; 192 MiB migrated on demand in 6,915 pieces.`"""
    touched = [
        moved
        for moved in activity.whole.migrations
        if moved.direction == "H2D" and moved.cause in ("fault", "speculative")
    ]
    what = f"{format_count(uvm.gpu_fault_groups)} GPU fault groups" if uvm.gpu_fault_groups else "GPU faults"
    return (
        f"{at_most(uvm)}{format_share(uvm.lost_ns, uvm.kernel_ns)} of the kernels' time is lost to {what}; "
        f"{format_bytes(sum(moved.size_bytes.total for moved in touched))} migrated on demand in "
        f"{format_count(sum(moved.count for moved in touched))} pieces."
    )


def full_link(activity: ActivityAnalysis) -> str:
    """`Copies to the device fill 95 % of the GPU's time: …`; empty where no link is full for most of the run."""
    for direction, words in _WAYS:
        full = [device for device in activity.transfers.devices if _is_full(activity, device, direction)]
        if not full:
            continue
        share = format_share(min(_crossing(device, direction) / device.span_ns for device in full), 1)
        gpus = f"GPU {full[0].device}'s time" if len(full) < len(activity.transfers.devices) else "the GPU's time"
        if len(full) > 1:
            gpus = f"the time of each of {format_count(len(full))} GPUs"
        moves = [*activity.whole.copies, *activity.whole.migrations]
        crossed = [move for move in moves if move.direction == direction]
        size, busy = sum(move.size_bytes.total for move in crossed), sum(move.busy_ns for move in crossed)
        return (
            f"Copies {words} fill {share} of {gpus}: {format_bytes(size)} in "
            f"{format_counted(sum(move.count for move in crossed), 'copy', 'copies')} at {format_rate(size, busy)}; "
            f"{_gpu_work(activity)}."
        )
    return ""


def _crossing(device: DeviceTime, direction: Direction) -> int:
    return device.to_device_ns if direction == "H2D" else device.to_host_ns


def _is_full(activity: ActivityAnalysis, device: DeviceTime, direction: Direction) -> bool:
    return (
        _crossing(device, direction) >= LINK_FULL * device.span_ns > 0
        and device.span_ns >= MOST_OF_RUN * activity.wall_ns
    )


def _gpu_work(activity: ActivityAnalysis, *, possible: bool = True) -> str:
    """`kernels run 8 ms, copies 2 ms`, of any GPU; what was not recorded is said to be so."""
    if activity.sampled:
        return "; ".join(map(sample_words, activity.sampled[:_FEW]))
    whole, unknown = activity.whole, activity.unrecorded
    if not unknown and not activity.transfers.devices:
        return "the recording has no GPU work"
    if not possible:
        return "the GPU's times are damaged"
    known = {"kernels": whole.kernel_ns, "copies": whole.copy_ns}
    times = [f"{what} {format_ns(length)}" for what, length in known.items() if what not in unknown]
    said = ", ".join(times).replace(" ", " run ", 1)
    if said and len(activity.transfers.devices) > 1:
        said = f"on any of {format_count(len(activity.transfers.devices))} GPUs {said}"
    lacking = f"the GPU's {' and '.join(what for what in known if what in unknown)} were not recorded"
    return "; ".join(part for part in (said, lacking if unknown else "") if part)
