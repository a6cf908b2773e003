"""Rules about CUDA and GPU activity. Each says what it compared with what; without its input it makes no claim.

Every threshold is a named constant here or beside the quantity it shapes (`calls`, `transfers`, `uvm`). They are
starting points from real captures; docs/diagnoses.md has an entry for each rule. Wall time is that of the activity,
from the first call or GPU work to the last, less context initialisation.
"""

from __future__ import annotations

from pinprof.analyze.activity.calls import CONTEXT_INIT_FACTOR, CONTEXT_INIT_NS
from pinprof.analyze.activity.transfers import LARGE_COPY_BYTES, PAGEABLE_ASYNC_BYTES
from pinprof.analyze.results import Finding
from pinprof.analyze.rules.activity_view import ActivityRule, ActivityView, finding, gpu_facts, not_assessable, percent
from pinprof.analyze.rules.uvm_rules import UVM_RULES
from pinprof.units import format_bytes, format_count, format_ns, format_rate, format_share

ALLOC_PAIRS = 3
ALLOC_SHARE, ALLOC_WALL_NS = 0.01, 50_000_000
PAGEABLE_ASYNC_SHARE = 0.01
"""Of wall time, what threads spend in asynchronous calls that copy pageable memory."""
TINY_COPIES, TINY_MEDIAN_BYTES, TINY_LINK_SHARE = 1000, 16 << 10, 0.20
SERIAL_SHARE, SERIAL_OVERLAP = 0.10, 0.05
"""Of the GPU's span, synchronous copies; of those, what overlaps kernels."""
SLOW_LINK = 0.70
PINNED_SERVER, PINNED_DESKTOP, PINNED_CRITICAL = 0.50, 0.25, 0.80
"""Of the machine's memory, the peak of pinned memory."""
GIANT_PIN_BYTES, FAILING_PIN_BYTES = 64 << 30, 512 << 30

_DESKTOP_GPUS = ("GeForce", "TITAN")


def context_init(view: ActivityView) -> Finding:
    """0: the first call of a process pays for the driver."""
    rule = "context-init"
    if not view.has_calls:
        return not_assessable(rule, "Context initialisation", "CUDA calls.")
    thresholds = f"thresholds {format_ns(CONTEXT_INIT_NS)} and {CONTEXT_INIT_FACTOR} × later calls"
    evidence = [
        f"{entry.name} takes {format_ns(entry.duration_ns)}"
        + (f", later ones {format_ns(entry.typical_ns)}" if entry.typical_ns is not None else "; there is no later one")
        + f" ({thresholds})."
        for entry in view.activity.context_init
    ]
    if evidence:
        return finding(
            rule, "info", "The first CUDA call creates the context; it is kept out of everything else here.", *evidence,
            advice="Call cudaFree(0) before what you time.",
        )  # fmt: skip
    return finding(rule, "ok", "No call creates a context while it was recorded.", f"No first call meets {thresholds}.")


def alloc_loop(view: ActivityView) -> Finding:
    """1: memory of one kind and size is allocated and freed again and again."""
    rule, wall = "alloc-loop", view.wall_ns
    missing = ""
    if any(loop.up_to_bytes is None for loop in view.activity.loops):
        missing = "Sizes of some allocations: pairs of different sizes count together."
    # Launches are not among the calls that uprobes record: there, work begins with the first copy.
    began = "the first kernel" if view.knows_cuda else "the first copy"
    repeated = [loop for loop in view.activity.loops if loop.pairs >= ALLOC_PAIRS]
    if not repeated:
        return finding(
            rule, "ok", "No memory is allocated and freed again and again.",
            f"Fewer than {ALLOC_PAIRS} pairs of one kind and size after {began}.", missing=missing,
        )  # fmt: skip
    cost = sum(loop.cost_ns for loop in repeated)
    evidence = [
        f"{format_count(loop.pairs)} pairs of {loop.what} memory"
        + (f" up to {format_bytes(loop.up_to_bytes)}" if loop.up_to_bytes else "")
        + f" take {format_ns(loop.cost_ns)} (threshold {ALLOC_PAIRS} pairs after {began})."
        for loop in repeated[:4]
    ]
    evidence.append(
        f"Together {format_ns(cost)}, {format_share(cost, wall)} of {format_ns(wall)} "
        f"(threshold {percent(ALLOC_SHARE)} or {format_ns(ALLOC_WALL_NS)})."
    )
    if cost >= ALLOC_SHARE * wall or cost >= ALLOC_WALL_NS:
        return finding(
            rule, "warning", "The same buffers are allocated and freed again and again.", *evidence,
            advice="Allocate once and reuse, or take buffers from a pool.", missing=missing,
        )  # fmt: skip
    return finding(rule, "ok", "Allocation is not repeated at a noticeable cost.", *evidence, missing=missing)


def async_from_pageable(view: ActivityView) -> Finding:
    """3: asynchronous copies that are none."""
    rule, found, wall = "async-from-pageable", view.activity.transfers.pageable_async, view.wall_ns
    what = f"pageable memory by *Async calls (above {format_bytes(PAGEABLE_ASYNC_BYTES)}, or to the host)"
    if not found.count:
        return finding(rule, "ok", "Asynchronous copies use memory that allows it.", f"No copies of {what}.")
    evidence = (
        f"{format_count(found.count)} copies of {what} keep their callers {format_ns(found.host_ns)}, "
        f"{format_share(found.host_ns, wall)} of {format_ns(wall)}; threshold {percent(PAGEABLE_ASYNC_SHARE)}."
    )
    if found.host_ns >= PAGEABLE_ASYNC_SHARE * wall:
        return finding(
            rule, "warning", "Asynchronous copies of pageable memory block the caller.", evidence,
            advice="Copy from pinned memory: a small pinned ring that data is staged through is enough.",
        )  # fmt: skip
    return finding(rule, "ok", "Asynchronous copies of pageable memory cost little.", evidence)


def tiny_copies(view: ActivityView) -> Finding:
    """4: many small copies where few large ones would do."""
    rule, transfers = "tiny-copies", view.activity.transfers
    many = [
        entry for entry in transfers.directions
        if entry.count >= TINY_COPIES and entry.median_bytes < TINY_MEDIAN_BYTES and entry.direction in ("H2D", "D2H")
    ]  # fmt: skip
    limits = f"{format_count(TINY_COPIES)} copies, median below {format_bytes(TINY_MEDIAN_BYTES)}"
    if not many:
        return finding(rule, "ok", "Copies are not many and tiny.", f"No direction has {limits}.")
    if transfers.link is None:
        return not_assessable(rule, "The cost of many small copies", "Which link the GPU has, and so what it could do.")
    evidence, slow = [], False
    for entry in many:
        rate = transfers.link.rate(entry.direction) or 0.0
        share = entry.size_bytes / entry.busy_ns / rate if entry.busy_ns else 0.0
        slow = slow or share < TINY_LINK_SHARE
        evidence.append(
            f"{format_count(entry.count)} copies {entry.direction}, median {format_bytes(entry.median_bytes)} "
            f"(threshold {limits}), at {format_rate(entry.size_bytes, entry.busy_ns)}, {format_share(share, 1)} of "
            f"{transfers.link.name} (threshold {percent(TINY_LINK_SHARE)})."
        )
    if slow:
        return finding(
            rule, "warning", "Many small copies leave the link idle.", *evidence,
            advice="Pack the data and copy it at once, or batch the copies.",
        )  # fmt: skip
    return finding(rule, "ok", "Small copies use the link well enough.", *evidence)


def sync_serialisation(view: ActivityView) -> Finding:
    """5: the program waits for every copy before it goes on."""
    rule, serial = "sync-serialisation", view.activity.transfers.serial
    if not serial.span_ns:
        return not_assessable(rule, "Waiting for copies", "GPU work.")
    evidence = (
        f"{format_count(serial.count)} copies that are waited for run {format_ns(serial.copy_ns)}, "
        f"{format_share(serial.copy_ns, serial.span_ns)} of the GPU's {format_ns(serial.span_ns)} "
        f"(threshold {percent(SERIAL_SHARE)}); kernels overlap {format_share(serial.overlapped_ns, serial.copy_ns)} "
        f"of that (threshold {percent(SERIAL_OVERLAP)})."
    )
    if serial.copy_ns >= SERIAL_SHARE * serial.span_ns and serial.overlapped_ns < SERIAL_OVERLAP * serial.copy_ns:
        return finding(
            rule, "warning", "Copies and kernels take turns: the program waits for each copy.", evidence,
            advice="Split the work, and copy one part on its own stream while another is computed (double buffering).",
        )  # fmt: skip
    return finding(rule, "ok", "Waiting for copies does not keep the GPU from computing.", evidence)


def slow_link(view: ActivityView) -> Finding:
    """6: large pinned copies are slower than the link."""
    rule, transfers = "slow-link", view.activity.transfers
    subject = "Whether the link is as fast as it should be"
    large = [
        (entry.direction, entry.large_pinned) for entry in transfers.directions
        if entry.large_pinned.busy_ns and entry.direction in ("H2D", "D2H")
    ]  # fmt: skip
    if not large:
        return not_assessable(rule, subject, f"Pinned copies of at least {format_bytes(LARGE_COPY_BYTES)}.")
    if transfers.link is None:
        return not_assessable(rule, subject, "Which link the GPU has.")
    evidence, slow = [], False
    for direction, copies in large:
        rate = transfers.link.rate(direction) or 0.0
        share = copies.size_bytes / copies.busy_ns / rate
        slow = slow or share < SLOW_LINK
        evidence.append(
            f"{format_count(copies.count)} pinned copies {direction} run at "
            f"{format_rate(copies.size_bytes, copies.busy_ns)}, {format_share(share, 1)} of the {rate:.3g} GB/s that "
            f"{transfers.link.name} gives in practice (threshold {percent(SLOW_LINK)})."
        )
    evidence.append(f"{transfers.link.source[0].upper()}{transfers.link.source[1:]}.")
    if slow:
        return finding(
            rule, "warning", "Large pinned copies are slower than the link allows.", *evidence,
            advice="Check the link's generation and width under load, the NUMA node of the memory, and the IOMMU.",
        )  # fmt: skip
    return finding(rule, "ok", "Large pinned copies run at the speed of the link.", *evidence)


def transfer_dominates(view: ActivityView) -> Finding:
    """22: the GPU moves data longer than it computes."""
    rule, whole, link = "transfer-dominates", view.activity.whole, view.activity.transfers.link
    if not whole.kernel_ns and not whole.copy_ns:
        return not_assessable(rule, "Copying against computing", "GPU work.")
    evidence = [f"{format_ns(whole.copy_ns)} of copies and migrations, {format_ns(whole.kernel_ns)} of kernels."]
    moved = sum(entry.size_bytes for entry in view.activity.transfers.directions if entry.direction in ("H2D", "D2H"))
    moved += sum(entry.size_bytes.total for entry in whole.migrations if entry.direction in ("H2D", "D2H"))
    if link:
        evidence.append(
            f"{format_bytes(moved)} takes at least {format_ns(moved / link.to_device_gb_per_s)} on {link.name}."
        )
    if whole.copy_ns > whole.kernel_ns:
        return finding(
            rule, "warning", "The GPU spends more time on moving data than on computing.", *evidence,
            advice="Keep data on the GPU between steps, fuse steps, batch copies, overlap them with kernels.",
        )  # fmt: skip
    return finding(rule, "ok", "The GPU computes longer than it moves data.", *evidence)


_ALLOCATIONS = "Allocations: recorded CUDA calls, or nsys profile --cuda-memory-usage=true."


def over_pinned(view: ActivityView) -> Finding:
    """16: pinned memory takes too much of the machine."""
    rule, subject = "over-pinned", "How much of the machine's memory is pinned"
    memory, total = view.activity.memory, view.host.get("memory_bytes")
    if memory is None:
        return not_assessable(rule, subject, _ALLOCATIONS)
    if not isinstance(total, int) or total <= 0:
        return not_assessable(rule, subject, "The machine's memory size.")
    desktop = any(name in str(gpu) for gpu in gpu_facts(view.host, "name") for name in _DESKTOP_GPUS)
    limit = PINNED_DESKTOP if desktop else PINNED_SERVER
    evidence = (
        f"At most {format_bytes(memory.pinned_bytes)} pinned at once, {format_share(memory.pinned_bytes, total)} of "
        f"{format_bytes(total)} (thresholds {percent(limit)} on a {'desktop' if desktop else 'server'}, "
        f"{percent(PINNED_CRITICAL)} critical)."
    )
    if memory.pinned_bytes > limit * total:
        return finding(
            rule, "critical" if memory.pinned_bytes > PINNED_CRITICAL * total else "warning",
            "Pinned memory leaves little for everything else.", evidence,
            advice="Cap it: stage through a ring of a few pinned buffers.",
        )  # fmt: skip
    return finding(rule, "ok", "Pinned memory leaves room for the rest.", evidence)


def giant_pin(view: ActivityView) -> Finding:
    """17: one call pins more than it should."""
    rule, memory = "giant-pin", view.activity.memory
    if memory is None:
        subject = "The size of pinned allocations"
        return not_assessable(rule, subject, _ALLOCATIONS)
    evidence = (
        f"The largest pinned allocation is {format_bytes(memory.largest_pin_bytes)} (thresholds "
        f"{format_bytes(GIANT_PIN_BYTES)}, {format_bytes(FAILING_PIN_BYTES)} critical)."
    )
    if memory.largest_pin_bytes >= GIANT_PIN_BYTES:
        return finding(
            rule, "critical" if memory.largest_pin_bytes >= FAILING_PIN_BYTES else "warning",
            "One call pins a very large buffer.", evidence,
            advice="Pin in pieces of at most 64 GiB, and check every return code: drivers from 580 on fail at 512 GiB.",
        )  # fmt: skip
    return finding(rule, "ok", "No single pin is very large.", evidence)


ACTIVITY_RULES: tuple[ActivityRule, ...] = (
    ActivityRule("context-init", "Context initialisation", context_init, of_calls=True),
    ActivityRule("async-from-pageable", "Whether asynchronous copies block", async_from_pageable),
    ActivityRule("tiny-copies", "The size of copies", tiny_copies),
    ActivityRule("sync-serialisation", "Waiting for copies", sync_serialisation),
    ActivityRule("slow-link", "Whether the link is as fast as it should be", slow_link),
    ActivityRule("transfer-dominates", "Copying against computing", transfer_dominates),
    *UVM_RULES,
    ActivityRule("over-pinned", "How much of the machine's memory is pinned", over_pinned, of_calls=True),
    ActivityRule("giant-pin", "The size of pinned allocations", giant_pin, of_calls=True),
)
"""In the order of reports."""
