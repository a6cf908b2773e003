"""Rules about copies and the GPU's time. Wall time is that of the activity, less context initialisation."""

from __future__ import annotations

from pinprof.analyze.activity.transfers import PAGEABLE_ASYNC_BYTES
from pinprof.analyze.rules.rule import Verdict, View, clear, fired, lacks, percent
from pinprof.analyze.rules.shares import STAGING
from pinprof.base.units import format_bytes, format_count, format_ns, format_rate, format_share

PAGEABLE_ASYNC_SHARE = 0.01
"""What threads spend in asynchronous calls that copy pageable memory, of wall time."""
TINY_COPIES, TINY_MEDIAN_BYTES, TINY_LINK_SHARE = 1000, 16 << 10, 0.20
SERIAL_SHARE, SERIAL_OVERLAP = 0.10, 0.05
"""Synchronous copies, of the GPU's span; what overlaps kernels, of those."""
SLOW_LINK = 0.70

_TINY_COST = "The cost of many small copies cannot be judged."


def async_from_pageable(view: View) -> Verdict:
    """3: asynchronous copies that are none."""
    copies, wall = view.activity.transfers.pageable_async, view.wall_ns
    what = f"pageable memory by *Async calls (above {format_bytes(PAGEABLE_ASYNC_BYTES)}, or to the host)"
    if not copies.count:
        return clear("Asynchronous copies use pinned memory.", f"No copies of {what}.")
    evidence = (
        f"{format_count(copies.count)} copies of {what} block their callers for {format_ns(copies.host_ns)}, "
        f"{format_share(copies.host_ns, wall)} of {format_ns(wall)}; threshold {percent(PAGEABLE_ASYNC_SHARE)}."
    )
    if copies.host_ns >= PAGEABLE_ASYNC_SHARE * wall:
        return fired(
            "Asynchronous copies of pageable memory block the caller.",
            evidence,
            advice="Copy from pinned memory. A small pinned staging ring is enough.",
            stake=view.stake(copies.host_ns),
        )
    return clear("Asynchronous copies of pageable memory cost little.", evidence)


def staged(view: View) -> Verdict:
    """2, by copies: synchronous copies that the driver stages."""
    transfers, wall = view.activity.transfers, view.wall_ns
    copies = transfers.pageable_sync
    if not copies.count:
        return clear("The driver does not stage synchronous copies.", "No synchronous copies of pageable memory.")
    # Of copies without a call the time of the callers is not known: it is at least the copy's.
    spent = max(copies.host_ns, copies.busy_ns)
    evidence = [
        (
            f"{format_count(copies.count)} synchronous copies of pageable memory move "
            f"{format_bytes(copies.size_bytes)} at {format_rate(copies.size_bytes, copies.busy_ns)} and take "
            f"{format_ns(spent)}, {format_share(spent, wall)} of {format_ns(wall)} (threshold {percent(STAGING)})."
        )
    ]
    slow = True
    if transfers.link:
        rate = min(transfers.link.to_device_gb_per_s, transfers.link.to_host_gb_per_s)
        slow = copies.size_bytes < SLOW_LINK * rate * copies.busy_ns
        evidence.append(
            f"Pinned memory moves {rate:.3g} GB/s over {transfers.link.name} (threshold {percent(SLOW_LINK)} of that)."
        )
    if slow and spent >= STAGING * wall > 0:
        return fired(
            "The driver copies pageable memory through its own pinned buffer while the caller waits.",
            *evidence,
            advice="Use pinned buffers (cudaMallocHost, pin_memory=True), or register memory that is copied "
            "repeatedly (cudaHostRegister); for one-off transfers, staging may still be cheaper.",
            stake=view.stake(spent),
        )
    return clear("Staging copies by the driver take little time.", *evidence)


def tiny_copies(view: View) -> Verdict:
    """4: many small copies where few large ones would do."""
    transfers = view.activity.transfers
    many = [
        entry
        for entry in transfers.directions
        if entry.count >= TINY_COPIES and entry.median_bytes < TINY_MEDIAN_BYTES and entry.direction in ("H2D", "D2H")
    ]
    limits = f"{format_count(TINY_COPIES)} copies, median below {format_bytes(TINY_MEDIAN_BYTES)}"
    if not many:
        return clear("There are few small copies.", f"No copy direction has {limits}.")
    if transfers.link is None:
        return lacks("The type of the GPU's link, which determines its rate.", title=_TINY_COST)
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
        return fired(
            "Many small copies leave the link idle.",
            *evidence,
            advice="Pack the data and copy it in one piece, or batch the copies.",
            stake=view.stake(sum(max(entry.busy_ns, entry.host_ns) for entry in many)),
        )
    return clear("Small copies use the link well enough.", *evidence)


def sync_serialisation(view: View) -> Verdict:
    """5: the program waits for every copy before it goes on."""
    serial = view.activity.transfers.serial
    span = f"the GPU's {format_ns(serial.span_ns)}"
    if serial.devices > 1:
        span = f"the {format_ns(serial.span_ns)} of {format_count(serial.devices)} GPUs together"
    evidence = (
        f"{format_count(serial.count)} copies that the program waits for take {format_ns(serial.copy_ns)}, "
        f"{format_share(serial.copy_ns, serial.span_ns)} of {span} "
        f"(threshold {percent(SERIAL_SHARE)}); kernels overlap {format_share(serial.overlapped_ns, serial.copy_ns)} "
        f"of that (threshold {percent(SERIAL_OVERLAP)})."
    )
    if serial.copy_ns >= SERIAL_SHARE * serial.span_ns and serial.overlapped_ns < SERIAL_OVERLAP * serial.copy_ns:
        return fired(
            "Copies and kernels alternate: the program waits for each copy.",
            evidence,
            advice="Split the work, and copy one part on its own stream while the GPU computes another (double "
            "buffering).",
            stake=view.stake(serial.copy_ns - serial.overlapped_ns),
        )
    return clear("Waiting for copies does not keep the GPU from computing.", evidence)


def slow_link(view: View) -> Verdict:
    """6: large pinned copies are slower than the link."""
    link = view.activity.transfers.link
    assert link
    evidence, slow = [], False
    for direction, copies in view.large_pinned_copies():
        rate = link.rate(direction) or 0.0
        share = copies.size_bytes / copies.busy_ns / rate
        slow = slow or share < SLOW_LINK
        evidence.append(
            f"{format_count(copies.count)} pinned copies {direction} run at "
            f"{format_rate(copies.size_bytes, copies.busy_ns)}, {format_share(share, 1)} of the {rate:.3g} GB/s that "
            f"{link.name} gives in practice (threshold {percent(SLOW_LINK)})."
        )
    evidence.append(f"{link.source[0].upper()}{link.source[1:]}.")
    if slow:
        return fired(
            "Large pinned copies are slower than the link allows.",
            *evidence,
            advice="Check the link's generation and width under load, the NUMA node of the memory, and the IOMMU.",
            stake=view.stake(view.lost_on_link_ns() or 0.0),
        )
    return clear("Large pinned copies run at the speed of the link.", *evidence)


def transfer_dominates(view: View) -> Verdict:
    """22: the GPU moves data longer than it computes."""
    whole, link = view.activity.whole, view.activity.transfers.link
    evidence = [f"{format_ns(whole.copy_ns)} of copies and migrations, {format_ns(whole.kernel_ns)} of kernels."]
    moved = sum(entry.size_bytes for entry in view.activity.transfers.directions if entry.direction in ("H2D", "D2H"))
    moved += sum(entry.size_bytes.total for entry in whole.migrations if entry.direction in ("H2D", "D2H"))
    if link:
        evidence.append(
            f"{format_bytes(moved)} takes about {format_ns(moved / link.to_device_gb_per_s)} on {link.name}."
        )
    if whole.copy_ns > whole.kernel_ns:
        return fired(
            "The GPU spends more time moving data than computing.",
            *evidence,
            advice="Keep data on the GPU between steps, fuse steps, batch copies, overlap them with kernels.",
            stake=view.stake(whole.copy_ns),
        )
    return clear("The GPU spends more time computing than moving data.", *evidence)
