"""Every sample gets exactly one leaf and one work attribute.

`walk` is the pass over stacks: a state machine that each node of the prefix tree derives from its parent's state and
its own frame, level by level. `attribute` then looks stacks up per sample and applies what a stack alone cannot say:
thread names, the loops of a stripped libcuda (`heuristics`), and whether a thread off the CPU could have run on.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.categories import NEAR_FRAMES, UVM_THREAD
from pinprof.analyze.attribution.fault_kinds import by_what_faults_do
from pinprof.analyze.attribution.heuristics import hot_loops
from pinprof.analyze.attribution.matching import FrameRules, frame_rules
from pinprof.analyze.attribution.tables import NONE, TABLES, RuleTables
from pinprof.analyze.attribution.work import WORK_ATTRIBUTES
from pinprof.base.columns import Int8, Int64, looked_up, packed, slices, taken
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, READY, Bool, Capture, Int16, Int32, StackTable, UInt8

PIN_USER_PAGES, RECLAIM_IN_PIN = GROUPS = ("pin_user_pages", "reclaim inside pin_user_pages")
"""Questions about whole stacks, answered next to the leaves: is any such frame on the stack? Bits of
`AttributedStacks.groups`."""

_PINS, _RECLAIMS = (1 << bit for bit in range(len(GROUPS)))

_COPY_SPACE = frozenset({"dup_mm", "dup_mmap"})
"""What a fork does with the address space, under its lock."""

_UNKNOWN, _IN_LIBC, _OF_LIBCUDA, _OF_PROGRAM = range(4)
"""Whose thread a stack belongs to, from its root inward: libcuda starts its own through libc, without the program."""


@dataclass(frozen=True)
class AttributedStacks:
    """What the pass says about every stack node, as columns of the stack table's length."""

    leaf: Int16
    work: Int8
    decided: Int32
    """The node whose frame decided the leaf."""
    groups: UInt8
    """Bits of `GROUPS` met between the root and the node."""
    shown: UInt8
    """Bits of `RuleTables.shown_by` met between the root and the node."""
    spin: Int32
    """Tier U: the nearest libcuda node outward, NO_NODE if none is near."""
    copy_call: Bool
    """Whether a CUDA copy function is on the stack."""
    wait: Int16
    """What a thread waits for that left a processor with this stack."""
    waits_at: Int32
    """The node whose frame decided that; NO_NODE where none did."""
    yields: Bool
    """Whether it waits for the GPU by letting others run."""
    rules: FrameRules


@dataclass(frozen=True)
class Attribution:
    """The outcome, per sample and per stack node."""

    leaf: Int16
    """Per sample, index into `CATEGORIES`."""
    work: Int8
    """Per sample, index into `WORK_ATTRIBUTES`."""
    decided: Int32
    """Per stack node, the node whose frame decided; NO_NODE where nothing matched."""
    groups: UInt8
    """Per sample, bits of `GROUPS`."""
    heuristic: Bool
    """Per sample, whether the leaf comes from the hot-loop rule: likely, not proven by a frame's name."""

    def of_samples(self, rows: Int64 | Bool) -> Attribution:
        """The same of some samples (a mask, or an index of each)."""
        names = ("leaf", "work", "groups", "heuristic")
        return replace(self, **{name: taken(getattr(self, name), rows) for name in names})


def walk(stacks: StackTable, tables: RuleTables = TABLES) -> AttributedStacks:
    """Derive leaf, work attribute and deciding node of every stack; cost grows with distinct stacks only.

    One long function on purpose: every tier reads state of others at the same node, about twenty columns in all.
    """
    rules, role = frame_rules(stacks.frames, tables), tables.role
    size = len(stacks) + 1
    # The last element is the state before any frame: NO_NODE (-1) as an index reads it.
    interrupted = np.zeros(size, np.bool_)
    specific_at, owner_at, uvm_at = (np.full(size, NO_NODE, np.int32) for _ in range(3))
    context, kind = np.zeros(size, np.int8), np.zeros(size, np.int8)
    context_leaf, context_at = np.full(size, NONE, np.int16), np.full(size, NO_NODE, np.int32)
    beneath = np.zeros(size, np.int32)
    remainder, remainder_at = np.full(size, NONE, np.int8), np.full(size, NO_NODE, np.int32)
    wait, wait_at = np.zeros(size, np.int8), np.full(size, NO_NODE, np.int32)
    whose, gpu_at = np.zeros(size, np.int8), np.full(size, NO_NODE, np.int32)
    interrupt_at = np.full(size, NO_NODE, np.int32)
    other, entry = WORK_ATTRIBUTES.index("other"), WORK_ATTRIBUTES.index("entry")
    work = np.full(size, other, np.int8)
    groups, shown = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    libcuda_distance = np.full(size, NEAR_FRAMES + 1, np.int8)
    libcuda_at = np.full(size, NO_NODE, np.int32)
    copy_call, synchronises, locking, yielding = (np.zeros(size, np.bool_) for _ in range(4))
    exception, gup = tables.context["exception"], tables.context["gup"]
    lasting = sum(detour.beneath for detour in tables.detours if not detour.becomes)
    starts = np.where(rules.libc, _IN_LIBC, _OF_PROGRAM)
    inward = np.where(rules.libcuda, _OF_LIBCUDA, starts)
    for nodes in stacks.levels():
        frame = stacks.frame[nodes]
        caller = stacks.parent[nodes]
        # A user frame is never called by the kernel: kernel addresses outside it are misread words of its stack.
        kernel = rules.kernel[frame]

        # IRQ cut: back on the way to user mode, the interrupted work outside no longer counts.
        parent = np.where(~kernel | (rules.return_to_user[frame] & interrupted[caller]), NO_NODE, caller)
        here = rules.interrupt[frame]
        already = interrupted[parent]
        interrupted[nodes] = already | here
        interrupt_at[nodes] = np.where(here & ~already, nodes, interrupt_at[parent])

        # S: the innermost match replaces what its callers said.
        specific_at[nodes] = np.where(rules.specific[frame] != NONE, nodes, specific_at[parent])

        # O: the outermost named entry point stays.
        leaf = rules.owner[frame]
        named, outer = leaf != NONE, uvm_at[parent]
        uvm_at[nodes] = np.where(named & (outer == NO_NODE), nodes, outer)
        outer = owner_at[parent]
        owner_at[nodes] = np.where(named & (leaf != role["uvm"]) & (outer == NO_NODE), nodes, outer)

        # G: a context frame starts afresh; inside it the most telling kind counts.
        opened = rules.context[frame]
        below = beneath[parent] & np.where(opened == exception, lasting, ~0) | rules.beneath[frame]
        beneath[nodes] = below
        for detour in tables.detours:
            inside = (below & detour.beneath > 0) & (below & detour.not_beneath == 0)
            opened = np.where((opened == detour.opened) & inside, detour.becomes, opened)
        afresh = opened > 0
        shown[nodes] = shown[parent] | rules.shows[frame]
        now = np.where(afresh, opened, context[parent])
        telling = np.maximum(np.where(afresh, 0, kind[parent]), rules.kinds[frame, now])
        leaf = tables.context_leaf[now, telling]
        context[nodes], kind[nodes], context_leaf[nodes] = now, telling, leaf
        context_at[nodes] = np.where(afresh | (leaf != context_leaf[parent]), nodes, context_at[parent])

        # D, W: the strongest claim on the stack, the outermost frame that makes it.
        for ranks, strongest, at in ((rules.remainder, remainder, remainder_at), (rules.wait, wait, wait_at)):
            rank, before = ranks[frame], strongest[parent]
            strongest[nodes] = np.maximum(rank, before)
            at[nodes] = np.where(rank > before, nodes, at[parent])

        # U: whose code, and is libcuda near?
        distance = np.minimum(libcuda_distance[caller] + 1, NEAR_FRAMES + 1).astype(np.int8)
        libcuda = rules.libcuda[frame]
        libcuda_distance[nodes] = np.where(libcuda, 0, distance)
        near_at = np.where(distance <= NEAR_FRAMES, libcuda_at[caller], NO_NODE)
        near_at = np.where(libcuda, nodes, near_at)
        libcuda_at[nodes] = near_at
        # Libcuda sleeps in system calls, its own or those of libc; how deep in the kernel does not matter.
        gpu_at[nodes] = np.where(kernel, gpu_at[caller], near_at)
        callers = whose[caller]
        whose[nodes] = np.where(
            kernel | (callers >= _OF_LIBCUDA), callers, np.where(callers == _UNKNOWN, starts[frame], inward[frame])
        )
        copy_call[nodes] = copy_call[caller] | rules.copy_call[frame]
        synchronises[nodes] = synchronises[caller] | rules.waits_for_gpu[frame]
        # A lock is taken by the innermost functions outside the kernel, all of the C library.
        locking[nodes] = ((kernel | rules.libc[frame]) & locking[caller]) | (rules.takes_lock[frame] & ~kernel)
        yielding[nodes] = yielding[caller] | (rules.yields[frame] & (near_at != NO_NODE))

        # An unknown function below a system call is other work; below an exception it is part of the entry's cost.
        attribute = rules.work[frame]
        inherited = work[parent]
        left_entry = (inherited == entry) & ~rules.helper[frame] & (now != exception)
        work[nodes] = np.where(attribute != NONE, attribute, np.where(left_entry, other, inherited))
        member = groups[parent]
        reclaims = rules.reclaim[frame] & (member & _PINS > 0)
        groups[nodes] = member | np.where(opened == gup, _PINS, 0) | np.where(reclaims, _RECLAIMS, 0)

    in_kernel = np.append(rules.kernel[stacks.frame], False)
    user_leaf = np.append(rules.user_leaf[stacks.frame], np.int16(NONE))
    near = (libcuda_distance <= NEAR_FRAMES) & (user_leaf != NONE)
    user_leaf = np.where(near, tables.near_libcuda[user_leaf], user_leaf)
    leaf = np.where(in_kernel, tables.remainder_leaf[remainder], user_leaf)
    decided = np.where(in_kernel, remainder_at, np.arange(size))
    for stronger_leaf, decided_at in (
        (context_leaf, context_at),
        (np.where(uvm_at != NO_NODE, role["uvm"], NONE), uvm_at),
        (np.append(rules.owner[stacks.frame], np.int16(NONE))[owner_at], owner_at),
        (np.append(rules.specific[stacks.frame], np.int16(NONE))[specific_at], specific_at),
    ):
        decided = np.where(stronger_leaf != NONE, decided_at, decided)
        leaf = np.where(stronger_leaf != NONE, stronger_leaf, leaf)
    # Libcuda offers its processor to others where it polls: also in a launch, while the GPU's queue is full.
    yielding |= (gpu_at != NO_NODE) & (wait == tables.rank["runnable"])
    leaf, decided = np.where(yielding, role["polling"], leaf), np.where(yielding, gpu_at, decided)
    handler = remainder == tables.rank["driver interrupt"]
    leaf = np.where(interrupted, np.where(handler, role["driver interrupt"], role["interrupt"]), leaf)
    decided = np.where(interrupted, np.where(handler, remainder_at, interrupt_at), decided)
    copies = rules.kernel & np.array([name in _COPY_SPACE for name in stacks.frames.function], np.bool_)
    memory = (context > 0) | (remainder == tables.rank["address space"]) | stacks.under(copies)
    by_libcuda = (gpu_at, whose, synchronises & ~locking)
    waits, waits_at = _waits(wait, wait_at, memory, by_libcuda, tables)
    polling = leaf == role["polling"]
    work = np.where(polling, WORK_ATTRIBUTES.index("gpuwait"), work)
    return AttributedStacks(
        leaf=leaf[:-1].astype(np.int16),
        work=work[:-1].astype(np.int8),
        decided=decided[:-1].astype(np.int32),
        groups=groups[:-1],
        shown=shown[:-1],
        spin=np.where(yielding, gpu_at, np.where(in_kernel, NO_NODE, libcuda_at))[:-1].astype(np.int32),
        copy_call=copy_call[:-1],
        wait=waits[:-1].astype(np.int16),
        waits_at=waits_at[:-1].astype(np.int32),
        yields=((waits == role["gpu wait"]) & (wait == tables.rank["runnable"]))[:-1],
        rules=rules,
    )


def _waits(
    wait: Int8, wait_at: Int32, memory: Bool, by_libcuda: tuple[Int32, Int8, Bool], tables: RuleTables
) -> tuple[Int16, Int32]:
    """Tier W's leaf of every stack, and the node that decided.

    `by_libcuda`: the node of libcuda that made the system call, whose thread it is, and whether the thread is in a
    call that waits for the GPU and not for a lock. Libcuda waits for its locks, and for its own threads, by futex(2):
    only in such a call that is a wait for the GPU.
    """
    # A semaphore is the address space's where memory management takes it.
    other_lock = (wait == tables.rank["mmap lock"]) & ~memory
    leaf = tables.wait_leaf[np.where(other_lock, tables.rank["kernel lock"], wait)]
    gpu_at, whose, for_gpu = by_libcuda
    called = (gpu_at != NO_NODE) & np.isin(wait, tables.system_call_waits)
    idle = called & (whose == _OF_LIBCUDA)
    # Where no function says that it waits, the thread may have been taken off its processor.
    unsure = np.isin(wait, (tables.rank["lock"], tables.rank["wait"]))
    waits = called & (for_gpu | ~unsure) & ~idle
    leaf = np.where(idle, tables.role["cuda thread"], np.where(waits, tables.role["gpu wait"], leaf))
    return leaf, np.where(idle | waits, gpu_at, wait_at)


def _claimed_by_thread(tables: RuleTables) -> Bool:
    """The leaves that the name of a thread outweighs."""
    weak = [row.tier in "GDU" and row.role not in ("interrupt", "idle", "no stack", "no place") for row in tables.rows]
    weak[tables.role["uvm"]] = True
    return np.array(weak, np.bool_)


def attribute(capture: Capture, tables: RuleTables = TABLES) -> Attribution:
    """Give every sample its leaf and work attribute: the stack's, then the thread's, then the hot-loop rule.

    Of an interval off the CPU the leaf says what the thread waited for.
    """
    samples, stacks, role = capture.samples, walk(capture.stacks, tables), tables.role
    node, claimed = samples.stack, _claimed_by_thread(tables)
    # One more element, read by NO_NODE: a sample without callchain.
    running = ~looked_up(capture.spans, samples.event)
    ending = np.zeros(len(capture.stacks) + 1, np.int64)
    for part in slices(len(samples), node):
        ending += np.bincount(node[part][running[part]] + 1, minlength=len(ending))
    by_node = by_what_faults_do(capture.stacks, stacks, ending[1:], tables)
    leaf, work, groups = (
        np.require(looked_up(np.append(column, column.dtype.type(none)), node), requirements="W")
        for column, none in (
            (by_node, role["no stack"]),
            (stacks.work, WORK_ATTRIBUTES.index("other")),
            (stacks.groups, 0),
        )
    )
    for (pid, tid), name in capture.threads.items():
        # Thread 0 is the idle task, and every kernel thread when recorded inside another PID namespace.
        if tid > 0 and re.fullmatch(UVM_THREAD, name):
            mine = (samples.pid == pid) & (samples.tid == tid) & claimed[leaf]
            leaf[mine] = role["gpu fault"]
    decided, waiting = _attribute_waits(capture, stacks, leaf, work, tables)
    loops = hot_loops(capture, leaf, stacks.spin, stacks.copy_call, stacks.rules)
    for name, attribute_name, mask in (
        ("copy.staging", "copy", loops.staging),
        ("sync.poll", "gpuwait", loops.polling),
        ("copy.user", "copy", loops.copying),
    ):
        leaf[mask] = tables.leaf[name]
        work[mask] = WORK_ATTRIBUTES.index(attribute_name)
    counted = looked_up(np.array([event.counted for event in capture.events], np.bool_), samples.event)
    leaf[counted] = role["no place"]
    groups[waiting | counted] = 0
    heuristic = loops.staging | loops.polling | loops.copying
    return Attribution(leaf, packed(work), decided, packed(groups), packed(heuristic))


def _attribute_waits(
    capture: Capture, stacks: AttributedStacks, leaf: Int16, work: Int8, tables: RuleTables
) -> tuple[Int32, Bool]:
    """Give intervals off the CPU what they waited for; the nodes that decided, and which samples they are.

    A node that ends stacks of both kinds keeps the one that decided on the processor.
    """
    samples = capture.samples
    waiting = looked_up(capture.spans, samples.event)
    if not waiting.any():
        return stacks.decided, waiting
    node = samples.stack
    waits = looked_up(np.append(stacks.wait, np.int16(tables.role["no stack"])), node)
    if samples.wait is not None:
        # One that yields inside libcuda could run on, but waits for the GPU all the same.
        yields = looked_up(np.append(stacks.yields, False), node)
        waits = np.where((samples.wait & READY > 0) & ~yields, np.int16(tables.role["runnable"]), waits)
    leaf[waiting] = waits[waiting]
    work[waiting] = WORK_ATTRIBUTES.index("other")
    running = np.zeros(len(stacks.decided) + 1, np.bool_)
    running[node[~waiting]] = True
    return np.where(running[:-1], stacks.decided, stacks.waits_at).astype(np.int32), waiting
