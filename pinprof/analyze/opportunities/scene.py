"""What detectors look at: the critical thread's time by cause and place, CUDA calls, copies, rates of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.allocations.blocks import LineBlocks
from pinprof.analyze.allocations.results import Allocations
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.blame.results import BlameResult
from pinprof.analyze.course.copies import WAYS, CopyTable
from pinprof.analyze.course.results import OWN, PHASE_NAMES, PhaseName
from pinprof.analyze.course.table import CourseTable
from pinprof.analyze.course.wall import RUNNABLE, disturbed_ns
from pinprof.analyze.groups import group
from pinprof.analyze.ledger.results import Ledger
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.opportunities.copy_groups import CopyGroup, by_size
from pinprof.analyze.opportunities.knobs import Functions
from pinprof.analyze.ranges.summary import summarise
from pinprof.analyze.rules.rule import View
from pinprof.analyze.sites import Site
from pinprof.base.columns import ascending, distinct, pack, taken, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import CallOverhead, CopyKind, MemoryKind
from pinprof.data.model import NO_NODE, Bool, Int32, Int64
from pinprof.data.rate_book import RateBook

_HELD_UP = ("wait.gpu", "wait.lock", "wait.driver", "wait.uvm", "wait.mmap_lock", "wait.other")
_IN_DRIVER = ("wait.gpu", "wait.driver", "wait.uvm", "wait.mmap_lock")
"""Waits that a pin makes longer wherever they are; a wait for a lock is one where CUDA's driver library takes it."""
_LONG_PIN_NS = 20_000_000
BACK_TO_BACK_NS = 100_000
"""A thread that makes the next call within this time does little between the two."""
_MOST_RANGES = 256
"""Distinct names of ranges that are looked at."""
_FRAMEWORKS = (("pytorch", "libtorch"), ("cupy", "cupy"), ("jax", "jaxlib"), ("numpy", "_multiarray_umath"))


@dataclass(frozen=True)
class Scene(CourseTable):
    """One run, ready to be searched: what it was doing, with its calls, its copies and what memory operations cost."""

    calls: Calls | None
    copies: CopyTable | None
    allocations: Allocations | None
    ledger: Ledger | None
    rates: RateBook
    blocks: tuple[LineBlocks, ...] = ()
    """Large memory of the host by line, exactly; empty where the recording has none."""
    blame: BlameResult | None = None
    """Who waits for whom, as far as that is known."""
    counted: View | None = None
    """What was recorded, as rules see it; None: it is counted when somebody asks."""

    @cached_property
    def view(self) -> View:
        """What was recorded, as claims ask for it."""
        return self.counted or View.of(self.capture, *summarise(self.capture, self.attribution, self.members))

    @cached_property
    def framework(self) -> str:
        """`pytorch`, `cupy`, `jax`, `numpy`, `python`, or empty for C and C++: whose words a cure is put in."""
        frames = self.capture.stacks.frames
        used = frames.dso[ascending(self._own_frames())].tolist()
        files = {frames.dsos[dso].path or frames.dsos[dso].name for dso in used}
        for name, part in _FRAMEWORKS:
            if any(part in file for file in files):
                return name
        return "python" if any(frames.dsos[dso].kind == "python" for dso in used) else ""

    def _own_frames(self) -> Int32:
        """The frames that the program's own time has on its stacks."""
        stacks = self.capture.stacks
        ahead = distinct(taken(self.node, self.in_own()))
        seen = np.zeros(len(stacks), np.bool_)
        while len(ahead := ahead[ahead != NO_NODE]):
            ahead = ascending(ahead[~seen[ahead]])
            seen[ahead] = True
            ahead = stacks.parent[ahead]
        return stacks.frame[seen]

    def under(self, *functions: Functions) -> Bool:
        """Per wall row, whether one of these functions of libraries is on its stack."""
        stacks = self.capture.stacks
        return self.at_nodes(stacks.under(np.logical_or.reduce([one.among(stacks.frames) for one in functions])))

    @property
    def at_least(self) -> str:
        """What a sentence puts before a count of calls: records of calls that were lost are in no count."""
        activity = self.capture.activity
        return "at least " if activity is not None and activity.lost_calls else ""

    @property
    def uses_cuda(self) -> bool:
        """Whether the program has CUDA's driver on its stacks."""
        return any("libcuda" in dso.name for dso in self.capture.stacks.frames.dsos)

    @cached_property
    def _ready(self) -> Bool:
        """Per wall row, whether the thread was ready to run: what a busy machine adds to it, no cure takes away."""
        return self.caused_by(RUNNABLE)

    def ns(self, rows: Int64) -> int:
        """The wall time of these rows, without what a busy machine adds: what a cure can save of."""
        return super().ns(rows[~self._ready[rows]])

    def causes(self, rows: Int64) -> dict[str, int]:
        """Leaf → the same time, heaviest first."""
        return super().causes(rows[~self._ready[rows]])

    def phase_ns(self, name: PhaseName) -> int:
        """The length of a phase."""
        phase = self.course.phase(name)
        return phase.wall_ns if phase else 0

    def undisturbed_ns(self, name: PhaseName) -> int:
        """The length of a phase without what a busy machine adds to it: what a cost has to be worth telling of."""
        return max(self.phase_ns(name) - disturbed_ns(self.course, self.attribution, name), 0)

    @cached_property
    def own_ns(self) -> int:
        """The length of the phases in which the program runs its own code, without what a busy machine adds."""
        return sum(self.undisturbed_ns(name) for name in OWN)

    def whole_ns(self, name: PhaseName) -> int:
        """What a cost of a phase is a part of: what the program does once is judged with its work."""
        return self.own_ns if name in OWN else self.undisturbed_ns(name)

    @cached_property
    def _rows_by_thread(self) -> dict[int, Int64]:
        """Thread, as `pack` makes it → the wall rows that it was sampled in."""
        sample = self.course.wall.sample
        thread = pack(self.capture.samples.pid[sample], self.capture.samples.tid[sample])
        return {key: np.flatnonzero(thread == key) for key in ascending(thread).tolist()}

    def rows_inside(self, calls: Int64) -> Int64:
        """The wall rows that lie inside these calls, on the threads that made them."""
        assert self.calls is not None
        table = self.calls.table
        calls = calls[np.argsort(table.start_ns[calls], kind="stable")]
        thread = pack(table.pid[calls], table.tid[calls])
        found = []
        for key in ascending(thread).tolist():
            rows = self._rows_by_thread.get(key, np.zeros(0, np.int64))
            time = self.capture.samples.time_ns[self.course.wall.sample[rows]]
            found.append(rows[self._within(calls[thread == key], time)])
        return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def rows_between(self, calls: Int64, *, others: bool = False) -> Int64:
        """The critical thread's wall rows between two of these calls that follow each other at once, at their place;
        with `others` also those between one of these and any other call.

        Empty where launches are not in the recording: the thread may have launched work between the calls.
        """
        assert self.calls is not None
        table, none = self.calls.table, np.zeros(0, np.int64)
        mine = np.flatnonzero((table.pid == self.course.pid) & (table.tid == self.course.tid))
        inside = np.isin(mine, calls)
        follows = (inside[:-1] | inside[1:]) if others else (inside[:-1] & inside[1:])
        start, end = table.end_ns[mine[:-1]][follows], table.start_ns[mine[1:]][follows]
        own = mine[inside]
        if not self.calls.is_for("launch").any() or not len(start):
            return none
        rows = self._rows_by_thread.get(int(pack(table.pid[own[:1]], table.tid[own[:1]])[0]), none)
        time = self.capture.samples.time_ns[self.course.wall.sample[rows]]
        gap = np.searchsorted(start, time, "right") - 1
        between = (gap >= 0) & (time < end[gap]) & (end[gap] - start[gap] <= BACK_TO_BACK_NS)
        place = self.place_of(np.intersect1d(self.rows_inside(own), rows))
        return rows[between & (self.place[rows] == place)] if place != NOTHING else none

    def ns_until_launch(self, calls: Int64) -> int | None:
        """Nanoseconds from the end of each of these calls to the next launch of its thread, in all, where that comes
        before another of these calls; None where launches are not in the recording.
        """
        assert self.calls is not None
        table, launch = self.calls.table, self.calls.is_for("launch")
        if not launch.any():
            return None
        found = 0
        thread = pack(table.pid, table.tid)
        for key in ascending(thread[calls]).tolist():
            mine = np.sort(calls[thread[calls] == key])
            starts = np.append(np.sort(table.start_ns[launch & (thread == key)]), np.iinfo(np.int64).max)
            end = table.end_ns[mine]
            following = starts[np.searchsorted(starts, end)]
            before = following < np.append(table.start_ns[mine[1:]], np.iinfo(np.int64).max)
            found += int((following - end)[before].sum())
        return found

    def place_of(self, rows: Int64) -> int:
        """The frame of the program's own code in which most of the time of these wall rows was sampled."""
        places, which = np.unique(self.place[rows], return_inverse=True)
        if not len(places):
            return NOTHING
        return int(places[np.bincount(which.reshape(-1), weights=self.course.wall.ns[rows]).argmax()])

    def beside_context(self, rows: Int64) -> Int64:
        """Those of these wall rows in which no context is created; all where they are nothing else."""
        others = rows[self.course.wall.phase[rows] != PHASE_NAMES.index("context")]
        return others if len(others) else rows

    def _within(self, calls: Int64, time: Int64) -> Bool:
        """Which of these times lie inside one of these calls of one thread, ordered by start."""
        assert self.calls is not None
        place = np.searchsorted(self.calls.table.start_ns[calls], time, "right") - 1
        return np.asarray((place >= 0) & (time < np.append(self.calls.table.end_ns[calls], 0)[place]))

    def cost_of_calls(self, calls: Int64, rows: Int64) -> int:
        """Wall time of the critical thread in calls; `rows` are the wall rows inside them.

        Its own count by their clock, without what tracing them costs, without the creation of contexts, and without
        what a busy machine adds; those of other threads as far as it waited for them, unless it did so inside its own,
        whose clock holds that.
        """
        assert self.calls is not None
        table, wall = self.calls.table, self.course.wall
        own = calls[(table.pid[calls] == self.course.pid) & (table.tid[calls] == self.course.tid)]
        own = own[np.argsort(table.start_ns[own], kind="stable")]
        other = self.capture.samples.tid[wall.sample[rows]] != self.course.tid
        clock = np.maximum(self.calls.duration_ns[own] - self.overhead_ns - self._context_in(own), 0)
        waited = (wall.waiting[rows] >= 0) & other & ~self._within(own, wall.time_ns[rows])
        blocked = np.flatnonzero(self.blocked)
        held_up = self.ns(blocked[self._within(own, wall.time_ns[blocked])])
        ready = rows[self._ready[rows]]
        ready_ns = int(wall.ns[ready[self._within(own, wall.time_ns[ready])]].sum())
        return max(int(clock.sum()) - held_up - ready_ns, 0) + self.ns(rows[waited])

    def copy_groups(self, *kinds: MemoryKind) -> tuple[CopyGroup, ...]:
        """Copies by the kind of memory on the host's side, by site and direction; those with their calls alone."""
        return tuple(group for kind in kinds for group in self._copy_groups.get(kind, ()))

    @cached_property
    def _copy_groups(self) -> dict[int, list[CopyGroup]]:
        copies = self.copies
        found: dict[int, list[CopyGroup]] = {}
        if copies is None or self.calls is None:
            return found
        for direction, way, words in WAYS:
            host = copies.source if direction == CopyKind.HOST_TO_DEVICE else copies.target
            wanted = (copies.direction == direction) & (copies.call >= 0)
            for kind in ascending(host[wanted]).tolist():
                mine = np.flatnonzero(wanted & (host == kind))
                for calls in self.call_groups(copies.call[mine]):
                    of_site = mine[np.isin(copies.call[mine], calls)]
                    for part in by_size(copies.size_bytes[of_site]):
                        table = copies.take(of_site[part])
                        calls = ascending(table.call)
                        rows = self.rows_inside(calls)
                        group = CopyGroup(table, calls, rows, self.cost_of_calls(calls, rows), way, words)
                        found.setdefault(kind, []).append(group)
        return found

    @cached_property
    def blocked(self) -> Bool:
        """Per wall row, whether the critical thread waits for the driver while another thread pins, which lets one of
        them in at a time: its own wait, or what it is charged with of the thread that pins.
        """
        wall, tid = self.course.wall, self.capture.samples.tid
        result = np.zeros(len(wall), np.bool_)
        if self.calls is None:
            return result
        table = self.calls.table
        pins = self.calls.is_for("alloc pinned", "register") & (table.pid == self.course.pid)
        pins &= (table.tid != self.course.tid) & (table.end_ns - table.start_ns >= _LONG_PIN_NS)
        spans = self._parts(*(column[pins] for column in (table.start_ns, table.end_ns)))
        if not spans:
            return result
        held_up = (tid[wall.sample] == self.course.tid) & self.caused_by(*_HELD_UP)
        held_up |= self._charged_in_driver() & np.isin(tid[wall.sample], table.tid[pins])
        for start, end in spans:
            result |= held_up & (wall.time_ns < end) & (wall.time_ns + wall.ns > start)
        return result

    def _charged_in_driver(self) -> Bool:
        """The wall rows of waits for the driver that are charged to another thread."""
        wall, samples = self.course.wall, self.capture.samples
        rows = np.flatnonzero((wall.waiting >= 0) & (samples.tid[wall.sample] != self.course.tid))
        waiting = wall.waiting[rows]
        leaf = self.attribution.leaf[waiting]
        stacks = self.capture.stacks
        driver = np.array([dso.name.startswith("libcuda.so") for dso in stacks.frames.dsos], np.bool_)
        inside = stacks.under(driver[stacks.frames.dso])
        lock = (leaf == LEAF["wait.lock"]) & inside[samples.stack[waiting]]
        result = np.zeros(len(wall), np.bool_)
        result[rows] = lock | np.isin(leaf, [LEAF[name] for name in _IN_DRIVER])
        return result

    def waiting_site(self, rows: Int64) -> Site:
        """Where the critical thread waits in these wall rows, wherever they are charged to."""
        wall = self.course.wall
        sample = np.where(wall.waiting[rows] >= 0, wall.waiting[rows], wall.sample[rows])
        place = self.sites.frames(self.capture.samples.stack[sample])
        thread = self.capture.threads.get((self.course.pid, self.course.tid), "")
        return replace(self.sites.heaviest(place, wall.ns[rows], thread), range=self.range_of(rows))

    @staticmethod
    def _parts(start: Int64, end: Int64) -> list[tuple[int, int]]:
        """The longest of these times."""
        longest = np.argsort(start - end, kind="stable")[:_MOST_RANGES]
        return list(zip(start[longest].tolist(), end[longest].tolist(), strict=True))

    def _context_in(self, calls: Int64) -> Int64:
        """Per call how much of it is the creation of a context, which it may do before its own work."""
        assert self.calls is not None
        table, context = self.calls.table, self.course.phase("context")
        overlap = np.zeros(len(calls), np.int64)
        for part in context.intervals if context and not self.calls.initial[calls].any() else ():
            overlap += np.maximum(
                np.minimum(table.end_ns[calls], part.end_ns) - np.maximum(table.start_ns[calls], part.start_ns), 0
            )
        return overlap

    @property
    def overhead_ns(self) -> int:
        """What tracing adds to the length of one call."""
        return self._overhead.inside_ns if self._overhead else 0

    @property
    def around_ns(self) -> int:
        """What tracing one call takes in all."""
        return self._overhead.around_ns if self._overhead else 0

    @property
    def _overhead(self) -> CallOverhead | None:
        return self.capture.activity.call_overhead if self.capture.activity else None

    def is_own(self, site: Site) -> bool:
        """Whether a site is in the program's own code."""
        return self.sites.is_own(site)

    def site_of_calls(self, calls: Int64, rows: Int64, *, library: bool = False) -> Site:
        """Where these calls are made: as each was recorded, else where samples inside them were.

        Where a library's own thread makes them, it is the line of the program that waits for it, if samples tell;
        with `library` that of the library.
        """
        assert self.calls is not None
        table = self.calls.table
        thread = self.thread_of(rows)
        if table.site is not None and len(calls):
            known = table.site[calls][table.site[calls] >= 0]
            if 2 * len(known) >= len(calls):
                named = self.sites.of_caller(table.sites[int(np.bincount(known).argmax())], thread)
                sampled = self.site_of(rows)
                unknown = not named.file and (sampled.file or named.function.startswith("["))
                theirs = not library and not self.is_own(named) and self.is_own(sampled)
                return sampled if unknown or theirs else replace(named, range=sampled.range)
        return self.site_of(rows)

    def site_of(self, rows: Int64) -> Site:
        """Where most of the time of these wall rows was spent."""
        site = self.sites.heaviest(self.place[rows], self.course.wall.ns[rows], self.thread_of(rows))
        return replace(site, range=self.range_of(rows))

    def subject(self, rows: Int64, site: Site) -> str:
        """How a title begins: the place; where it waits for another thread, that and which."""
        waiting = self.course.wall.waiting[rows]
        foreign = rows[(waiting >= 0) & (self.place[rows] != self.sites.frames(self.node[rows]))]
        if 2 * self.ns(foreign) <= self.ns(rows):
            return site.place
        sample = self.course.wall.sample[foreign]
        if (self.capture.samples.pid[sample] != self.course.pid).mean() > 0.5:
            other = f"another process (thread {site.thread})" if site.thread else "another process"
        else:
            other = f"thread {site.thread}" if site.thread else "another thread"
        return f"{site.place} waits for {other}, which"

    def range_of(self, rows: Int64) -> str:
        """The name of the innermost range around most of these wall rows' time; empty where most lies in none."""
        weights = np.bincount(self._range[rows], weights=self.course.wall.ns[rows], minlength=len(self._range_names))
        heaviest = int(weights.argmax())
        return self._range_names[heaviest] if 2 * weights[heaviest] > weights.sum() else ""

    @cached_property
    def _range_names(self) -> list[str]:
        """Names of the critical thread's ranges that end, those with most time first, after one for none."""
        ranges = self.capture.ranges
        closed = ranges.closed & (ranges.end_ns < self.course.end_ns)
        mine = np.flatnonzero(closed & ((ranges.tid == self.course.tid) | (ranges.tid < 0))).tolist()
        times: dict[str, int] = {}
        for row in mine:
            name = ranges.name[row]
            times[name] = times.get(name, 0) + int(ranges.end_ns[row] - ranges.start_ns[row])
        return ["", *sorted(times, key=lambda name: -times[name])[:_MOST_RANGES]]

    @cached_property
    def _range(self) -> Int64:
        """Per wall row the innermost range around it, an index into `_range_names`; ranges of one name do not nest."""
        ranges, time = self.capture.ranges, self.course.wall.time_ns
        number = {name: index for index, name in enumerate(self._range_names) if index}
        if not number:
            return uniform(0, len(time), np.int64)
        here = (ranges.tid == self.course.tid) | (ranges.tid < 0)
        mine = np.where(here, np.array([number.get(name, 0) for name in ranges.name], np.int64), 0)
        innermost = np.zeros(len(time), np.int64)
        # What takes least in all stands inside the others.
        for index in number.values():
            instances = np.flatnonzero((mine == index) & ranges.closed & (ranges.end_ns < self.course.end_ns))
            place = np.searchsorted(ranges.start_ns[instances], time, "right") - 1
            inside = (place >= 0) & (time < ranges.end_ns[instances][place])
            innermost[inside] = index
        return innermost

    def by_place(self, rows: Int64) -> Iterable[Int64]:
        """These wall rows by the place they belong to, heaviest first; those without one by their range, and last."""
        place = np.where(self.place[rows] == NOTHING, NOTHING - 1 - self._range[rows], self.place[rows])
        cells = group(place)
        order, parts = np.lexsort((-cells.sum(self.course.wall.ns[rows]), cells.keys[0] < 0)), cells.rows()
        return (rows[parts[number]] for number in order.tolist())

    def call_groups(self, calls: Int64, *more: Int64) -> Iterable[Int64]:
        """Calls by the site they were made from, and by more columns of the calls' length, if given."""
        assert self.calls is not None
        table = self.calls.table
        site = np.full(len(calls), -1, np.int64) if table.site is None else table.site[calls].astype(np.int64)
        if (site < 0).all() and len(calls):
            site = self._sampled_places(calls)
        cells = group(site + 1, *more)
        return [calls[rows] for rows in cells.rows()]

    def _sampled_places(self, calls: Int64) -> Int64:
        """Per call the place of a sample inside it; those without a sample have that of most, for lack of better."""
        assert self.calls is not None
        table, wall, samples = self.calls.table, self.course.wall, self.capture.samples
        order = np.argsort(table.start_ns[calls], kind="stable")
        at = np.searchsorted(table.start_ns[calls][order], samples.time_ns[wall.sample], "right") - 1
        at = np.maximum(at, 0)
        inside = samples.time_ns[wall.sample] < table.end_ns[calls][order][at]
        inside &= samples.tid[wall.sample] == table.tid[calls][order][at]
        place = np.full(len(calls), NOTHING, np.int64)
        place[order[at[inside]]] = self.place[inside]
        known = place[place != NOTHING]
        if len(known):
            place[place == NOTHING] = np.bincount(known).argmax()
        return place
