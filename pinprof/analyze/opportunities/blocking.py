"""Who holds up the critical thread inside CUDA's driver: pins of another thread, and another process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.blame.results import CERTAINTIES, BlameRow, Holder, HolderKind
from pinprof.analyze.opportunities.candidate import Candidate, sampled
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.units import format_bytes, format_counted, format_ns
from pinprof.data.model import Int64
from pinprof.data.rate_book import RUN, Estimate

PIECE_BYTES = 256 << 20
"""Pins of this size or less are pieces already: only an earlier time helps."""
_DRIVER_WAITS = ("wait.driver", "wait.uvm")
"""Waits in which another process can hold up a thread without being asked for anything: the driver is one for all."""
_MOST_NAMED = 3
_RECORDER = "pinprof"
_LISTENER = re.compile(r"uvm_tools_\w+(\.\w+)*")
"""Functions of the driver for those who follow managed memory, as the recorder does."""


def blocking_pins(scene: Scene) -> Iterator[Candidate]:
    """Long pins of other threads, while which the critical thread waits for the driver."""
    calls = scene.calls
    rows = np.flatnonzero(scene.blocked)
    if calls is None or not len(rows):
        return
    table, time = calls.table, scene.course.wall.time_ns[rows]
    pinning = calls.is_for("alloc pinned", "register") & (table.pid == scene.course.pid)
    groups = list(scene.call_groups(np.flatnonzero(pinning & (table.tid != scene.course.tid))))

    def meanwhile(group: Int64) -> int:
        """The part of the waits in which these pins run."""
        started, ended = (
            np.searchsorted(np.sort(column[group]), time, "right") for column in (table.start_ns, table.end_ns)
        )
        return scene.ns(rows[started > ended])

    for group in sorted(groups, key=meanwhile)[-1:]:
        yield _held_up(scene, group, rows)


def _held_up(scene: Scene, group: Int64, rows: Int64) -> Candidate:
    calls = scene.calls
    assert calls is not None
    largest = int(calls.size_bytes[group].max())
    tid = int(calls.table.tid[group][0])
    thread = scene.capture.threads.get((scene.course.pid, tid), "")
    site = replace(scene.site_of_calls(group, scene.rows_inside(group), library=True), thread=thread)
    waiting = scene.waiting_site(rows)
    in_pieces = 0 < largest <= PIECE_BYTES
    pinned = (
        f"{format_counted(len(group), 'piece', 'pieces')} of at most {format_bytes(largest)}"
        if in_pieces
        else f"{format_bytes(largest)} in one call"
    )
    return sampled(
        scene,
        rows,
        site,
        f"{site.place} pins {pinned}, while {waiting.place} waits for the driver.",
        "pin-before-serving" if in_pieces else "pin-in-pieces",
        (0.0, 0.0, 0.2) if in_pieces else (0.1, 0.0, 0.5),
        "Before the work begins, the pins take the same time, but no thread waits for the driver."
        if in_pieces
        else "The driver runs other calls between pins, so small pins block them only briefly.",
        Evidence(f"{waiting.place} waits {format_ns(scene.ns(rows))} while these pins run."),
        *_blamed(scene, tid),
        count=len(group),
        size_bytes=int(np.maximum(calls.size_bytes[group], 0).sum()),
    )


def _blamed(scene: Scene, tid: int) -> Iterator[Evidence]:
    """What is known of the critical thread's waits for this one, and how."""
    rows = [
        row
        for row in (scene.blame.rows if scene.blame else ())
        if row.waiter.tid == scene.course.tid and row.holder.kind is HolderKind.THREAD and row.holder.tid == tid
    ]
    if not rows:
        return
    most = max(rows, key=lambda row: row.ns)
    known = CERTAINTIES[next(iter(most.certainty))]
    waited = format_ns(sum(row.ns for row in rows))
    yield Evidence(
        f"The thread that pins delays this one for {waited} ({known}), at most {format_ns(most.longest_ns)} at once."
    )


def other_process(scene: Scene) -> Iterator[Candidate]:
    """Waits in the driver that another process ends, by that process; a wait that none was seen to end is nobody's."""
    held: dict[int, list[BlameRow]] = {}
    for row in scene.blame.rows if scene.blame else ():
        mine = (row.waiter.pid, row.waiter.tid) == (scene.course.pid, scene.course.tid)
        seen = row.holder.kind is HolderKind.PROCESS and row.holder.pid > 0 and not _listens(scene, row.holder)
        if mine and row.wait in _DRIVER_WAITS and seen:
            held.setdefault(row.holder.pid, []).append(row)
    for pid, blamed in held.items():
        rows = _rows_of(scene, blamed)
        rows = rows[~scene.has(_LISTENER)[rows]]
        cost = min(sum(row.ns for row in blamed), scene.ns(rows))
        if not cost:
            continue
        site, holder = scene.waiting_site(rows), blamed[0].holder
        who = f"process {pid} ({holder.name})" if holder.name else f"process {pid}"
        count = sum(row.count for row in blamed)
        stack = " < ".join(_innermost(scene, holder.node))
        yield Candidate(
            title=f"{site.place} waits in the driver for {who}.",
            site=site,
            phase=scene.phase_of(rows),
            rows=rows,
            cost_ns=cost,
            remains=Estimate(0.1 * cost, 0, 0.5 * cost, RUN),
            cure=cure("other-process", scene.framework),
            count=count,
            basis=("The driver runs this program's calls between small pins of the other process.",),
            evidence=(
                Evidence(f"{format_counted(count, 'wait ends', 'waits end')} when {who} releases the driver."),
                *((Evidence(f"It was in {stack}."),) if stack else ()),
            ),
        )


def _listens(scene: Scene, holder: Holder) -> bool:
    """Whether this is the recorder itself, which follows managed memory while the program runs."""
    stacks = scene.capture.stacks
    return holder.name.startswith(_RECORDER) or bool(stacks.under(stacks.frames.named(_LISTENER))[holder.node])


def _innermost(scene: Scene, node: int) -> list[str]:
    """The innermost functions of a stack, each once."""
    stacks = scene.capture.stacks
    names = dict.fromkeys(stacks.frames.symbol[int(stacks.frame[one])] for one in stacks.chain(node))
    return [*names][:_MOST_NAMED]


def _rows_of(scene: Scene, blamed: list[BlameRow]) -> Int64:
    """The wall rows of these waits."""
    wall, samples = scene.course.wall, scene.capture.samples
    leaves = [LEAF[row.wait] for row in blamed]
    own = (samples.tid[wall.sample] == scene.course.tid) & (samples.pid[wall.sample] == scene.course.pid)
    rows = np.flatnonzero(own & (wall.waiting >= 0) & np.isin(scene.leaf, leaves))
    place = scene.sites.frames(samples.stack[wall.sample[rows]])
    distinct, which = np.unique(place, return_inverse=True)
    wanted = {row.waiter.site.place for row in blamed}
    thread = scene.capture.threads.get((scene.course.pid, scene.course.tid), "")
    at = np.array([scene.sites.site(one, thread).place in wanted for one in distinct.tolist()] or [False], np.bool_)
    return rows[at[which.reshape(-1)]]
