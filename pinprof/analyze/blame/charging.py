"""Waits charged to what the threads did that were awaited: by who ended a wait where that was recorded, else inferred.

Whoever ended a wait may have waited itself: that part is charged to whom it waited for, and so on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.blame.inference import inferred
from pinprof.analyze.blame.timelines import Doing, timelines
from pinprof.analyze.blame.waits import Charged, HolderCertainty, Waits, overlaps
from pinprof.analyze.blame.wakers import NOBODY, Wakers
from pinprof.base.columns import Bool, Int64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import BY_EXIT, BY_INTERRUPT, KERNEL, READY, Capture

LINKS = 8
"""How often a waiter's waiter is followed."""

AWAITED = np.isin(
    [row.name for row in CATEGORIES],
    [
        "wait.lock", "wait.poll", "wait.ipc", "wait.child", "wait.mmap_lock", "wait.other", "wait.idle", "wait.kernel",
        "wait.driver", "wait.uvm", "wait.uffd",
    ],
)  # fmt: skip
"""Leaf → whether a thread waits there for what another does, if anybody ends the wait."""

_HOLDS_ADDRESS_SPACE = re.compile(
    r"(__)?(pin_user_pages|get_user_pages|gup_longterm)\w*|__mm_populate|populate_vma_page_range|(do_|__do_)?(mmap|munmap)"
    r"|vm_mmap_pgoff|__vm_munmap|do_vmi_\w+|mprotect_fixup|do_mprotect_pkey|mremap\w*|do_madvise|__do_sys_brk|exit_mmap"
    r"|dup_mmap|os_lock_user_pages|faultin_page\w*"
)
"""Functions of the kernel and the NVIDIA driver that run under the lock of the address space."""


@dataclass(frozen=True)
class Blame:
    """What a capture says about who waits for whom."""

    capture: Capture
    attribution: Attribution
    threads: tuple[Doing, ...]
    place: dict[tuple[int, int], int]
    """(pid, tid) → its place in `threads`."""
    wakers: Wakers | None

    @classmethod
    def of(cls, capture: Capture, attribution: Attribution, pids: Int64) -> Self:
        """For the threads of some processes."""
        threads = timelines(capture, attribution, pids)
        place = {(thread.pid, thread.tid): number for number, thread in enumerate(threads)}
        return cls(capture, attribution, threads, place, Wakers.of(capture))

    def charge(self, pid: int, tid: int, waits: Waits) -> Charged:
        """Charge waits of one thread, at most its length of each."""
        if not len(waits):
            return Charged.empty()
        if self.wakers is None:
            return self._named(inferred(self.capture, self.attribution, pid, tid, waits, self.threads), waits)
        known, rest = self._recorded((pid, tid), waits, 0)
        return known.joined(self._named(inferred(self.capture, self.attribution, pid, tid, rest, self.threads), rest))

    def _recorded(self, origin: tuple[int, int], waits: Waits, link: int) -> tuple[Charged, Waits]:
        """What is charged to recorded wakers, and of the first link the waits without one, or from before it began;
        `origin` is the thread that waits in the end: meanwhile `waits`, of any threads, follow each other.
        """
        assert self.wakers is not None
        ended = self.wakers.ending(self.capture.samples.tid[waits.sample], waits, self.attribution)
        holder = self._holders(ended, origin)
        table = self.wakers.table
        # From the wake-up on the thread waits for a processor.
        woken = np.where(ended >= 0, table.time_ns[np.maximum(ended, 0)] if len(table) else 0, waits.end_ns)
        clipped = replace(waits, end_ns=np.clip(woken, waits.start_ns, waits.end_ns))
        parts, rest = [], [] if link else [waits.take(holder < 0)]
        for number in ascending(holder[holder >= 0]).tolist():
            pieces = self.threads[number].everything
            rows = np.flatnonzero(holder == number)
            if pieces is not None:
                by_exit = table.context[ended[rows]] == BY_EXIT
                for some, certainty in ((rows[by_exit], HolderCertainty.JOIN), (rows[~by_exit], HolderCertainty.WAKER)):
                    if len(some):
                        how = HolderCertainty.CHAIN if link else certainty
                        parts.append(overlaps(clipped, some, np.ones(len(some)), pieces, how))
                early = rows[clipped.start_ns[rows] < pieces.time.start[0]]
                if len(early) and not link:
                    mine = clipped.take(early)
                    unborn = replace(mine, end_ns=np.minimum(mine.end_ns, pieces.time.start[0]))
                    rest.append(unborn.take(unborn.end_ns > unborn.start_ns))
        charged = Charged.empty().joined(*parts)
        left = Waits.empty()
        if rest:
            left = left.joined(*rest)
            left = left.take(np.argsort(left.start_ns, kind="stable"))
        return (self._followed(origin, charged, link) if link < LINKS else charged), left

    def _holders(self, ended: Int64, origin: tuple[int, int]) -> Int64:
        """Per wake-up the place of the thread that made it; -1 for interrupts, strangers and the waiter itself."""
        assert self.wakers is not None
        table = self.wakers.table
        holder = np.full(len(ended), -1, np.int64)
        rows = np.flatnonzero(ended != NOBODY)
        rows = rows[table.context[ended[rows]] != BY_INTERRUPT]
        pairs = zip(table.pid[ended[rows]].tolist(), table.tid[ended[rows]].tolist(), strict=True)
        holder[rows] = [-1 if pair == origin else self.place.get(pair, -1) for pair in pairs]
        return holder

    def _followed(self, origin: tuple[int, int], charged: Charged, link: int) -> Charged:
        """The same, with the waits of those who were awaited charged in their turn."""
        waits = self._awaits(charged.sample.astype(np.int64))
        if not waits.any():
            return charged
        theirs = charged.take(waits)
        theirs = theirs.take(np.argsort(theirs.start_ns, kind="stable"))
        own = Waits(theirs.start_ns, theirs.start_ns + theirs.ns, theirs.sample)
        further, _ = self._recorded(origin, own, link + 1)
        taken = np.zeros(len(theirs), np.int64)
        np.add.at(taken, np.searchsorted(own.start_ns, further.start_ns, "right") - 1, further.ns)
        left = theirs.ns - taken
        return charged.take(~waits).joined(further, replace(theirs, ns=left).take(left > 0))

    def _awaits(self, rows: Int64) -> Bool:
        """Per row of the samples, whether a thread waits for another there."""
        samples = self.capture.samples
        spans = self.capture.spans[samples.event[rows]]
        ready = samples.wait[rows] & READY > 0 if samples.wait is not None else np.zeros(len(rows), np.bool_)
        return np.asarray(spans & AWAITED[self.attribution.leaf[rows]] & ~ready)

    def _named(self, charged: Charged, waits: Waits) -> Charged:
        """With waits for an address space known by what holds its lock."""
        if not len(charged):
            return charged
        place = np.searchsorted(waits.start_ns, charged.start_ns, "right") - 1
        locked = self.attribution.leaf[waits.sample[place]] == LEAF["wait.mmap_lock"]
        if not locked.any():
            return charged
        holds = self._holds_address_space[self.capture.samples.stack[charged.sample]]
        return replace(charged, how=np.where(locked & holds, np.uint8(HolderCertainty.LOCK), charged.how))

    @cached_property
    def _holds_address_space(self) -> Bool:
        """Per node, whether a thread there runs in what holds the lock of its address space; one more for NO_NODE."""
        stacks = self.capture.stacks
        return stacks.under(stacks.frames.named(_HOLDS_ADDRESS_SPACE) & (stacks.frames.mode == KERNEL))
