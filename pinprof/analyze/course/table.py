"""What a run was doing as one table: the critical thread's wall time by cause, place, phase, range and call."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.course.results import OWN, PHASE_NAMES, Course, PhaseName
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.ranges.membership import Events, Membership
from pinprof.analyze.sites import Sites
from pinprof.base.columns import (
    in_parts,
    is_uniform,
    looked_up,
    numbered,
    pack,
    packed,
    pairs_of,
    slices,
    taken,
    uniform,
    unload,
)  # fmt: skip
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Capture, Int32, Int64

_COMES_AND_GOES = re.compile(
    r"(exit_mmap|begin_new_exec|exec_mmap|do_exit|copy_process|ret_from_fork\w*|schedule_tail)(\.\w+)*"
)
"""Functions of the kernel in which a process begins, becomes another program, or ends."""


@dataclass(frozen=True)
class CourseTable:
    """The critical thread's wall time, a row for each row of `course.wall`; columns are computed when asked for.

    Who asks where time went groups these columns: `time_ns`, `ns`, `thread`, `leaf`, `place`, `phase`, `range`, `call`.
    """

    capture: Capture
    attribution: Attribution
    course: Course
    members: Membership
    """What belongs to the capture's ranges."""
    sites: Sites
    """Places of the capture's stacks."""

    @property
    def phase(self) -> Int32:
        """Index into PHASE_NAMES."""
        return self.course.wall.phase

    @cached_property
    def thread(self) -> Int64:
        """The thread that the time is charged to, as `pack` makes it of pid and tid."""
        sample = self.course.wall.sample
        pid, tid = (looked_up(column, sample) for column in (self.capture.samples.pid, self.capture.samples.tid))
        return packed(in_parts(lambda part: pack(pid[part], tid[part]), len(sample), np.int64, pid, tid))

    @cached_property
    def leaf(self) -> Int32:
        """Its cause, an index into CATEGORIES."""
        leaf, sample = self.attribution.leaf, self.course.wall.sample
        return in_parts(lambda part: leaf[sample[part]], len(sample), np.int32, leaf, sample)

    @cached_property
    def _occurs(self) -> Bool:
        """Per cause whether the table has it."""
        occurs = np.zeros(len(CATEGORIES), np.bool_)
        for part in slices(len(self.leaf), self.leaf):
            occurs[self.leaf[part]] = True
        return occurs

    @cached_property
    def node(self) -> Int32:
        """The innermost node of its stack."""
        return looked_up(self.capture.samples.stack, self.course.wall.sample)

    @cached_property
    def place(self) -> Int32:
        """The frame of the program's own code that it belongs to, NOTHING where there is none.

        What another thread did in library code, or another process while it began or ended, belongs to the line that
        waited for it.
        """
        wall, stack, of_other = self.course.wall, self.capture.samples.stack, self.of_other_process
        comes = self._under(_COMES_AND_GOES)

        def places(part: slice) -> Int32:
            node, waits = self.node[part], wall.waiting[part]
            own = self.sites.frames(node)
            other = (waits >= 0) & (waits != wall.sample[part])
            if not other.any():
                return own
            waiting = self.sites.frames(stack[np.maximum(waits, 0)])
            elsewhere = ~self.sites.are_own(own) | (comes[node] & of_other[part])
            return np.where(other & elsewhere & (waiting != NOTHING), waiting, own)

        return in_parts(places, len(wall), np.int32, self.node, wall.waiting, wall.sample, of_other)

    @property
    def of_other_programs(self) -> Bool:
        """Whether another process has the time, in code that is not the program's own."""
        return self.of_other_process & ~self.sites.are_own(self.sites.frames(self.node))

    @cached_property
    def of_other_process(self) -> Bool:
        """Whether another process has the time."""
        pid, sample = self.capture.samples.pid, self.course.wall.sample
        found = in_parts(lambda part: pid[sample[part]] != self.course.pid, len(sample), np.bool_, pid, sample)
        return packed(found)

    @cached_property
    def range(self) -> Int64:
        """The path of the innermost range around it, an index into `members.paths`; -1 outside of all."""
        wall = self.course.wall
        return self.members.innermost(Events(wall.time_ns, np.full(len(wall), self.course.pid, np.int32)))

    @cached_property
    def call(self) -> Int32:
        """The critical thread's CUDA call around it, an index into the calls' names; -1 outside of all."""
        time_ns = self.course.wall.time_ns
        calls = self.capture.activity.calls if self.capture.activity is not None else None
        mine = np.zeros(0, np.int64)
        if calls is not None:
            mine = np.flatnonzero((calls.pid == self.course.pid) & (calls.tid == self.course.tid))
        if calls is None or not len(mine):
            return np.full(len(time_ns), -1, np.int32)
        mine = mine[np.argsort(calls.start_ns[mine], kind="stable")]
        at = np.searchsorted(calls.start_ns[mine], time_ns, "right") - 1
        row = mine[np.maximum(at, 0)]
        return np.where((at >= 0) & (time_ns < calls.end_ns[row]), calls.name[row], -1).astype(np.int32)

    def has(self, functions: re.Pattern[str]) -> Bool:
        """Whether a function on its stack has such a name."""
        return self.at_nodes(self._under(functions))

    def at_nodes(self, chosen: Bool) -> Bool:
        """The rows whose stack ends at a chosen node; one more element of `chosen` is of no node."""
        return looked_up(chosen, self.node) if chosen.any() else uniform(False, len(self.node), np.bool_)

    def _under(self, functions: re.Pattern[str]) -> Bool:
        return self.capture.stacks.under(self.capture.stacks.frames.named(functions))

    def phase_of(self, rows: Int64) -> PhaseName:
        """The phase that most of these rows lie in."""
        wall = self.course.wall
        if not len(rows):
            return "work"
        return PHASE_NAMES[
            int(np.bincount(wall.phase[rows], weights=wall.ns[rows], minlength=len(PHASE_NAMES)).argmax())
        ]

    def in_work(self) -> Bool:
        """The rows of the work phase."""
        return np.asarray(self.course.wall.phase == PHASE_NAMES.index("work"))

    def in_own(self) -> Bool:
        """The rows of the phases in which the program runs its own code."""
        own = np.array([name in OWN for name in PHASE_NAMES], np.bool_)
        return looked_up(own, self.course.wall.phase)

    def waits(self) -> Bool:
        """The rows of time off the CPU, by what the thread waited for and not by what that did."""
        return looked_up(self.capture.spans, looked_up(self.capture.samples.event, self.course.wall.sample))

    def caused_by(self, *leaves: str) -> Bool:
        """The rows of these causes."""
        wanted = np.zeros(len(CATEGORIES), np.bool_)
        wanted[[LEAF[leaf] for leaf in leaves]] = True
        if not (wanted & self._occurs).any():
            return uniform(False, len(self.leaf), np.bool_)
        return looked_up(wanted, self.leaf)

    def unload(self) -> None:
        """Give back the memory of what lies in files."""
        self.course.wall.unload()
        self.capture.samples.unload()
        unload(*(self.__dict__.get(name) for name in ("thread", "leaf", "node", "place", "of_other_process")))

    def causes(self, rows: Int64) -> dict[str, int]:
        """Leaf → wall time of these rows, heaviest first."""
        sums = np.zeros(len(CATEGORIES), np.int64)
        np.add.at(sums, self.leaf[rows], self.course.wall.ns[rows])
        return {
            CATEGORIES[leaf].name: int(sums[leaf]) for leaf in np.argsort(-sums, kind="stable").tolist() if sums[leaf]
        }

    def ns(self, rows: Int64) -> int:
        """The wall time of these rows."""
        return int(self.course.wall.ns[rows].sum())

    def thread_of(self, rows: Int64) -> str:
        """The name of the thread that most of these rows' time was spent in."""
        threads = taken(self.thread, rows)
        if not len(threads):
            return self.capture.threads.get((self.course.pid, self.course.tid), "")
        known, heaviest = threads[:1], 0
        if not is_uniform(threads):
            known, which = numbered(threads)
            heaviest = int(np.bincount(which, weights=self.course.wall.ns[rows]).argmax())
        return self.capture.threads.get(pairs_of(known)[heaviest], "")
