"""What the exports for other tools share: names that may travel, stacks unrolled, samples grouped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.groups import add_at
from pinprof.base.columns import distinct_pairs, is_uniform, numbered_pairs, pairs_of, slices
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import KERNEL, NO_NODE, Capture, FrameTable, Int32, Int64, StackTable
from pinprof.read.assembly import KERNEL_IMAGE, UNKNOWN, dso_of


def dso_names(frames: FrameTable) -> list[str]:
    """Per frame the name of its DSO without directories, spelled so that it also tells the frame's mode.

    Directories hold the names of users and projects. `read.assembly.dso_of` reads these names back.
    """
    return [
        _dso_name(frames.dsos[dso].name, mode)
        for dso, mode in zip(frames.dso.tolist(), frames.mode.tolist(), strict=True)
    ]


def _dso_name(name: str, mode: int) -> str:
    name = name or UNKNOWN.path
    if dso_of(name)[1] == mode:
        return name
    return KERNEL_IMAGE.path if mode == KERNEL else UNKNOWN.path


def chain(stacks: StackTable, node: int) -> list[int]:
    """Frame indices of a stack, root first; empty for NO_NODE."""
    return [int(stacks.frame[inner]) for inner in stacks.chain(node)][::-1]


_NUMBER = re.compile(r"\d+|\?")


@dataclass(frozen=True)
class MergedSamples:
    """Samples of one capture that agree in some columns, with their weights by event."""

    keys: tuple[Int64, ...]
    """The agreed columns, one row per merged sample."""
    weight: Int64
    """Merged samples × events: weights of different events stay apart."""


def merge_samples(capture: Capture, *columns: NDArray[np.integer]) -> MergedSamples:
    """Merge the samples that agree in columns of integers; in ascending order of the columns."""
    table = np.stack([np.asarray(column, np.int64) for column in columns], axis=1)
    merged, number = np.unique(table, axis=0, return_inverse=True)
    weight = np.zeros((len(merged), len(capture.events)), np.int64)
    np.add.at(weight, (number.reshape(-1), capture.samples.event), capture.samples.weight)
    return MergedSamples(tuple(merged[:, column] for column in range(len(columns))), weight)


def range_threads(capture: Capture) -> tuple[Int32, Int32]:
    """Per range the pid and tid to show it under: of an unknown process the most sampled one, of unknown threads 0."""
    sampled: Counter[int] = Counter()
    for (pid, _), count in capture.sampled_threads.items():
        if pid > 0:
            sampled[pid] += count
    main = max(sampled, key=lambda pid: sampled[pid], default=0)
    ranges = capture.ranges
    return np.where(ranges.pid >= 0, ranges.pid, np.int32(main)), np.maximum(ranges.tid, 0)


def thread_names(capture: Capture) -> Mapping[tuple[int, int], str]:
    """(pid, tid) → name of every thread with samples, ranges or calls, ascending; `thread 7` where it has no name."""
    known = {*capture.sampled_threads, *threads_in(*range_threads(capture))}
    if capture.activity is not None:
        calls = capture.activity.calls
        known.update(threads_in(calls.pid, calls.tid))
    return {thread: capture.threads.get(thread) or _nameless(thread[1]) for thread in sorted(known)}


def pool_name(name: str) -> str:
    """What the threads of a pool have in common: `ThreadPoolExecutor-0_3` → `ThreadPoolExecutor-*_*`."""
    return _NUMBER.sub("*", name)


def pools(names: Mapping[tuple[int, int], str]) -> dict[str, list[tuple[int, int]]]:
    """`worker-* × 8` → the threads of one process whose names are equal up to digits, two or more, no main one."""
    alike: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for (pid, tid), name in names.items():
        if tid not in (0, pid) and name != _nameless(tid):
            alike.setdefault((pid, pool_name(name)), []).append((pid, tid))
    made: dict[str, list[tuple[int, int]]] = {}
    for (pid, name), threads in alike.items():
        if len(threads) > 1:
            title = f"{name} × {len(threads)}"
            made[f"{title} · {pid}" if title in made else title] = threads
    return made


def threads_in(pid: Int32, tid: Int32) -> list[tuple[int, int]]:
    """The distinct (pid, tid) in ascending order."""
    return pairs_of(distinct_pairs(pid, tid))


def threads_of(pid: Int32, tid: Int32) -> tuple[list[tuple[int, int]], Int64]:
    """The distinct (pid, tid) in ascending order, and per row the index into them; as one number, which sorts fast."""
    if is_uniform(pid) and is_uniform(tid):
        return threads_in(pid[:1], tid[:1]), np.zeros(len(pid), np.int64)
    keys, of = numbered_pairs(pid, tid)
    return pairs_of(keys), of


def _nameless(tid: int) -> str:
    return f"thread {tid}" if tid > 0 else "all threads"


def leaf_nodes(capture: Capture, event: int) -> tuple[Int32, Int64]:
    """One event's samples in the order of threads and time: (innermost node, weight), equal neighbours merged."""
    samples = capture.samples
    rows = np.flatnonzero(samples.event == event)
    rows = rows[np.lexsort((samples.time_ns[rows], samples.tid[rows], samples.pid[rows]))]
    node, weight = samples.stack[rows], samples.weight[rows]
    if not len(rows):
        return node, weight
    first = np.flatnonzero(np.append(True, node[1:] != node[:-1]))
    return node[first], np.add.reduceat(weight, first)


def merged_nodes(capture: Capture, event: int) -> tuple[Int32, Int64]:
    """One event's distinct innermost nodes and the weight of each."""
    samples = capture.samples
    seen, weight = np.zeros(len(capture.stacks) + 1, np.bool_), np.zeros(len(capture.stacks) + 1, np.int64)
    for part in slices(len(samples)):
        chosen = samples.event[part] == event
        # Of no node, the last one.
        node = samples.stack[part][chosen]
        seen[node] = True
        add_at(weight, node, samples.weight[part][chosen])
    nodes = np.append(np.full(int(seen[-1]), NO_NODE), np.flatnonzero(seen[:-1])).astype(np.int32)
    return nodes, weight[nodes]
