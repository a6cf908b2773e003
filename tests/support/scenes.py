"""Runs written down in tests as detectors see them: stacks over time, calls with what uprobes tell, and round prices.

Times are milliseconds. Prices are nanoseconds per MiB without a fixed part, so that every prediction can be computed by
hand; each is good to a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.allocations.blocks import blocks_of
from pinprof.analyze.allocations.lifetimes import allocations_of
from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.course.copies import copies_of
from pinprof.analyze.course.course import course_of
from pinprof.analyze.course.results import Steps
from pinprof.analyze.ledger.engine import ledger_of
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.ranges.membership import membership
from pinprof.analyze.sites import Sites
from pinprof.data.activity import (
    NO_STREAM,
    UNRECORDED,
    Activity,
    ApiCallTable,
    Caller,
    CallOverhead,
    CopyKind,
    MemoryKind,
)
from pinprof.data.model import READY, Capture
from pinprof.data.rate_book import BENCH, RateBook, RateSource
from pinprof.data.rates import Rate
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

MS, MIB = 1_000_000, 1 << 20
EVENTS = (CLOCK, OFF_CPU)
SITES = (Caller("step", "app.cu", 11), Caller("load", "app.cu", 40))

MAIN = ("main@/app",)
FAULT = (*MAIN, "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "__handle_mm_fault")
SMALL = (*FAULT, "do_anonymous_page", "clear_page_erms")
HUGE = (*FAULT, "do_huge_pmd_anonymous_page", "clear_huge_page", "clear_page_erms")
FREE = (*MAIN, "__x64_sys_munmap", "__vm_munmap", "do_vmi_munmap", "vms_complete_munmap_vmas", "unmap_vmas",
        "unmap_page_range")  # fmt: skip
COPIED = (*FAULT, "do_wp_page", "wp_page_copy", "copy_mc_user_highpage", "copy_mc_fragile")
MAPPED = (*FAULT, "do_fault", "__do_fault", "filemap_fault")
UVM = (*FAULT, "do_fault", "__do_fault", "uvm_vm_fault_entry[nvidia_uvm]")
MOVED = (*UVM, "block_copy_resident_pages[nvidia_uvm]")
PINNED = (*MAIN, "__x64_sys_ioctl", "rm_ioctl[nvidia]", "os_lock_user_pages[nvidia]", "pin_user_pages",
          "__get_user_pages")  # fmt: skip
CREATED = (*PINNED, "handle_mm_fault", "do_anonymous_page")
POLLS = (*MAIN, "cuStreamSynchronize@/usr/lib/libcuda.so.580.1", "clock_gettime@/usr/lib/libc.so.6", "[vdso]@[vdso]")

PRICES: Mapping[str, float] = {
    "pin.alloc": 300_000,
    "pin.register-touched": 30_000,
    "free.unregister": 20_000,
    "touch.first": 200_000,
    "prefault.t8": 100_000,
    "h2d.pageable": 100_000,
    "h2d.pinned": 20_000,
    "d2h.pageable": 80_000,
    "d2h.pinned": 20_000,
    "memcpy.host": 50_000,
    "file.read": 60_000,
    "uvm.cpu-readback": 200_000,
    "uvm.first-touch": 250_000,
    "uvm.ondemand": 100_000,
    "uvm.prefetch": 20_000,
    "uvm.prefetch-back": 30_000,
}


@dataclass(frozen=True)
class Traced:
    """A call as uprobes see it."""

    name: str
    start: float
    end: float
    size: int = -1
    site: int = 0
    direction: int = UNRECORDED
    source: int = UNRECORDED
    target: int = UNRECORDED
    address: int = 0
    from_file: bool = False
    stream: int = NO_STREAM
    pid: int = 100
    tid: int = 100


def to_gpu(start: float, end: float, size: int, source: int = MemoryKind.PAGEABLE, **other: object) -> Traced:
    """A copy to the GPU."""
    made = Traced("cuMemcpyHtoD", start, end, size, 0, CopyKind.HOST_TO_DEVICE, source, MemoryKind.DEVICE, 4096)
    return replace(made, **other)  # type: ignore[arg-type]


def to_host(start: float, end: float, size: int, target: int = MemoryKind.PAGEABLE, **other: object) -> Traced:
    """A copy to the host."""
    made = Traced("cuMemcpyDtoH", start, end, size, 0, CopyKind.DEVICE_TO_HOST, MemoryKind.DEVICE, target, 4096)
    return replace(made, **other)  # type: ignore[arg-type]


def ran(start: int, end: int, stack: Sequence[str] = MAIN, pid: int = 100, tid: int = 100) -> list[Sample]:
    """A sample for each millisecond of [start, end)."""
    return [Sample(stack, MS, time * MS, pid, tid) for time in range(start + 1, end + 1)]


def waited(start: int, end: int, stack: Sequence[str], tid: int = 100) -> list[Sample]:
    """One wait."""
    return [Sample(stack, (end - start) * MS, start * MS, 100, tid, 1)]


def preempted(made: Capture) -> Capture:
    """The capture with its waits as time in which processors ran something else while the thread was ready."""
    samples = made.samples
    flags = np.where(samples.event == EVENTS.index(OFF_CPU), READY, 0).astype(np.uint8)
    return replace(made, samples=replace(samples, wait=flags))


def prices(**changed: float | None) -> RateBook:
    """The round prices; `pin_alloc=None` leaves one out. `h2d_small` is one of a call, whatever its size."""
    named = {name.replace("_", ".", 1).replace("_", "-"): price for name, price in changed.items()}
    known = {name: price for name, price in {**PRICES, **named}.items() if price is not None}
    return RateBook([RateSource(BENCH, tuple(
        Rate(name, 0 if name == "h2d.small" else MIB, price, 0.9 * price, 1.1 * price) for name, price in known.items()
    ), 0.1)])  # fmt: skip


def table(calls: Sequence[Traced], sites: tuple[Caller, ...] = SITES) -> ApiCallTable:
    """Calls in order of their start."""
    rows = sorted(calls, key=lambda call: call.start)
    names = tuple(dict.fromkeys(call.name for call in rows))
    return ApiCallTable.of(
        len(rows),
        start_ns=[round(call.start * MS) for call in rows],
        end_ns=[round(call.end * MS) for call in rows],
        name=[names.index(call.name) for call in rows],
        pid=[call.pid for call in rows],
        tid=[call.tid for call in rows],
        correlation_id=np.arange(1, len(rows) + 1),
        names=names,
        size_bytes=[call.size for call in rows],
        site=[call.site for call in rows],
        sites=sites,
        copy_kind=[call.direction for call in rows],
        source_kind=[call.source for call in rows],
        target_kind=[call.target for call in rows],
        from_file=[call.from_file for call in rows],
        host_address=[call.address for call in rows],
        stream=np.array([call.stream for call in rows], np.uint64),
    )


def recorded(
    samples: Sequence[Sample],
    calls: Sequence[Traced] = (),
    *,
    ranges: Sequence[Range] = (),
    sites: tuple[Caller, ...] = SITES,
    overhead: CallOverhead | None = None,
    threads: Mapping[tuple[int, int], str] | None = None,
) -> Capture:
    """A capture of samples, waits and calls."""
    made = capture(samples, ranges, threads, EVENTS)
    if not calls:
        return made
    traced = Activity("uprobes", calls=table(calls, sites), recorded=frozenset({"cuda calls"}), call_overhead=overhead)
    return replace(made, activity=traced)


def scene(made: Capture, book: RateBook | None = None, steps: Steps | None = None) -> Scene:
    """What detectors look at."""
    attribution = attribute(made)
    calls = prepare_calls(made.activity) if made.activity is not None else None
    course = course_of(made, attribution, calls)
    assert course is not None
    copies = copies_of(made, calls) if calls is not None else None
    history = allocations_of(made, calls) if calls is not None else None
    ledger = ledger_of(made, calls, history, copies, np.zeros(0, np.int64)) if calls and history else None
    course, members, sites = replace(course, steps=steps), membership(made), Sites(made)
    rates, blocks = book or prices(), blocks_of(made.host_memory)
    return Scene(made, attribution, course, members, sites, calls, copies, history, ledger, rates, blocks)
