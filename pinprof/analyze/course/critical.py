"""The critical thread: the one whose wall time is the program's.

It drives the GPU: of the process that spends most time in CUDA calls the main thread, unless others make nearly all of
them. Without CUDA calls it is the main thread of the process that works: most time on processors and in waits for
others. A launcher (a shell, `timeout`, `mpirun`) hardly computes while a program that it started does.

Idle CPUs, kernel threads and, in a system-wide recording, other people's processes never count.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.course.labels import STARTS_PROGRAM
from pinprof.analyze.ranges.membership import kernel_threads
from pinprof.base.columns import Bool, Int64, ascending, looked_up, numbered_pairs, slices, unpack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import CREATE_ANY_CONTEXT
from pinprof.data.model import NO_NODE, Capture, clock_event

AWAITS = np.isin(
    [row.name for row in CATEGORIES],
    ["wait.lock", "wait.poll", "wait.ipc", "wait.child", "wait.mmap_lock", "wait.other"],
)
"""Leaf → whether a thread waits there for what another thread or process does."""

MAIN_SHARE = 0.2
"""The least part of its process's CUDA time with which a main thread drives the GPU."""

LAUNCHER_SHARE, LAUNCHED_FACTOR = 0.1, 3
"""A launcher computes for less than this part of its life, and what it started this many times as long."""


@dataclass(frozen=True)
class Critical:
    """The thread, and the processes of the same program."""

    pid: int
    tid: int
    pids: Int64
    """Processes whose threads it may wait for, itself included."""


def critical_of(capture: Capture, attribution: Attribution, calls: Calls | None) -> Critical | None:
    """The critical thread; None where no process with samples of time is known."""
    clock = clock_event(capture.events)
    if clock is None:
        return None
    samples = capture.samples
    spans = looked_up(capture.spans, samples.event)
    threads = np.array([*capture.sampled_threads], np.int64).reshape(-1, 2)
    timed = (spans | (samples.event == clock)) & ~kernel_threads(capture)
    timed &= looked_up((threads[:, 0] > 0) & (threads[:, 1] > 0), capture.thread)
    pids = _program(capture, timed)
    timed &= looked_up(np.isin(threads[:, 0], pids), capture.thread)
    if not timed.any():
        return None
    thread = _driving(calls, pids) if calls is not None else None
    if thread is None:
        thread = _working(capture, attribution, timed, spans, pids)
    return Critical(*thread, pids)


def _program(capture: Capture, timed: Bool) -> Int64:
    """The processes of the program among those with samples: those somebody named, else all that can be."""
    seen = np.zeros(len(capture.sampled_threads), np.bool_)
    for part in slices(len(timed), capture.thread):
        seen[capture.thread[part][timed[part]]] = True
    pids = ascending(np.array([*capture.sampled_threads], np.int64).reshape(-1, 2)[seen, 0])
    if not system_wide(capture):
        return pids
    named: list[int] = [process.pid for process in capture.memory.processes] if capture.memory else []
    if capture.activity is not None:
        named += ascending(capture.activity.calls.pid).tolist()
    named += ascending(capture.ranges.pid).tolist()
    known = pids[np.isin(pids, named)]
    if len(known) or not len(pids):
        return known if len(known) else pids
    # Nobody says which program was meant: the one that computes most, with what shares its name.
    samples = capture.samples
    row = timed & (samples.event == clock_event(capture.events))
    time = np.bincount(np.searchsorted(pids, samples.pid[row]), samples.weight[row], len(pids))
    heaviest = int(pids[np.argmax(time)])
    name = capture.threads.get((heaviest, heaviest))
    alike = [pid == heaviest or (name and capture.threads.get((pid, pid)) == name) for pid in pids.tolist()]
    return pids[np.array(alike, np.bool_)]


def system_wide(capture: Capture) -> bool:
    """Whether processes of others were recorded: said so, or seen by its idle CPUs."""
    options = [collector.get("options") for collector in capture.manifest.collectors]
    said = any(isinstance(entry, Mapping) and entry.get("system_wide") is True for entry in options)
    return said or any(pid == 0 for pid, _ in capture.sampled_threads)


def _driving(calls: Calls, pids: Int64) -> tuple[int, int] | None:
    """The thread that drives the GPU; None where no process with samples made a call beyond bookkeeping."""
    table = calls.table
    creates = np.array([name.startswith(CREATE_ANY_CONTEXT) for name in calls.names], np.bool_)[calls.name]
    counted = ~calls.initial & ~creates & ~calls.is_for("other") & np.isin(table.pid, pids)
    if not counted.any():
        counted = np.isin(table.pid, pids) & (calls.initial | creates)
    if not counted.any():
        return None
    # Threads that only make memory, such as PyTorch's pin thread, serve the one that drives.
    drives = counted & calls.is_for("copy", "set", "launch", "sync", "prefetch")
    counted = drives if drives.any() else counted
    threads, of = numbered_pairs(table.pid[counted], table.tid[counted])
    time = np.bincount(of, np.maximum(calls.duration_ns[counted], 1), len(threads))
    pid, tid = unpack(threads)
    processes, owner = np.unique(pid, return_inverse=True)
    # Of several ranks the one that works makes the others wait for it.
    busy = np.where(calls.is_for("sync")[counted], 0, np.maximum(calls.duration_ns[counted], 1))
    busy = np.bincount(of.reshape(-1), busy, len(threads))
    process = int(np.argmax(np.bincount(owner, busy if busy.any() else time)))
    mine = owner == process
    main = mine & (tid == pid)
    if time[main].sum() >= MAIN_SHARE * time[mine].sum():
        return int(processes[process]), int(processes[process])
    return int(processes[process]), int(tid[mine][np.argmax(time[mine])])


def _working(capture: Capture, attribution: Attribution, timed: Bool, spans: Bool, pids: Int64) -> tuple[int, int]:
    """The main thread of the process that works; the busiest thread where the main one was not recorded."""
    samples = capture.samples
    time, waited, end = (np.zeros(len(pids), np.int64) for _ in range(3))
    begin, has_main = np.full(len(pids), np.iinfo(np.int64).max), np.zeros(len(pids), np.bool_)
    for part in slices(len(samples), samples.pid, samples.tid, samples.time_ns):
        row = np.flatnonzero(timed[part]) + part.start
        of, waits = np.searchsorted(pids, samples.pid[row]), spans[row]
        weight, leaf = samples.weight[row], attribution.leaf[row]
        main = samples.pid[row] == samples.tid[row]
        # A thread that could run counts as one that does: on a busy machine it is late, not idle.
        np.add.at(time, of, np.where(waits & (leaf != LEAF["wait.runnable"]), 0, weight))
        np.add.at(waited, of, np.where(waits & main & AWAITS[leaf], weight, 0))
        np.minimum.at(begin, of, samples.time_ns[row] - np.where(waits, 0, weight))
        np.maximum.at(end, of, samples.time_ns[row] + np.where(waits, weight, 0))
        has_main[of[main]] = True
    score = np.where(_launchers(capture, pids, time, begin, end), -1, time + waited)
    # Of equal ones the first: a parent begins before its children.
    process = int(np.lexsort((begin, -score))[0])
    pid = int(pids[process])
    if has_main[process]:
        return pid, pid
    mine = np.flatnonzero(timed & (samples.pid == pid))
    tids, thread = np.unique(samples.tid[mine], return_inverse=True)
    return pid, int(tids[np.argmax(np.bincount(thread.reshape(-1), samples.weight[mine]))])


def _launchers(capture: Capture, pids: Int64, time: Int64, begin: Int64, end: Int64) -> Bool:
    """Which processes hardly compute while another program, which began later, does.

    A process that starts several of its own kind at once shares its work among them; that does not make it a launcher.
    """
    samples = capture.samples
    result = np.zeros(len(pids), np.bool_)
    idle = np.flatnonzero(time < LAUNCHER_SHARE * (end - begin)).tolist()
    heavy = {
        number: (begin > begin[number]) & (begin < end[number]) & (time >= LAUNCHED_FACTOR * max(int(time[number]), 1))
        for number in idle
    }
    if not any(launched.any() for launched in heavy.values()):
        return result
    started = looked_up(capture.stacks.under(capture.stacks.frames.named(STARTS_PROGRAM)), samples.stack)
    executed = np.isin(pids, ascending(samples.pid[started]))
    programs = _programs(capture, pids)
    for number, launched in heavy.items():
        other = launched & np.array([not program & programs[number] for program in programs], np.bool_)
        result[number] = bool(other.any()) or int((launched & executed).sum()) == 1
    return result


def _programs(capture: Capture, pids: Int64) -> list[frozenset[str]]:
    """What each process executes: the files that its stacks begin in; its name where they do not tell."""
    samples, stacks = capture.samples, capture.stacks
    frames = stacks.frames
    outermost = np.append(stacks.frame, np.int32(-1))
    for nodes in stacks.levels():
        above = stacks.parent[nodes]
        outermost[nodes] = np.where(above == NO_NODE, stacks.frame[nodes], outermost[above])
    first = outermost[samples.stack]
    result = []
    for pid in pids.tolist():
        begins = [frame for frame in ascending(first[samples.pid == pid]).tolist() if frame >= 0]
        files = {frames.dsos[int(frames.dso[frame])].path for frame in begins if frames.function[frame] == "_start"}
        result.append(frozenset(files or {capture.threads.get((pid, pid), "")}))
    return result
