"""Pages of the host's own memory: made, freed and made again; copied after a fork; of files and shared memory.

All that a page costs at one place (the fault, its entry, changes of mappings, giving it back) belongs to what is done
there with memory. The shares that a cure saves were measured (docs/opportunities.md, "What a fault really costs").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze.course.critical import system_wide
from pinprof.analyze.course.labels import EXIT, START_UP, STARTS_PROGRAM, phase_labels
from pinprof.analyze.opportunities import fault_addresses
from pinprof.analyze.opportunities.candidate import Candidate, share_of_own_time
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.making import LEAST_FREED, PlaceBlocks, blocks_at, made_again
from pinprof.analyze.opportunities.page_marks import FREES, PINS, PageMarks, enters_mappings
from pinprof.analyze.opportunities.pressure import pressed
from pinprof.analyze.opportunities.refills import renewal
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import ascending, distinct, looked_up
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns
from pinprof.data.mapped import OWN, Mapped
from pinprof.data.model import Bool, Int64
from pinprof.data.rate_book import RUN, Estimate

_FAULTS = ("fault.anon", "fault.zero", "fault.entry", "fault.core", "fault.file", "fault.cow", "fault.shared")
_LEAVES = (*_FAULTS, *FREES, *PINS, "sys.proc", "sys.signal")

FREES_ALONE = 0.5
"""From this share of giving back on, a place only does that."""
LEAST_SHARE = 0.05
"""The share of the work: what settings of the allocator and huge pages save is not worth a line below that."""

LEAST_LOCKED = 0.2
"""The part of what a fork costs: a page takes fifty times as long to be copied as to be shared, and copying is a third
of that (1.6 µs and 30 ns, Linux 6.18)."""
LEAST_CREATED = 0.3
"""The part of what pins cost in which pages are made: where less is, they were there."""
LEAST_SIGNALS = 0.25
"""The part of what costs most at a place: from there on signals for protected pages are why."""
READ_FILE_SAVES = (0.7, 0.9, 1.0)
"""The shares of all but copying: reading a page copies it once as well."""
UNMAPPED_SAVES = (0.8, 0.95, 1.0)
"""The shares of mapping a file and unmapping it: one mapping that stays needs neither."""
HUGE_PAGES_SAVE = 0.7
"""The share of the time in faults of small pages."""


@dataclass(frozen=True)
class _Kind:
    """What is done with memory at a place, and the share of its cost that the cure saves: low, likely, high."""

    cure: str
    what: str
    small: tuple[float, float, float]
    huge: tuple[float, float, float] | None = None
    """None where memory stays: what that saves is measured (refills.py)."""
    unknown: str = ""
    """Why nobody knows what the cure saves where this machine was not measured; empty where it can be predicted."""
    only: str = ""
    """The mark of the rows that the cure concerns; empty for all."""


_UNMEASURED = (0.0, 0.2, 0.9)
"""Of huge pages of memory that stays, where this machine was not measured: the caches decide."""
_AGAIN = _Kind("reuse-memory", "allocates and fills new memory each time.", (0.77, 0.9, 1.0))
_HUGE_AGAIN = _Kind(
    "reuse-memory",
    "allocates and fills large memory each time, in huge pages.",
    _AGAIN.small,
    unknown="Memory that is reused is not zeroed, but it may have left the CPU's caches, where zeroing puts new pages."
    " So how much reuse saves depends on these caches.",
)
_ONCE = _Kind("huge-pages", "fills large memory page by page.", (0.5, HUGE_PAGES_SAVE, 0.85), (0.0, 0.0, 0.0))
_ONCE_SMALL = replace(_ONCE, what="fills new memory page by page.")
"""Where nothing shows that its blocks are large."""
_BUILT = replace(_ONCE, what="fills new memory once, before the work.")
_ZEROS_AGAIN = _Kind(
    "reuse-memory",
    "allocates memory of zeros each time and reads it before it writes, so each page faults twice.",
    (0.7, 0.84, 0.95),
)
_ZEROS_ONCE = _Kind(
    "huge-pages", "reads new memory of zeros before it writes, so each page faults twice.", _ONCE.small, _ONCE.huge
)
_DROPS = _Kind("keep-pages", "fills the same memory each time after madvise dropped its pages.", (0.7, 0.85, 1.0))
_DROPS_LAZILY = _Kind(
    "keep-pages", "gives pages back with madvise and uses them again.", (0.5, 0.9, 1.0), only="drops_lazily"
)
_PROTECTS = _Kind("protect-less", "changes the protection of memory with mprotect.", (0.7, 1.0, 1.0), only="protects")
_SIGNALS = _Kind("track-writes", "takes a signal for each page of protected memory.", (0.7, 1.0, 1.0))
_SYNCS = _Kind(
    "sync-file-less",
    "writes to a shared mapping of a file, whose pages fault again after each time they are written back.",
    (0.5, 0.85, 1.0),
)
_FORKS = _Kind(
    "spawn", "forks while it uses a lot of memory, so page tables are copied and freed again.", (0.8, 1.0, 1.0)
)
_FORKS_LOCKED = _Kind(
    "dont-fork", "forks while memory is page-locked, so the kernel copies each page of it.", (0.8, 0.95, 1.0)
)
_COW = _Kind("spawn", "writes to memory shared by a fork, so each page is copied at its first write.", (0.8, 0.91, 1.0))
_COW_UNSEEN = replace(
    _COW, what="writes to memory that another process shares since a fork, so each page is copied at its first write."
)
_COPIED = _Kind(
    "record-mappings",
    "writes to pages that are copied first.",
    _COW.small,
    unknown=f"{fault_addresses.UNKNOWN}: a private mapping of a file, which can be read instead, or memory that another"
    " process shares since a fork.",
)
_PRIVATE = _Kind("read-file", "writes to a private mapping of a file, so each page is copied first.", (0.7, 0.85, 0.95))
_PINS_AGAIN = _Kind("pool-pinned", "pins new memory each time.", (0.77, 0.9, 1.0))
_PINS_ONCE = _Kind("touch-then-register", "pins memory and creates its pages at the same time.", (0.5, 0.7, 0.85))
_SHARES = _Kind("reuse-shared-memory", "fills new shared memory each time.", (0.8, 1.0, 1.0))
_MAPS = _Kind("map-at-once", "maps a file and touches it page by page.", (0.3, 0.6, 0.85))
_MAPS_SOME = replace(_MAPS, what="maps a file, shared memory or a device, and touches it page by page.")
_NEW = (_AGAIN, _HUGE_AGAIN, _ONCE, _ONCE_SMALL, _BUILT, _ZEROS_AGAIN, _ZEROS_ONCE)
"""Of new memory, and nothing else."""


def page_costs(scene: Scene) -> Iterator[Candidate]:
    """What pages cost outside CUDA's calls, by the place of the program that it belongs to."""
    costs = scene.caused_by(*_LEAVES) | enters_mappings(scene)
    rows = np.flatnonzero(costs & scene.in_own() & ~_inside_calls(scene))
    if not len(rows):
        return
    marks = PageMarks.of(scene)
    rows = rows[~scene.caused_by("sys.proc")[rows] | marks.fork[rows]]
    rows = rows[~scene.caused_by("sys.signal")[rows] | marks.signals[rows]]
    rows = rows[~marks.of_objects[rows]]
    rows = rows[marks.fork[rows] | ~_others_begin_or_end(scene)[rows]]
    least = LEAST_SHARE * scene.own_ns
    # Other programs also delay the end of a process; it takes long by itself only where its fork has a price.
    shares = scene.ns(rows[(marks.fork | marks.copies)[rows]]) >= least
    ends = _unseen_ends(scene) if shares else np.zeros(0, np.int64)
    places = _protected_by_turns(scene, marks, _with_handlers(scene, marks, rows))
    for made, group in _with_their_frees(scene, marks, places, ends):
        if scene.ns(group) < least:
            continue
        again, huge_again = made_again(scene, marks, made, group, rows)
        if not (again or huge_again):
            # What is given back elsewhere, and what faults there, is not this memory.
            others = group[~np.isin(group, made)]
            group = np.sort(np.concatenate([made, others[marks.fork[others] | np.isin(others, ends)]]))
        kind = _kind(scene, marks, group, again, huge_again)
        if kind is None or (kind.cure == _ONCE.cure and pressed(scene, group)):
            continue
        concerned = _concerned(scene, marks, kind, group)
        cost = scene.ns(concerned)
        blocks = blocks_at(scene, made) if kind in _NEW else None
        blocks = blocks if blocks and blocks.explains else None
        kind = _ONCE_SMALL if kind is _ONCE and blocks is None else kind
        huge = concerned[marks.huge[concerned]]
        stays = renewal(scene, huge, blocks) if len(huge) and not kind.huge else None
        kind = replace(kind, huge=stays.shares, unknown="") if stays else kind
        low, likely, high = _saved(scene, marks, kind, concerned)
        if (high if kind.unknown else likely) < least:
            continue
        remains = Estimate(cost - likely, cost - high, cost - low, RUN)
        place = np.intersect1d(made, concerned) if kind.only else made
        place = _first_of_turns(scene, place) if kind is _PROTECTS else place
        basis = (*_of_ends(scene.ns(np.intersect1d(concerned, ends))), *((stays.basis,) if stays else ()))
        yield _candidate(scene, kind, place, concerned, remains, blocks, basis)


def _others_begin_or_end(scene: Scene) -> Bool:
    """Per wall row, whether another process loads itself there, imports its modules, or ends: it does so once."""
    label = phase_labels(scene.capture.stacks)
    return scene.of_other_process & scene.at_nodes((label == START_UP) | (label == EXIT))


def _concerned(scene: Scene, marks: PageMarks, kind: _Kind, group: Int64) -> Int64:
    """The rows of a place that its cure concerns, and those elsewhere that belong to them."""
    if kind is _SYNCS:
        return distinct(group, np.flatnonzero(marks.syncs & scene.in_own()))
    if kind is _SIGNALS:
        return group[~marks.anonymous[group]]
    return group[getattr(marks, kind.only)[group]] if kind.only else group


def _saved(scene: Scene, marks: PageMarks, kind: _Kind, rows: Int64) -> tuple[float, float, float]:
    """What a cure saves of the cost of these rows: at least, likely, at most."""
    huge = scene.ns(rows[marks.huge[rows]])
    small = scene.ns(rows) - huge
    low, likely, high = (
        small * of_small + huge * of_huge
        for of_small, of_huge in zip(kind.small, kind.huge or _UNMEASURED, strict=True)
    )
    if kind.cure == _MAPS.cure:
        mapping = scene.ns(rows[scene.caused_by("mm.vma", "free.unmap")[rows]])
        low, likely, high = (
            saved + mapping * (all_of - of_faults)
            for saved, all_of, of_faults in zip((low, likely, high), UNMAPPED_SAVES, kind.small, strict=True)
        )
    if kind.cure == _PRIVATE.cure:
        most = small + huge - scene.ns(rows[marks.copying[rows]])
        low, likely, high = (
            min(saved, share * most) for saved, share in zip((low, likely, high), READ_FILE_SAVES, strict=True)
        )
    return low, likely, high


def _unseen_ends(scene: Scene) -> Int64:
    """The own wall rows in which the thread waits for a forked process that the kernel records no longer.

    Kernels may stop recording a process that ends before they take its memory apart. The wait for it goes on.
    """
    wall, samples, exits = scene.course.wall, scene.capture.samples, scene.capture.exits
    rows = np.flatnonzero(scene.caused_by("wait.child") & (wall.waiting == wall.sample))
    ended = np.flatnonzero((exits.pid == exits.tid) & (exits.pid != scene.course.pid))
    if not len(rows) or not len(ended):
        return np.zeros(0, np.int64)
    stacks = scene.capture.stacks
    started = samples.pid[looked_up(stacks.under(stacks.frames.named(STARTS_PROGRAM)), samples.stack)]
    forked = ~np.isin(exits.pid[ended], [*ascending(started), *(pid for pid, _ in scene.capture.renamed)])
    start, end = wall.time_ns[rows], (samples.time_ns + samples.weight)[wall.sample[rows]]
    # Whoever was waited for is the last that ended before the wait did, and after the wait before.
    place = np.searchsorted(exits.time_ns[ended], end, "right") - 1
    last = exits.time_ns[ended[place]]
    unseen = (place >= 0) & forked[place] & (last > np.append(0, end[:-1]))
    unseen &= 2 * (end - np.maximum(start, last)) > end - start
    return np.asarray(rows[unseen & scene.in_own()[rows]])


def _with_handlers(scene: Scene, marks: PageMarks, rows: Int64) -> list[Int64]:
    """The rows by place; what handlers of signals do with protected memory counts where most of the signals come."""
    groups = list(scene.by_place(rows))
    signals = [scene.ns(group[marks.signals[group]]) for group in groups]
    if not any(signals):
        return groups
    most = int(np.argmax(signals))
    handled = [group[marks.handlers[group]] for group in groups]
    groups = [group[~marks.handlers[group]] for group in groups]
    groups[most] = np.sort(np.concatenate([groups[most], *handled]))
    return [group for group in groups if len(group)]


def _protected_by_turns(scene: Scene, marks: PageMarks, groups: list[Int64]) -> list[Int64]:
    """The places; lines of one function that change protections are one, since each takes back what the other did."""
    joined: dict[tuple[str, str, str], list[Int64]] = {}
    others = []
    for group in groups:
        site = scene.site_of(group)
        if site.function and 2 * scene.ns(group[marks.protects[group]]) > scene.ns(group):
            joined.setdefault((site.file, site.function, site.thread), []).append(group)
        else:
            others.append(group)
    return [*others, *(np.sort(np.concatenate(parts)) for parts in joined.values())]


def _first_of_turns(scene: Scene, rows: Int64) -> Int64:
    """The rows of the first line of those that take each other's work back: they cost about the same."""
    lines = list(scene.by_place(rows))
    most = max(map(scene.ns, lines))
    return min((line for line in lines if 2 * scene.ns(line) > most), key=lambda line: scene.site_of(line).line)


def _with_their_frees(
    scene: Scene, marks: PageMarks, groups: Iterable[Int64], ends: Int64
) -> Iterator[tuple[Int64, Int64]]:
    """The groups in which pages are made, and with what gives them back elsewhere: that counts for the heaviest.

    What a forked process does while it becomes another program, or ends, counts for the place that forks; so do waits
    for its end (`ends`).
    """
    faulting: list[Int64] = []
    freeing: list[Int64] = []
    places, parent, children = _by_parent(scene, marks, list(groups))
    children = np.concatenate([children, ends])
    makes = [scene.ns(group[~marks.frees[group]]) for group in places]
    for group, made in zip(places, makes, strict=True):
        # A few pages of a large mapping cost less than to map it and to give it back: the place that makes most, makes.
        frees_alone = made < (1 - FREES_ALONE) * scene.ns(group) and (made < max(makes) or not made)
        (freeing if frees_alone else faulting).append(group)
    faulting.sort(key=lambda group: (bool(marks.fork[group].mean() > 0.5), -scene.ns(group)))
    for number, group in enumerate(faulting):
        joined = [group, *(() if number else freeing), *((children,) if group is parent else ())]
        yield group, np.sort(np.concatenate(joined))


def _by_parent(scene: Scene, marks: PageMarks, groups: list[Int64]) -> tuple[list[Int64], Int64 | None, Int64]:
    """The groups without what other processes do as they come and go, the group that forks most, and these rows."""
    none = np.zeros(0, np.int64)
    own = ~scene.of_other_process
    forks = [scene.ns(group[(marks.fork & own)[group]]) for group in groups]
    if not any(forks):
        return groups, None, none
    theirs = marks.fork & ~own
    left = [group[~theirs[group]] for group in groups]
    parent = left[int(np.argmax(forks))]
    return [group for group in left if len(group)], parent, np.concatenate([group[theirs[group]] for group in groups])


def _kind(scene: Scene, marks: PageMarks, group: Int64, again: bool, huge_again: bool) -> _Kind | None:
    """What most of the time at this place says; `again` and `huge_again` are those of `made_again`. None where nothing
    is known that would help.
    """

    def spent(mask: Bool) -> int:
        return scene.ns(group[mask[group]])

    kinds = {
        name: spent(getattr(marks, name))
        for name in ("file", "copies", "anonymous", "fork", "pins", "to_file", "protects", "signals", "drops_lazily")
    }
    most = max(kinds, key=lambda name: kinds[name])
    cost = max(scene.ns(group), 1)
    if not kinds[most]:
        return _AGAIN if again else None
    if kinds["signals"] >= LEAST_SIGNALS * kinds[most]:
        return _SIGNALS
    simple = {"fork": _FORKS, "protects": _PROTECTS, "drops_lazily": _DROPS_LAZILY}
    if most == "fork" and spent(marks.locked) >= LEAST_LOCKED * kinds[most]:
        return _FORKS_LOCKED
    if most in simple:
        return simple[most]
    if most == "pins":
        created = spent(marks.created) >= LEAST_CREATED * kinds["pins"]
        if again and (created or spent(marks.unpins)):
            return _PINS_AGAIN
        return _PINS_ONCE if created else None
    if most == "copies":
        return _of_copies(scene, marks, group)
    if most == "to_file" and not spent(marks.shared):
        # To touch such pages early costs as much.
        return _SYNCS if _written_back(scene, marks, group) else None
    if most in ("file", "to_file"):
        shared = 2 * spent(marks.file & marks.shared) > kinds["file"] or most == "to_file"
        shared |= spent(marks.freed_shared) >= LEAST_FREED * cost
        found = fault_addresses.mapped_at(scene, group)
        shared |= fault_addresses.mostly(found, (Mapped.SHARED_MEMORY,))
        if shared and again:
            return _SHARES
        of_file = spent(marks.of_cache) > 0 or fault_addresses.mostly(found, (Mapped.PRIVATE_FILE, Mapped.SHARED_FILE))
        return (_MAPS if of_file else _MAPS_SOME) if most == "file" else None
    if not again and huge_again and 2 * spent(marks.huge) > cost:
        return _HUGE_AGAIN
    if again and 2 * spent(marks.drops) > spent(marks.frees) > 0:
        return _DROPS
    if 2 * spent(marks.zero) > kinds["anonymous"]:
        return _ZEROS_AGAIN if again else _ZEROS_ONCE
    if again:
        return _AGAIN
    if 2 * spent(marks.huge) > kinds["anonymous"]:
        # The kernel gives huge pages here already; what is left are the ends of blocks, which none fits into.
        return None
    return _BUILT if scene.phase_of(group) == "build" else _ONCE


def _written_back(scene: Scene, marks: PageMarks, group: Int64) -> bool:
    """Whether the program writes a file back after the first of these faults and before the last."""
    time = scene.course.wall.time_ns
    faults, syncs = time[group[marks.to_file[group]]], time[marks.syncs & scene.in_own()]
    return bool(((syncs > faults.min()) & (syncs < faults.max())).any())


def _of_copies(scene: Scene, marks: PageMarks, group: Int64) -> _Kind | None:
    """Why pages are copied at this place: handlers of files' pages serve private mappings alone, and else the addresses
    tell. None where none was seen to be copied.
    """
    copied = group[marks.copies[group]]
    handled = group[(marks.copies & marks.of_file)[group]]
    found = fault_addresses.mapped_at(scene, copied)
    if 2 * scene.ns(handled) > scene.ns(copied) or fault_addresses.mostly(found, (Mapped.PRIVATE_FILE,)):
        return _PRIVATE
    if _forks(scene):
        return _COW
    if not marks.copying[group].any():
        return None
    return _COW_UNSEEN if fault_addresses.mostly(found, OWN) else _COPIED


def _forks(scene: Scene) -> bool:
    """Whether another process of the program, busy or not, shares memory with this one: its child, or its parent where
    this one did not become another program; a child that became one shares nothing.
    """
    capture, pid = scene.capture, scene.course.pid
    samples, stacks = capture.samples, capture.stacks
    ours = {*scene.course.pids}
    if not system_wide(capture):
        ours |= {*ascending(samples.pid).tolist(), *(one for one, _ in capture.threads)} - {0, -1}
    started = ascending(samples.pid[looked_up(stacks.under(stacks.frames.named(STARTS_PROGRAM)), samples.stack)])
    programs = {*started.tolist(), *(renamed for renamed, _ in capture.renamed)}
    seen = {one: samples.time_ns[samples.pid == one] for one in ours}
    begun = int(seen[pid].min()) if pid in seen else 0
    before = {one for one in ours if len(seen[one]) and seen[one].min() < begun}
    return bool((before and pid not in programs) or ours - before - programs - {pid})


def _candidate(
    scene: Scene,
    kind: _Kind,
    made: Int64,
    group: Int64,
    remains: Estimate,
    blocks: PlaceBlocks | None,
    basis: tuple[str, ...],
) -> Candidate:
    site, cost = scene.site_of(made), scene.ns(group)
    return Candidate(
        title=f"{scene.subject(made, site)} {kind.what}",
        site=site,
        phase=scene.phase_of(group),
        rows=group,
        cost_ns=cost,
        remains=remains,
        cure=cure(kind.cure, scene.framework),
        basis=basis,
        count=blocks.made if blocks else 0,
        bytes=blocks.made_bytes if blocks else 0,
        evidence=(
            share_of_own_time(scene, cost),
            *([Evidence(blocks.text)] if blocks else ()),
            *_addresses(scene, kind, group),
        ),
        unknown=kind.unknown,
    )


def _addresses(scene: Scene, kind: _Kind, group: Int64) -> list[Evidence]:
    """What a kind that files, shared memory or forks explain rests on."""
    if kind not in (_COW, _COW_UNSEEN, _PRIVATE, _MAPS, _MAPS_SOME, _SHARES):
        return []
    said = fault_addresses.sentence(fault_addresses.mapped_at(scene, group))
    if not said and kind is _COW:
        said = f"{fault_addresses.UNKNOWN}, so some may be of a private mapping of a file."
    return [Evidence(said)] if said else []


def _of_ends(ns: int) -> tuple[str, ...]:
    """That waits for processes count as page handling, where they do."""
    if not ns:
        return ()
    return (f"{format_ns(ns)} of it is waiting for forked processes while the kernel frees their memory.",)


def _inside_calls(scene: Scene) -> Bool:
    """Per wall row, whether it lies in a call of CUDA: other detectors have those."""
    inside = np.zeros(len(scene.course.wall), np.bool_)
    if scene.calls is not None and len(scene.calls.table):
        inside[scene.rows_inside(np.arange(len(scene.calls.table)))] = True
    return inside
