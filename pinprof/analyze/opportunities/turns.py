"""Copies that take turns with the GPU's work, and bytes that go to the host and come straight back.

Both are found by the critical thread's calls alone, and only what these prove is claimed. Bytes come back as they went
where the thread had no time to write them anew. Two steps are independent where the second one uploads nothing that the
first one has brought back, and where the thread had no time in between to read that, or to write what it sends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.copy_groups import CopyGroup
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.opportunities.thread_line import DOWNLOAD, HOST_MEMORY, UPLOAD, WAIT, ThreadLine, line_of
from pinprof.base.columns import Bool, Int64, ascending
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns
from pinprof.data.activity import MemoryKind
from pinprof.data.rate_book import RUN, Estimate

LEAST_TRIPS, LEAST_STEPS = 3, 5
AT_ONCE = 0.1
"""The share of the time in which one thread copies memory on the host: nobody reads or writes all of it in less."""
ALONE = 0.9
"""The least share of its process's copied bytes that the critical thread copies: else others overlap with it."""
LOOK_BACK = 8
"""How many copies before an upload may have brought back what it uploads."""
ERROR = 0.1


def back_and_forth(scene: Scene) -> Iterator[Candidate]:
    """Both, of the critical thread."""
    line = line_of(scene)
    if line is not None:
        yield from round_trips(scene, line)
        yield from taking_turns(scene, line)


def round_trips(scene: Scene, line: ThreadLine) -> Iterator[Candidate]:
    """Bytes that are brought to the host and sent back as they are, by the site that sends them."""
    down, up = _returned(scene, line)
    for calls in scene.call_groups(line.call[up]):
        mine = np.isin(line.call[up], calls)
        if mine.sum() < LEAST_TRIPS:
            continue
        both = ascending(np.concatenate([down[mine], up[mine]]))
        rows, cost = scene.rows_inside(line.call[both]), int(line.moving[both].sum())
        amount, each = int(line.size[up[mine]].sum()), int(np.median(line.size[up[mine]]))
        spare = int(line.outside(down[mine], up[mine]).mean())
        site = scene.site_of_calls(calls, scene.rows_inside(calls))
        yield Candidate(
            title=f"{site.place} copies {format_bytes(each)} to the host and straight back to the GPU,"
            f" {scene.at_least}{format_count(int(mine.sum()))} times.",
            site=site,
            phase=scene.phase_of(rows),
            rows=rows,
            cost_ns=cost,
            remains=Estimate(0, 0, ERROR * cost, RUN),
            cure=cure("keep-resident", scene.framework),
            count=int(mine.sum()),
            bytes=amount,
            basis=(
                (
                    f"Between the two copies, the thread has {format_ns(spare)}, too little time to write"
                    f" {format_bytes(each)}, so it changes little or none of the data."
                ),
            ),
            evidence=(
                Evidence(f"{format_counted(len(both), 'copy takes', 'copies take')} {format_ns(cost)}. All"
                         f" {format_bytes(amount)} go both ways."),
            ),
        )  # fmt: skip


def _returned(scene: Scene, line: ThreadLine) -> tuple[Int64, Int64]:
    """Downloads and the uploads of the same bytes that follow them directly, by their place in the line.

    Directly: after it, other arrays may come to the host, and others go back before it, but the GPU is waited for once
    at most, no page-locked memory is made or given back, and the thread itself has no time to write the memory.
    """
    copies = np.flatnonzero(np.isin(line.kind, (UPLOAD, DOWNLOAD)))
    down = line.kind[copies] == DOWNLOAD
    turn = np.cumsum(down & np.append(True, ~down[:-1]))
    order = np.lexsort((copies, line.size[copies], line.address[copies], turn))
    first, second = order[:-1], order[1:]
    same = (turn[first] == turn[second]) & down[first] & ~down[second]
    first, second = copies[first[same]], copies[second[same]]
    same = (line.address[first] == line.address[second]) & (line.size[first] == line.size[second])
    first, second = first[same], second[same]
    fits = line.outside(first, second) <= _at_once(scene, line.size[second])
    fits &= (line.count(WAIT, first, second) <= 1) & (line.count(HOST_MEMORY, first, second) == 0)
    return first[fits], second[fits]


def _at_once(scene: Scene, size: Int64) -> Int64:
    """A time in which nobody reads or writes that number of bytes; 0 where nobody knows."""
    each = max(int(np.median(size)), 1) if len(size) else 1
    cost = scene.rates.cost("memcpy.host", each)
    return (size * (AT_ONCE * cost.ns / each if cost else 0.0)).astype(np.int64)


def taking_turns(scene: Scene, line: ThreadLine) -> Iterator[Candidate]:
    """Copies of page-locked memory that block, or are all on one stream, in steps that do not need each other's
    results; by site.
    """
    if _shared_with_others(scene):
        return
    for group in scene.copy_groups(MemoryKind.PINNED):
        steps = np.searchsorted(line.call, group.calls)
        steps = steps[(steps < len(line.call)) & (line.call[np.minimum(steps, len(line.call) - 1)] == group.calls)]
        queued = line.queued_alone[steps]
        steps, queued = (column[line.blocks[steps] | queued] for column in (steps, queued))
        if len(steps) > LEAST_STEPS:
            kept = _independent(scene, line, steps)
            # Where only inputs are queued, the next one may be on its way already.
            back = DOWNLOAD if group.way == "h2d" else UPLOAD
            kept &= ~queued[:-1] | (line.count(back, steps[:-1], steps[1:]) > 0)
            if kept.sum() >= LEAST_STEPS:
                yield from _in_turns(scene, line, group, steps, kept)


def _shared_with_others(scene: Scene) -> bool:
    """Whether other threads of the process copy as well."""
    copies, course = scene.copies, scene.course
    assert copies is not None
    here = copies.pid == course.pid
    mine = copies.size_bytes[here & (copies.tid == course.tid)].sum(dtype=np.float64)
    return bool(mine < ALONE * copies.size_bytes[here].sum(dtype=np.float64))


def _independent(scene: Scene, line: ThreadLine, steps: Int64) -> Bool:
    """Per step, from one of these copies up to the next, whether the next one could have begun beside it."""
    first, last = steps[:-1], steps[1:]
    kept = line.count(HOST_MEMORY, first, last) == 0
    copies = np.flatnonzero(np.isin(line.kind, (UPLOAD, DOWNLOAD)))
    up = line.kind[copies] == UPLOAD
    # What lies from a step's download up to the next upload: time of the host, which may use what came back.
    turns = np.flatnonzero(~up[:-1] & up[1:])
    # Several may come back before it: the host has all the time since the first of them.
    begins = np.maximum.accumulate(np.where(up, np.arange(len(up)) + 1, 0))
    down, then = copies[begins[turns]], copies[turns + 1]
    used = line.outside(down, then) > _at_once(scene, np.maximum(line.size[down], line.size[then]))
    for back in range(1, LOOK_BACK + 1):
        earlier, later = copies[:-back], copies[back:]
        again = ~up[:-back] & up[back:]
        again &= line.address[later] < line.address[earlier] + line.size[earlier]
        again &= line.address[earlier] < line.address[later] + line.size[later]
        place = np.searchsorted(steps, later[again], "right") - 1
        near = (place >= 0) & (np.searchsorted(steps, earlier[again], "right") - 1 >= place - 1)
        kept[np.clip(place[near] - 1, 0, len(kept) - 1)] = False
    place = np.searchsorted(steps, down[used], "right") - 1
    kept[place[(place >= 0) & (place < len(kept))]] = False
    return np.asarray(kept)


def _in_turns(scene: Scene, line: ThreadLine, group: CopyGroup, steps: Int64, kept: Bool) -> Iterator[Candidate]:
    """Nothing where nearly all is of one kind: there is nothing that it could overlap with."""
    up, down, waits = (
        int(_in_steps(np.where(which, column, 0), steps)[kept].sum())
        for which, column in (
            (line.kind == UPLOAD, line.moving),
            (line.kind == DOWNLOAD, line.moving),
            (np.ones(len(line.call), np.bool_), line.waiting),
        )
    )
    count, cost, longest = int(kept.sum()), up + down + waits, max(up, down, waits)
    if cost - longest <= ERROR * cost:
        return
    # At both ends of a row of steps there is nothing to overlap with.
    rows_of_steps = int((kept & ~np.append(False, kept[:-1])).sum())
    likely = longest + (cost - longest) * rows_of_steps / (count + rows_of_steps)
    step = np.searchsorted(steps, np.arange(len(line.call)), "right") - 1
    inside = (step >= 0) & (step < len(kept)) & np.append(kept, False)[np.clip(step, 0, len(kept))]
    rows = scene.rows_inside(line.call[inside & np.isin(line.kind, (UPLOAD, DOWNLOAD, WAIT))])
    site = scene.site_of_calls(group.calls, group.rows)
    yield Candidate(
        title=f"{site.place} alternates between copying and computing:"
        f" {scene.at_least}{format_counted(count, 'step waits', 'steps wait')} for the previous one, and"
        " none uploads its results.",
        site=site,
        phase=scene.phase_of(rows),
        rows=rows,
        cost_ns=cost,
        remains=Estimate(likely, longest, cost - 0.5 * (cost - likely), RUN),
        cure=cure("use-streams", scene.framework),
        count=count,
        bytes=int(line.size[inside].sum()),
        basis=(
            (
                f"Copies to the GPU take {format_ns(up)}, copies to the host {format_ns(down)}, other waiting for the"
                f" GPU {format_ns(waits)}; when they overlap, only the longest remains."
            ),
            (
                "Dependencies between kernels were not recorded. If each kernel needs the result of the previous one,"
                " the saving is smaller."
            ),
        ),
        evidence=(Evidence("No step uploads the results of the previous step, and the thread has no time in between"
                           " to compute new data from them."),),
    )  # fmt: skip


def _in_steps(column: Int64, steps: Int64) -> Int64:
    """Per step the sum of a column of the line."""
    whole = np.append(0, np.cumsum(column))
    sums: Int64 = whole[steps[1:]] - whole[steps[:-1]]
    return sums
