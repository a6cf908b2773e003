"""Memory of CUDA that is made repeatedly, pages created during pins, and contexts created during the work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.analyze.activity.calls import size_class
from pinprof.analyze.course.results import OWN
from pinprof.analyze.memory import page_bytes
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.catalogue import PYTORCH, cure
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_counted, format_ns, format_share
from pinprof.data.gpu_functions import Purpose
from pinprof.data.model import Int64
from pinprof.data.rate_book import RUN, Estimate

LEAST_PAIRS = 3
ERROR = 0.1
"""The share of the cost of calls by which one run differs from another."""
LEAST_USED = 0.25
"""Of pinned memory: where copies use less, the rest was pinned for nothing."""
ROUNDED_USED = 0.5, 0.9
"""Shares of a power of two of memory that PyTorch pins: where copies use more than the first and less than the
second, it was rounded up to that."""
LEAST_PIN_BYTES = 32 << 20
"""Threads that touch memory pay from there on."""
LEAST_CREATED = 0.3
"""The share of the sampled time in a pin in which pages are created: where less is, they were there already."""
LEAST_FAULTED = 0.5
"""The share of what is pinned that faults inside the call."""
_CREATED = ("pin.faultin", "fault.anon", "fault.file", "fault.entry", "fault.core", "free.shmem")


@dataclass(frozen=True)
class _Kind:
    what: str
    opens: Purpose
    verbs: str
    of: str
    cure: str


_KINDS = (
    _Kind("pinned", "alloc pinned", "pins and frees", "", "pool-pinned"),
    _Kind("registered", "register", "registers and unregisters", "", "register-once"),
    _Kind("device", "alloc device", "allocates and frees", " of device memory", "pool-device"),
    _Kind("managed", "alloc managed", "allocates and frees", " of managed memory", "pool-managed"),
)


def pairs(scene: Scene) -> Iterator[Candidate]:
    """Memory that is allocated and freed repeatedly, by the site that allocates it and its size."""
    calls = scene.calls
    if calls is None or scene.allocations is None:
        return
    begun, freeing = scene.course.start_ns, scene.allocations.freeing(len(calls.table))
    for kind in _KINDS:
        opening = np.flatnonzero(
            calls.is_for(kind.opens) & ~calls.failed & ~calls.initial & (calls.table.start_ns >= begun)
        )
        for opened in scene.call_groups(opening, size_class(calls.size_bytes[opening]) + 1):
            closed = freeing[opened][freeing[opened] >= 0]
            count = len(closed)
            if count < LEAST_PAIRS or 2 * count < len(opened):
                continue
            yield _repeated(scene, kind, opened, closed, count)


def _repeated(scene: Scene, kind: _Kind, opened: Int64, closed: Int64, count: int) -> Candidate:
    calls = scene.calls
    assert calls is not None
    both = np.concatenate([opened, closed])
    rows = scene.rows_inside(both)
    cost = scene.cost_of_calls(both, rows)
    step = np.where(np.isin(np.sort(both), opened), 1, -1)
    live = max(int(np.cumsum(step).max(initial=1)), 1)
    kept = min(live / len(opened), 1.0)
    amount = int(np.maximum(calls.size_bytes[opened], 0).sum())
    size = format_bytes(int(np.median(calls.size_bytes[opened]))) if amount else "unknown size"
    site = scene.site_of_calls(opened, scene.rows_inside(opened))
    opening_ns = scene.cost_of_calls(opened, scene.rows_inside(opened))
    error = ERROR * cost
    remains = Estimate(kept * opening_ns, max(kept * opening_ns - error, 0), kept * opening_ns + error, RUN)
    return Candidate(
        title=f"{site.place} {kind.verbs} {scene.at_least}{format_counted(count, 'buffer', 'buffers')} of {size}"
        f"{kind.of} repeatedly.",
        site=site,
        phase=scene.phase_of(rows),
        rows=rows,
        cost_ns=cost,
        remains=remains,
        cure=cure(kind.cure, scene.framework),
        count=count,
        bytes=amount,
        basis=(
            (f"At most {format_counted(live, 'of them is', 'of them are')} in use at the same time."
            f" Making a pool of that size takes {format_ns(round(remains.ns))}."),
        ),
        evidence=(
            Evidence(f"{format_counted(len(opened), 'allocation takes', 'allocations take')} {format_ns(opening_ns)},"
                     f" {format_counted(len(closed), 'free', 'frees')} {format_ns(cost - opening_ns)}."),
        ),
    )  # fmt: skip


def page_creation(scene: Scene) -> Iterator[Candidate]:
    """Large pins that create their pages one by one, by the site that makes them."""
    calls = scene.calls
    if calls is None:
        return
    pinning = np.flatnonzero(calls.is_for("alloc pinned", "register") & ~calls.initial)
    pinning = pinning[calls.size_bytes[pinning] >= LEAST_PIN_BYTES]
    for group in scene.call_groups(pinning):
        rows, used = scene.rows_inside(group), 1.0
        cost, amount = scene.cost_of_calls(group, rows), int(calls.size_bytes[group].sum())
        share = _copied_share(scene, group)
        if share is not None and (share < LEAST_USED or _is_rounded(scene, group, share)):
            used = share
            rows, idle = _parts(scene, group, rows, used)
            yield _unused(scene, group, idle, cost, amount, used)
        causes = scene.causes(rows)
        created = sum(causes.get(leaf, 0) for leaf in _CREATED)
        amount, cost = round(used * amount), round(used * cost)
        each = scene.rates.cost("prefault.tN", amount // len(group))
        faulted = _creates_pages(scene, group)
        sampled = created >= LEAST_CREATED * max(scene.ns(rows), 1)
        if each is None or not cost or not (sampled if faulted is None else faulted):
            continue
        site = scene.site_of_calls(group, rows)
        remains = each.times(len(group))
        yield Candidate(
            title=f"{site.place} pins {format_bytes(amount)} and creates the pages at the same time.",
            site=site,
            phase=scene.phase_of(rows),
            rows=scene.beside_context(rows),
            cost_ns=cost,
            remains=remains,
            cure=cure("touch-then-register", scene.framework),
            count=len(group),
            bytes=amount,
            basis=((f"Touching {format_bytes(amount)} in huge pages with several threads and registering it takes"
                   f" {format_ns(round(remains.ns))} ({remains.source})."),),
            evidence=(Evidence(f"Creating pages takes {format_share(created, scene.ns(rows))} of the time in these"
                               f" calls, {format_ns(cost)} in total."), *_of_faults(scene, group)),
        )  # fmt: skip


def _faults_in(scene: Scene, pins: Int64) -> int | None:
    """The page faults in these calls; None unless they are known of each."""
    assert scene.calls is not None
    minor = scene.calls.table.minor_faults
    known = minor is not None and len(pins) > 0 and bool((minor[pins] >= 0).all())
    return int(minor[pins].sum()) if minor is not None and known else None


def _creates_pages(scene: Scene, pins: Int64) -> bool | None:
    """Whether these calls create what they pin, by their page faults; None where these do not decide.

    A fault makes one page, which may be a huge one. Memory that the driver itself makes is no fault's.
    """
    assert scene.calls is not None
    faults, amount = _faults_in(scene, pins), int(scene.calls.size_bytes[pins].sum())
    if faults is None:
        return None
    if faults * page_bytes(scene.capture) >= LEAST_FAULTED * amount:
        return True
    return False if not faults and bool(scene.calls.is_for("register")[pins].all()) else None


def _of_faults(scene: Scene, pins: Int64) -> tuple[Evidence, ...]:
    faults = _faults_in(scene, pins)
    if not faults:
        return ()
    return (Evidence(f"{format_counted(faults, 'page fault happens', 'page faults happen')} inside these calls."),)


def _is_rounded(scene: Scene, pins: Int64, used: float) -> bool:
    """Whether PyTorch's allocator has rounded these up to a power of two."""
    assert scene.calls is not None
    size = scene.calls.size_bytes[pins]
    least, most = ROUNDED_USED
    return scene.framework == PYTORCH and least < used < most and not bool((size & (size - 1)).any())


def _parts(scene: Scene, pins: Int64, rows: Int64, used: float) -> tuple[Int64, Int64]:
    """The wall rows in which these pins make the memory that is used, and those of the rest: they go by address."""
    assert scene.calls is not None
    table, time = scene.calls.table, scene.capture.samples.time_ns[scene.course.wall.sample[rows]]
    place = np.maximum(np.searchsorted(table.start_ns[pins], time, "right") - 1, 0)
    start, end = table.start_ns[pins][place], table.end_ns[pins][place]
    first = time < start + used * (end - start)
    return rows[first], rows[~first]


def _copied_share(scene: Scene, pins: Int64) -> float | None:
    """The share of this pinned memory that copies begin in or reach; None unless the place of every copy is known."""
    activity = scene.capture.activity
    if activity is None or activity.may_lack():
        return None
    if scene.ledger is None or scene.ledger.use is None or scene.ledger.use.unplaced:
        return None
    table, use = scene.ledger.allocations.table, scene.ledger.use
    mine = np.isin(table.call, pins) & (table.address > 0) & (table.size_bytes > 0)
    if mine.sum() < len(pins):
        return None
    copied = int(np.maximum(use.reached_bytes - use.begun_bytes, 0)[mine].sum())
    return copied / int(table.size_bytes[mine].sum()) if copied else None


def _unused(scene: Scene, group: Int64, rows: Int64, cost: int, amount: int, used: float) -> Candidate:
    site, rest = scene.site_of_calls(group, rows), round((1 - used) * cost)
    rounded = used > LEAST_USED
    why = ", rounded up to a power of two" if rounded else ""
    return Candidate(
        title=(
            f"{site.place} pins {format_bytes(amount)}{why}, of which copies use {format_bytes(round(used * amount))}."
        ),
        site=site,
        phase=scene.phase_of(rows),
        rows=rows,
        cost_ns=rest,
        remains=Estimate(0, 0, ERROR * rest, RUN),
        cure=cure("pin-exact" if rounded else "pin-less", scene.framework),
        count=len(group),
        bytes=round((1 - used) * amount),
        basis=(f"Pinning takes time in proportion to the memory: {format_ns(cost)} in total.",),
        evidence=(Evidence(f"Copies reach {format_share(round(used * amount), amount)} of it."),),
    )


def late_context(scene: Scene) -> Iterator[Candidate]:
    """A context that is created after the work has begun."""
    own = [phase for phase in scene.course.phases if phase.name in OWN]
    if scene.calls is None or not own:
        return
    parts, whole = [part for phase in own for part in phase.intervals], sum(phase.wall_ns for phase in own)
    for row in np.flatnonzero(scene.calls.initial).tolist():
        calls = np.array([row], np.int64)
        before = sum(max(min(part.end_ns, int(scene.calls.table.start_ns[row])) - part.start_ns, 0) for part in parts)
        rows = scene.rows_inside(calls)
        cost = scene.cost_of_calls(calls, rows)
        if before < 0.1 * whole or not cost or not scene.range_of(rows):
            continue  # A program that does not say what it times may well create it when it gets there.
        site = scene.site_of_calls(calls, rows)
        yield Candidate(
            title=f"{site.place} creates the CUDA context during the work.",
            site=site,
            phase="context",
            rows=rows,
            cost_ns=cost,
            remains=Estimate(0, 0, 0.2 * cost, RUN),
            cure=cure("context-early", scene.framework),
            count=1,
            basis=("The time moves to start-up, or overlaps with other start-up work.",),
            evidence=(Evidence(f"The work had been running for {format_ns(before)}."),),
        )
