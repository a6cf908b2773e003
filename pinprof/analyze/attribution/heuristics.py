"""The hot-loop rule: what a stripped libcuda does, by where its samples lie. Its leaves are marked heuristic.

libcuda 580 copies pageable memory through its bounce buffer without calling memcpy: nearly all those samples lie in
one loop of 0x30 bytes. It waits by polling memory and reading the clock, so functions that share a caller with clock
samples in the vDSO are waiting. A stripped libc is read likewise: its loops inside copy ranges are memcpy, which may be
a single instruction (`rep movsb`).
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.attribution.matching import FrameRules
from pinprof.analyze.ranges.membership import samples_inside
from pinprof.base.columns import ascending, looked_up
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Bool, Capture, Int16, Int32

LOOP_REACH_BYTES = 48
"""How far from a sample's address others of the same loop may lie."""

LOOP_SAMPLES, LOOP_ADDRESSES = 20, 6
"""The least samples of a loop, and the least different addresses, within reach."""

CLOCK_SHARE = 0.05
"""From this share of clock reads on, the functions around them are polling (seen: 20 % when waiting, < 1 % copying)."""

_COPY_RANGE = re.compile(
    r"(^|[^a-z])(h2d|d2h|htod|dtoh|h->d|d->h|copy|copies|memcpy|upload|download|transfer|staging)([^a-z]|$)|memcpy",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class HotLoops:
    """Masks over the samples."""

    staging: Bool
    polling: Bool
    copying: Bool
    """Copies by a C library without symbols."""


def hot_loops(capture: Capture, leaf: Int16, spin: Int32, copy_call: Bool, rules: FrameRules) -> HotLoops:
    """Find copy loops and polling among samples in libraries without symbols.

    `leaf` is per sample, `spin` (the nearest libcuda node) and `copy_call` per stack node.
    """
    samples, stacks = capture.samples, capture.stacks
    timed = np.array([event.unit in ("ns", "events", "samples") for event in capture.events], np.bool_)
    timed = looked_up(timed, samples.event)

    def innermost(frames: Bool, name: str) -> Bool:
        ends = looked_up(np.append(frames[stacks.frame], False), samples.stack)
        return np.asarray(ends & timed & (leaf == LEAF[name]))

    libcuda, libc = innermost(rules.libcuda, "user.libcuda"), innermost(rules.blind_libc, "user.libc")
    nothing = np.zeros(len(samples), np.bool_)
    if not libcuda.any() and not libc.any():
        return HotLoops(nothing, nothing, nothing)
    polling = _polling(capture, libcuda, timed & (leaf == LEAF["sync.poll"]), spin) if libcuda.any() else nothing
    inside = (_in_copy_range(capture) | looked_up(np.append(copy_call, False), samples.stack)) & (samples.ip != 0)
    near_libcuda = looked_up(np.append(spin, NO_NODE) != NO_NODE, samples.stack)
    by_libc = _loops(capture, libc & inside, 1)
    staging = _loops(capture, libcuda & inside & ~polling, LOOP_ADDRESSES) | (by_libc & near_libcuda)
    return HotLoops(staging, polling, by_libc & ~near_libcuda)


def _loops(capture: Capture, candidates: Bool, addresses: int) -> Bool:
    samples = capture.samples
    looping = np.zeros(len(samples), np.bool_)
    for pid in ascending(samples.pid[candidates]):
        rows = np.flatnonzero(candidates & (samples.pid == pid))
        looping[rows[in_loop(samples.ip[rows], addresses)]] = True
    return looping


def in_loop(ips: NDArray[np.uint64], addresses: int = LOOP_ADDRESSES) -> Bool:
    """Which of one process's samples lie in a hot loop: enough samples, at enough different addresses, within reach."""
    ordered = np.sort(ips).astype(np.int64)
    distinct = ascending(ordered)
    signed = ips.astype(np.int64)
    low, high = signed - LOOP_REACH_BYTES, signed + LOOP_REACH_BYTES
    count = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low, "left")
    places = np.searchsorted(distinct, high, "right") - np.searchsorted(distinct, low, "left")
    return np.asarray((count >= LOOP_SAMPLES) & (places >= addresses))


def _polling(capture: Capture, own: Bool, clock: Bool, spin: Int32) -> Bool:
    """Samples in a function that often reads the clock, in what it calls, and in its caller."""
    samples, stacks = capture.samples, capture.stacks
    size, levels = len(stacks), list(stacks.levels())
    reads = np.bincount(np.append(spin, NO_NODE)[samples.stack[clock]] + 1, minlength=size + 1)[1:].astype(np.int64)
    others = np.bincount(samples.stack[own], minlength=size).astype(np.int64)
    # One more element stands for the caller of a root.
    reads_here, others_here = np.append(reads, 0), np.append(others, 0)
    for nodes in reversed(levels[1:]):
        np.add.at(reads, stacks.parent[nodes], reads[nodes])
        np.add.at(others, stacks.parent[nodes], others[nodes])
    loop_reads = reads + reads_here[stacks.parent]
    loop = loop_reads + others + others_here[stacks.parent]
    readers = (reads_here[:-1] > 0) & (loop >= LOOP_SAMPLES) & (loop_reads >= CLOCK_SHARE * loop)
    inside = np.append(readers, False)
    for nodes in levels[1:]:
        inside[nodes] |= inside[stacks.parent[nodes]]
    inside[stacks.parent[np.flatnonzero(readers)]] = True
    inside[-1] = False
    return np.asarray(own & looked_up(inside, samples.stack))


def _in_copy_range(capture: Capture) -> Bool:
    """Samples inside a range named like a copy, or a phase whose API call is one."""
    calls = capture.manifest.scenario.get("calls") or {}
    copies = {
        name: bool(_COPY_RANGE.search(name) or _COPY_RANGE.search(str(calls.get(name, ""))))
        for name in set(capture.ranges.name)
    }
    return samples_inside(capture, np.array([copies[name] for name in capture.ranges.name], np.bool_))
