"""Copies between host and device: staged ones, those to fresh memory, from mapped files, and tiny ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.calls import size_class
from pinprof.analyze.groups import group as cells
from pinprof.analyze.opportunities.candidate import Candidate, sampled, share_of_own_time, total
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.copy_groups import CopyGroup
from pinprof.analyze.opportunities.knobs import Functions
from pinprof.analyze.opportunities.pages import HUGE_PAGES_SAVE
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.rules.copies import TINY_COPIES
from pinprof.base.columns import ascending, distinct
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns, roughly
from pinprof.data.activity import MemoryKind
from pinprof.data.gpu_functions import COPIES, COPYING
from pinprof.data.model import Int64
from pinprof.data.rate_book import RUN, Estimate

LEAST_TRACED = 100
"""Copies of a place that say what those are that were not traced."""
SCALARS, SCALAR_BYTES, SCALAR_WAIT_NS = 200, 64, 1_000_000
TWICE = 2
ERROR = 0.2
"""The share of what short calls cost: what tracing takes is known that well."""
LATENCY_NS = 10_000
"""From a launch to its result on the host, whatever the kernel does: 8 to 12 µs on H100 and H200."""
HALF = "The GPU's own time was not recorded; the estimate uses half of the waiting time."
LAUNCHED = (
    f"The GPU needs about {format_ns(LATENCY_NS)} to answer. The rest of a wait is for its work, which can overlap "
    "with the thread's own work once the thread does not wait."
)
FRESH_SHARE = 0.1
"""From this share of page faults on, a copy is one to fresh memory."""
_HOST_KINDS = (MemoryKind.PINNED, MemoryKind.PAGEABLE, MemoryKind.MANAGED, MemoryKind.UNKNOWN)
_COPYING = re.compile(COPYING)
_FAULTS = ("fault.anon", "fault.entry", "fault.core", "fault.file", "free.unmap")
_STAGES = Functions(r"cupy/_creation/from_data\.py", "array|asarray|asanyarray|ascontiguousarray")
"""CuPy copies what it gets to its own pinned memory, even from pinned memory."""


def tiny(scene: Scene) -> Iterator[Candidate]:
    """Very many small copies at one place."""
    for kind in _HOST_KINDS:
        for group in scene.copy_groups(kind):
            more, rows = _not_traced(scene, group)
            count = roughly(group.count + more) if more else group.count
            size = group.bytes + more * group.each
            if count < TINY_COPIES or not group.tiny or _reads_scalars(group):
                continue
            site = scene.site_of_calls(group.calls, group.rows)
            pinned = kind == MemoryKind.PINNED
            remains = total(
                [scene.rates.cost(f"{group.way}.{'pinned' if pinned else 'pageable'}", size)]
                + ([] if pinned else [scene.rates.cost("memcpy.host", size)])
            )
            if remains is None:
                continue
            cost, error = _cost_without_tracing(scene, group)
            sampled, about = scene.ns(rows), "about " if more else scene.at_least
            loop = scene.rows_between(group.calls)
            looped = scene.ns(loop)
            yield Candidate(
                title=f"{site.place} makes {about}{format_counted(count, 'copy', 'copies')} {group.words} of"
                f" {format_bytes(group.each)} each.",
                site=site,
                phase=scene.phase_of(rows if more else group.rows),
                rows=distinct(group.rows, rows, loop),
                cost_ns=cost + sampled + looped,
                remains=replace(remains, low_ns=0, high_ns=remains.high_ns + error + ERROR * sampled + looped / 2),
                cure=cure("batch-copies", scene.framework),
                count=count,
                bytes=size,
                basis=(
                    f"One copy of all {format_bytes(size)} takes {format_ns(round(remains.ns))} ({remains.source}).",
                    *_without_tracing(scene),
                    *_by_samples(more, sampled),
                    *_by_loop(looped),
                ),
                evidence=(Evidence(f"{format_counted(group.count, 'call takes', 'calls take')}"
                                   f" {format_ns(group.cost_ns)}, {format_ns(group.cost_ns // group.count)} each."),),
            )  # fmt: skip


def _by_loop(cost_ns: int) -> tuple[str, ...]:
    if not cost_ns:
        return ()
    return (f"Between one copy and the next, the same line takes {format_ns(cost_ns)} more, which one copy saves too.",)


def _by_samples(count: int, cost_ns: int) -> tuple[str, ...]:
    if not count:
        return ()
    what = format_counted(roughly(count), "of the copies was", "of the copies were")
    return (f"About {what} not traced; samples put the cost at {format_ns(cost_ns)}.",)


def _not_traced(scene: Scene, group: CopyGroup) -> tuple[int, Int64]:
    """About how many copies of a group were made while tracing was given up, and the wall rows in which they were; none
    where neither the GPU's work nor the time of a copy tells.

    Samples say where copies were made meanwhile, and for how long: as many as fit into that time. Where all that the
    GPU did was recorded, their number is known. The group's part is that of the traced ones of its place.
    """
    activity = scene.capture.activity
    gaps = [part for part in activity.given_up if part.kind == COPIES] if activity else []
    if activity is None or not gaps or group.count < LEAST_TRACED or not len(group.rows):
        return 0, np.zeros(0, np.int64)
    time = scene.course.wall.time_ns
    inside = np.any([(time >= part.start_ns) & (time < part.end_ns) for part in gaps], axis=0)
    copying = np.flatnonzero(inside & scene.has(_COPYING))
    place = scene.place_of(group.rows)
    here = copying[scene.place[copying] == place]
    beside = [other for kind in _HOST_KINDS for other in scene.copy_groups(kind) if scene.place_of(other.rows) == place]
    part = group.count / max(sum(other.count for other in beside), 1)
    counted = [gap.calls for gap in gaps if gap.calls is not None]
    if len(counted) == len(gaps):
        count = round(part * scene.ns(here) / max(scene.ns(copying), 1) * sum(counted))
    else:
        each_ns = _ns_without_tracing(scene, group)
        count = round(part * scene.ns(here) / each_ns) if each_ns else 0
    return count, here if count else here[:0]


def _ns_without_tracing(scene: Scene, group: CopyGroup) -> float:
    """What one copy of a group takes without tracing; 0 where nobody has measured small copies.

    One that only has to be queued takes as long as on this machine in general. For others the clock of the traced ones
    counts, without their own tracing and that of the driver's function inside them.
    """
    small = scene.rates.cost("h2d.small", 0)
    if small is None or group.table.asynchronous.mean() > 0.5:
        return small.ns if small else 0.0
    assert scene.calls is not None
    clock = float(np.median(scene.calls.duration_ns[group.calls])) - scene.overhead_ns - scene.around_ns
    return max(clock, small.ns)


def _reads_scalars(group: CopyGroup) -> bool:
    return group.way == "d2h" and group.each <= SCALAR_BYTES


def read_scalars(scene: Scene) -> Iterator[Candidate]:
    """Single values that are read back repeatedly: each waits until the GPU has done all before."""
    for kind in (MemoryKind.PAGEABLE, MemoryKind.PINNED, MemoryKind.UNKNOWN):
        for group in scene.copy_groups(kind):
            calls = np.concatenate([group.calls, _syncs_beside(scene, group)])
            rows = scene.rows_inside(calls)
            waits = scene.ns(rows[scene.caused_by("sync.poll", "wait.gpu")[rows]])
            # A long wait is for work of the GPU, which takes as long whoever waits for it.
            if group.count < SCALARS or not _reads_scalars(group) or waits > SCALAR_WAIT_NS * group.count:
                continue
            theirs = rows[scene.sites.by_a_library(scene.node[rows])]
            if 2 * scene.ns(theirs) > scene.ns(rows):
                continue  # A library decides how often it reads.
            site, cost = scene.site_of_calls(group.calls, rows), scene.cost_of_calls(calls, rows)
            beside = np.setdiff1d(scene.rows_between(calls, others=True), rows)
            around, remains, basis = scene.ns(beside), Estimate(0.5 * cost, 0.2 * cost, 0.9 * cost, RUN), HALF
            if (restarts := scene.ns_until_launch(calls)) is not None:
                busy = max(waits - LATENCY_NS * group.count - restarts, 0)
                remains, basis = Estimate(busy, 0, waits + around / 2, RUN), LAUNCHED
            yield Candidate(
                title=f"{site.place} reads {scene.at_least}{format_count(group.count)} values back from the GPU"
                " one by one.",
                site=site,
                phase=scene.phase_of(rows),
                rows=distinct(rows, beside),
                cost_ns=cost + around,
                remains=remains,
                cure=cure("sync-less", scene.framework),
                count=group.count,
                bytes=group.bytes,
                basis=(
                    "While the thread waits, it starts no work, so the GPU may become idle.",
                    basis,
                    *((f"Around these calls, the same line takes {format_ns(around)} more.",) if around else ()),
                ),
                evidence=(Evidence(f"Each wait takes {format_ns(waits // group.count)}."),),
            )


def _syncs_beside(scene: Scene, group: CopyGroup) -> Int64:
    """The synchronisations at the place of these copies, or at once after them: a value can be used once they have
    returned.
    """
    assert scene.calls is not None
    table, wait = scene.calls.table, scene.calls.waited_by[group.calls]
    beside = np.zeros(len(table), np.bool_)
    beside[wait[wait >= 0]] = True
    if table.site is not None:
        beside |= (
            scene.calls.is_for("sync") & np.isin(table.site, ascending(table.site[group.calls])) & (table.site >= 0)
        )
    return np.flatnonzero(beside)


def _cost_without_tracing(scene: Scene, group: CopyGroup) -> tuple[int, float]:
    """What very many short calls cost without tracing, and by how much that may be off.

    Their clock, less what tracing adds, leaves out what lies around the driver's function; a call as it was measured on
    this machine has something of the measuring program. The truth lies between them.
    """
    call = scene.rates.cost("h2d.small", 0)
    most = max(group.cost_ns, round(call.ns * group.count)) if call else group.cost_ns
    return (group.cost_ns + most) // 2, max((most - group.cost_ns) / 2, ERROR * group.cost_ns)


def _without_tracing(scene: Scene) -> tuple[str, ...]:
    if not scene.overhead_ns:
        return ()
    return (f"The cost excludes the {format_ns(scene.around_ns)} per call that tracing takes.",)


def pageable(scene: Scene) -> Iterator[Candidate]:
    """Copies from or to pageable memory, which the driver stages, and which block also where they promise not to."""
    for group in scene.copy_groups(MemoryKind.PAGEABLE):
        if group.of_files or (group.count >= TINY_COPIES and group.tiny):
            continue
        staged = group.measured or _of_all(scene, group, "pageable")
        pinned = _of_all(scene, group, "pinned")
        if staged is None or pinned is None:
            continue
        faults = scene.ns(group.rows[scene.caused_by(*_FAULTS)[group.rows]])
        fresh = faults >= FRESH_SHARE * max(scene.ns(group.rows), 1)
        # A call also waits for what the GPU does before the copy: only the copy itself, and its faults, are its cost.
        cost = min(group.cost_ns, round(staged.ns) + faults)
        if fresh and group.way == "d2h" and _kept(scene, group):
            yield _into_small_pages(scene, group, cost, min(faults, cost))
            continue
        yield _staged(scene, group, pinned, staged, cost, fresh=fresh)


def _of_all(scene: Scene, group: CopyGroup, memory: str) -> Estimate | None:
    """What all copies of a group take with this memory, each class of sizes by itself."""
    size = group.table.size_bytes
    classes = [size[rows] for rows in cells(size_class(size)).rows()]
    rates = [(scene.rates.cost(f"{group.way}.{memory}", int(some.mean())), len(some)) for some in classes]
    return total([each.times(count) if each else None for each, count in rates])


def _staged(scene: Scene, group: CopyGroup, pinned: Estimate, staged: Estimate, cost: int, *, fresh: bool) -> Candidate:
    site = scene.site_of_calls(group.calls, group.rows)
    held = min(group.distinct, group.bytes) if not fresh else min(_most_at_once(scene, group), group.bytes)
    more = _pinning(scene, group, held, fresh=fresh)
    remains = total([pinned, more]) or pinned
    # A program that synchronises right there, as `.cpu()` does, expects to wait.
    blocking = group.table.asynchronous.mean() > 0.5 and 2 * len(_syncs_beside(scene, group)) < group.count
    what = "fresh pageable memory" if fresh else "pageable memory"
    preposition = "from" if group.way == "h2d" else "into"
    promise = ", although the copies are meant to be asynchronous" if blocking else ""
    return Candidate(
        title=f"{site.place} copies {format_bytes(group.bytes)} {group.words} {preposition} {what}{promise}.",
        site=site,
        phase=scene.phase_of(group.rows),
        rows=group.rows,
        cost_ns=cost,
        remains=remains,
        once=more if remains is not pinned else None,
        cure=cure("pin-source" if group.way == "h2d" and not fresh else "pinned-buffer", scene.framework),
        count=group.count,
        bytes=group.bytes,
        basis=(
            (f"Pinned, {format_counted(group.count, 'copy takes', 'copies take')} {format_ns(round(pinned.ns))}"
            f" ({pinned.source})."),
            *((f"Pinning {format_bytes(held)} once takes {format_ns(round(more.ns))} more.",)
              if more and round(more.ns) else ()),
            (f"These calls take {format_ns(group.cost_ns)}. The copies are {format_ns(cost)} of that"
            f" ({staged.source}); the rest, such as waiting for the GPU, remains."),
        ),
        evidence=(
            Evidence(f"{format_counted(group.count, 'copy', 'copies')} of {group.sizes}"
                     f" take {format_ns(group.cost_ns)}."),
        ),
    )  # fmt: skip


def _kept(scene: Scene, group: CopyGroup) -> bool:
    """Whether what is copied stays: memory grows by most of it, so no buffer could be reused."""
    log = scene.capture.memory
    process = next((one for one in log.processes if one.pid == scene.course.pid), None) if log else None
    resident = process.values.get("rss") if process else None
    if process is None or resident is None or not len(resident):
        return False
    first = int(np.searchsorted(process.time_ns, int(group.table.start_ns[0]), "right")) - 1
    last = min(int(np.searchsorted(process.time_ns, int(group.table.end_ns[-1]))), len(resident) - 1)
    grown = int(resident[first : last + 1].max()) - int(resident[max(first, 0)]) if last > first >= 0 else 0
    return 2 * grown > group.bytes


def _into_small_pages(scene: Scene, group: CopyGroup, cost: int, faults: int) -> Candidate:
    """Copies to memory that is kept: its pages are made anyway, but may be huge ones."""
    site = scene.site_of_calls(group.calls, group.rows)
    saved = HUGE_PAGES_SAVE * faults
    return Candidate(
        title=f"{site.place} copies {format_bytes(group.bytes)} to the host into new memory, page by page.",
        site=site,
        phase=scene.phase_of(group.rows),
        rows=group.rows,
        cost_ns=cost,
        remains=Estimate(cost - saved, cost - 1.2 * saved, cost - 0.7 * saved, RUN),
        cure=cure("huge-pages", scene.framework),
        count=group.count,
        bytes=group.bytes,
        basis=(f"The memory stays in use, so it can't be reused. Page faults take {format_ns(faults)} of the time.",),
        evidence=(Evidence(f"Meanwhile, the process grows by most of the {format_bytes(group.bytes)}."),),
    )


def _pinning(scene: Scene, group: CopyGroup, held: int, *, fresh: bool) -> Estimate | None:
    """What it costs to have the host's side pinned, beyond what it costs now."""
    pin, touch = scene.rates.cost("pin.alloc", held), scene.rates.cost("touch.first", held)
    if group.way == "h2d" and not fresh and group.bytes < TWICE * held:
        # Copied once: the memory is there already, and is registered for it.
        return total([scene.rates.cost("pin.register-touched", held), scene.rates.cost("free.unregister", held)])
    if fresh or pin is None or touch is None or not pin.ns:
        return pin
    # Pinned memory takes the place of memory whose pages are created too.
    return pin.times(1 - min(touch.ns / pin.ns, 1.0))


def _most_at_once(scene: Scene, group: CopyGroup) -> int:
    """The bytes of one step: what a set of buffers must hold that is reused in the next."""
    steps = scene.course.steps
    if steps is not None and steps.count > 1:
        return -(-group.bytes // steps.count)
    return 2 * int(group.table.size_bytes.max())


def mapped_files(scene: Scene) -> Iterator[Candidate]:
    """Copies to the GPU whose source is a mapped file: pages fault in while they are copied."""
    for group in scene.copy_groups(MemoryKind.PAGEABLE):
        if not group.of_files:
            continue
        ring = min(group.bytes, 2 * int(group.table.size_bytes.max()))
        # What is read overlaps with the copy of the piece before it, so the longer of both remains.
        read = scene.rates.cost("file.read", group.bytes)
        copied, pin = scene.rates.cost(f"{group.way}.pinned", group.bytes), scene.rates.cost("pin.alloc", ring)
        if read is None or copied is None or pin is None:
            continue
        remains = total([max(read, copied, key=lambda part: part.ns), pin])
        assert remains is not None
        site = scene.site_of_calls(group.calls, group.rows)
        # To wait for the disk takes as long whoever reads.
        disk = scene.caused_by("wait.disk")[group.rows]
        yield Candidate(
            title=f"{site.place} copies {format_bytes(group.bytes)} to the GPU from a mapped file.",
            site=site,
            phase=scene.phase_of(group.rows),
            rows=group.rows[~disk],
            cost_ns=max(group.cost_ns - scene.ns(group.rows[disk]), 0),
            remains=remains,
            cure=cure("map-at-once", scene.framework),
            count=group.count,
            bytes=group.bytes,
            basis=((f"Reading it into two alternating pinned buffers takes {format_ns(round(remains.ns))}"
                   f" ({remains.source})."),),
            evidence=(Evidence(f"{format_counted(group.count, 'copy takes', 'copies take')}"
                               f" {format_ns(group.cost_ns)}."),),
        )  # fmt: skip


def restaged(scene: Scene) -> Iterator[Candidate]:
    """Copies that a library makes in the host's memory, of data that it then copies to the GPU, by the calling line."""
    for group in scene.by_place(np.flatnonzero(scene.under(_STAGES) & scene.caused_by("copy.user") & scene.in_own())):
        site = scene.site_of(group)
        yield sampled(
            scene,
            group,
            site,
            f"{site.place} copies data to the library's pinned memory before it is copied to the GPU.",
            "pinned-buffer",
            (0.0, 0.0, 0.2),
            "Data that is written to pinned memory in the first place is not copied on the host.",
            share_of_own_time(scene, scene.ns(group)),
        )
