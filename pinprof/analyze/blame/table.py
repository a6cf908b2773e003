"""The rows of a report: waits by waiter, place, holder and what that one did."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.blame.charging import Blame
from pinprof.analyze.blame.columns import KINDS, Parts, parts_of
from pinprof.analyze.blame.results import Arrow, BlameResult, BlameRow, Holder, HolderKind, WaitingThread
from pinprof.analyze.blame.waits import HolderCertainty
from pinprof.analyze.groups import Groups, group
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.ranges.membership import kernel_threads
from pinprof.analyze.sites import Sites
from pinprof.base.columns import Int64, ascending
from pinprof.data.model import NO_NODE, Capture

MOST_ROWS = 100
MOST_ARROWS = 200


def blame_of(capture: Capture, attribution: Attribution, sites: Sites) -> BlameResult | None:
    """Who waits for whom; None where no waits were recorded."""
    samples = capture.samples
    if not any(event.spans for event in capture.events):
        return None
    pids = ascending(samples.pid[(samples.pid > 0) & ~kernel_threads(capture)]).astype(np.int64)
    found = parts_of(Blame.of(capture, attribution, pids))
    parts = found.table
    if not len(parts):
        return None
    place = sites.frames(samples.stack[parts.wait])
    cells = group(
        samples.pid[parts.wait], samples.tid[parts.wait], attribution.leaf[parts.wait].astype(np.int64), place,
        parts.kind, parts.pid, parts.tid, sites.frames(parts.stack),
    )  # fmt: skip
    total = cells.sum(parts.ns)
    longest_first = np.argsort(-total, kind="stable")
    shown = longest_first[:MOST_ROWS]
    rows = tuple(_row(capture, attribution, parts, cells, sites, number) for number in shown.tolist())
    return BlameResult(
        rows=rows,
        waited_ns=found.waited_ns,
        rest=len(longest_first) - len(shown),
        rest_ns=int(total[longest_first[MOST_ROWS:]].sum()),
        late_ns=found.late_ns,
        recorded=capture.wakeups is not None,
        recorded_share=_recorded_share(capture),
        arrows=tuple(_arrows(capture, parts, cells, shown)),
        threads_left_out=found.threads_left_out,
    )


def _row(
    capture: Capture, attribution: Attribution, parts: Parts, cells: Groups, sites: Sites, number: int
) -> BlameRow:
    pid, tid, leaf, place, kind, holder_pid, holder_tid, holder_place = (int(key[number]) for key in cells.keys)
    mine = parts.take(np.flatnonzero(cells.of == number))
    name = capture.threads.get((pid, tid), "")
    waits = group(mine.wait)
    by_wait = waits.sum(mine.ns)
    longest = int(np.argmax(by_wait))
    return BlameRow(
        waiter=WaitingThread(pid, tid, name, sites.site(place, name)),
        wait=CATEGORIES[leaf].name,
        holder=_holder(capture, attribution, mine, sites, (KINDS[kind], holder_pid, holder_tid, holder_place)),
        certainty={HolderCertainty(how): ns for how, ns in _heaviest(mine.how.astype(np.int64), mine.ns).items()},
        ns=int(mine.ns.sum()),
        count=len(waits.count),
        longest_ns=int(by_wait[longest]),
        longest_at_ns=int(capture.samples.time_ns[int(waits.keys[0][longest])]),
    )


def _holder(
    capture: Capture, attribution: Attribution, mine: Parts, sites: Sites, key: tuple[HolderKind, int, int, int]
) -> Holder:
    kind, pid, tid, place = key
    name = capture.threads.get((pid, tid), "") if kind is HolderKind.THREAD else capture.strangers.get(pid, "")
    known = mine.sample >= 0
    causes = _heaviest(attribution.leaf[mine.sample[known]].astype(np.int64), mine.ns[known])
    stacks = _heaviest(mine.stack.astype(np.int64), mine.ns)
    stacks.pop(NO_NODE, None)
    node = next(iter(stacks), NO_NODE)
    return Holder(
        kind=kind,
        pid=max(pid, 0),
        tid=max(tid, 0),
        name=name,
        site=sites.site(place if node != NO_NODE else NOTHING, name),
        causes={CATEGORIES[leaf].name: ns for leaf, ns in causes.items()},
        node=node,
    )


def _heaviest(keys: Int64, ns: Int64) -> dict[int, int]:
    """The sum of each key, heaviest first."""
    if not len(keys):
        return {}
    cells = group(keys)
    sums = dict(zip(cells.keys[0].tolist(), cells.sum(ns).tolist(), strict=True))
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def _recorded_share(capture: Capture) -> float:
    """For how much of the recording wake-ups were recorded, as far as the recorder says."""
    if capture.wakeups is None:
        return 0.0
    off = 0
    for collector in capture.manifest.collectors:
        noted = collector.get("wakeups")
        if isinstance(noted, Mapping) and isinstance(noted.get("off_ns"), int):
            off += max(noted["off_ns"], 0)
    times = capture.samples.time_ns
    lasted = int(times.max() - times.min()) if len(times) else 0
    return float(np.clip(1 - off / lasted, 0, 1)) if lasted else 1.0


def _arrows(capture: Capture, parts: Parts, cells: Groups, shown: Int64) -> list[Arrow]:
    """The longest parts that threads of the program are charged with."""
    row = np.full(len(cells.count), -1, np.int64)
    row[shown] = np.arange(len(shown))
    drawn = np.flatnonzero((parts.kind == KINDS.index(HolderKind.THREAD)) & (row[cells.of] >= 0))
    whole = group(cells.of[drawn], parts.wait[drawn])
    ns, first = whole.sum(parts.ns[drawn]), whole.first(drawn)
    samples = capture.samples
    arrows = []
    for number in np.argsort(-ns, kind="stable")[:MOST_ARROWS].tolist():
        part = int(first[number])
        wait = int(parts.wait[part])
        start = int(parts.start_ns[part])
        arrows.append(
            Arrow(
                (int(samples.pid[wait]), int(samples.tid[wait])),
                start,
                start + int(ns[number]),
                (int(parts.pid[part]), int(parts.tid[part])),
                int(row[cells.of[part]]),
            )
        )
    return arrows
