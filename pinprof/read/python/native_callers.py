"""What speaks for a line of Python: votes by native callers, and those of samples with the callers of a CUDA call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinprof.base.columns import pack, unpack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import of_vendor
from pinprof.data.model import NO_NODE, Bool, Capture, FrameTable, Int32, Int64, StackTable, UInt64

NO_LINE = -1
_CALLERS = (12, 6, 3)
"""Native callers next to CUDA that samples have in common with a call: as many as any samples share."""
_CERTAIN, _USUAL = 0.9, 0.05
"""The part of what is known of callers that decides for a line, and that a line needs to be one of several."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

Callers = tuple[tuple[str, str], ...]
"""Native functions with their libraries, innermost first."""


@dataclass(frozen=True)
class Votes:
    """What speaks for each line of each stack: distinct (stack, line), packed, ascending, and how often."""

    keys: Int64
    count: Int64

    @classmethod
    def of(cls, stack: Int64, line: Int32, *others: Votes) -> Votes:
        """One vote each, and those of others."""
        known = line != NO_LINE
        keys = np.concatenate([pack(stack[known], line[known]), *(other.keys for other in others)])
        weight = np.concatenate([np.ones(int(known.sum()), np.int64), *(other.count for other in others)])
        distinct, which = np.unique(keys, return_inverse=True)
        count = np.zeros(len(distinct), np.int64)
        np.add.at(count, which.reshape(-1), weight)
        return cls(distinct, count)

    def only(self, allowed: Bool) -> Votes:
        """Those for some stacks."""
        kept = allowed[unpack(self.keys)[0]]
        return Votes(self.keys[kept], self.count[kept])

    def total(self, stacks: int) -> Int64:
        """Votes by stack."""
        return np.bincount(unpack(self.keys)[0], self.count, minlength=stacks).astype(np.int64)

    def certain(self, stacks: int) -> Int32:
        """Per stack the line that nearly all votes are for, NO_LINE where there is none."""
        stack, line = unpack(self.keys)
        chosen = np.full(stacks, NO_LINE, np.int32)
        won = self.count >= _CERTAIN * self.total(stacks)[stack]
        chosen[stack[won]] = line[won]
        return chosen

    def usual(self, stack: Int64, line: Int32, stacks: int) -> Bool:
        """Whether lines are among those that a stack is usual in."""
        if not len(self.keys):
            return np.zeros(len(stack), np.bool_)
        wanted = pack(stack, line)
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        often = self.count[place] >= _USUAL * self.total(stacks)[stack]
        return np.asarray((self.keys[place] == wanted) & often & (line != NO_LINE))


def votes_of_samples(groups: Sequence[Callers], capture: Capture, lines: Int32) -> Votes:
    """Votes of the samples with a line for the `groups` of callers that they share.

    It takes a function with a name to tell: `[libcublas.so]` may be any.
    """
    table, samples = capture.stacks, capture.samples
    numbers: dict[tuple[str, str], int] = {}
    for callers in groups:
        for caller in callers:
            numbers.setdefault(caller, len(numbers) + 1)
    frame = _numbered(table.frames, numbers)
    known = np.flatnonzero(lines != NO_LINE)
    found = Votes(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for length in _CALLERS:
        open_ = found.total(len(groups)) == 0
        windows: dict[int, list[int]] = {}
        for number in np.flatnonzero(open_).tolist():
            window = groups[number][:length]
            if len(window) == length and not all(name.startswith("[") for name, _ in window):
                windows.setdefault(_hash([numbers[caller] for caller in window]), []).append(number)
        if not windows:
            continue
        ordered = sorted(windows)
        below = _below(table, frame, length, np.array(ordered, np.uint64))
        which = below[samples.stack[known]]
        rows, which = known[which >= 0], which[which >= 0]
        pairs, count = np.unique(pack(which, lines[rows]), return_counts=True)
        place, line = unpack(pairs)
        # Groups may share a window: each has all of its votes.
        members = [windows[each] for each in ordered]
        many = np.array([len(each) for each in members], np.int64)[place]
        group = np.array([number for each in place.tolist() for number in members[each]], np.int64)
        more = Votes(pack(group, np.repeat(line, many)), np.repeat(count, many))
        found = Votes.of(np.zeros(0, np.int64), np.zeros(0, np.int32), found, more)
    return found


def callers_of(native: StackTable, node: int, loops: Sequence[bool]) -> Callers:
    """The native functions that led to a CUDA call, up to the interpreter, or as far as the stack is known."""
    frames = native.frames
    callers: list[tuple[str, str]] = []
    for above in native.chain(node):
        frame = int(native.frame[above])
        name, library = frames.function[frame], frames.dsos[int(frames.dso[frame])].name
        if loops[frame] or name.startswith("py::") or library == "[unknown]":
            break
        if of_vendor(name, library):
            callers.clear()
            continue
        callers.append((name, library))
        if len(callers) == _CALLERS[0]:
            break
    return tuple(callers)


def _numbered(frames: FrameTable, numbers: Mapping[tuple[str, str], int]) -> UInt64:
    """Per frame of the samples its number, 0 for a function that calls nothing of CUDA."""
    return np.array(
        [
            numbers.get((frames.function[index], frames.dsos[dso].name), 0)
            for index, dso in enumerate(frames.dso.tolist())
        ],
        np.uint64,
    )


def _hash(callers: Sequence[int]) -> int:
    value = 0
    for number in callers:
        value = (value + number) * int(_FACTOR) % 2**64
    return value


def _below(table: StackTable, frame: UInt64, length: int, windows: UInt64) -> Int64:
    """Per node, one more for NO_NODE: which of the ascending `windows` of callers is the innermost above it, or -1."""
    number = np.append(frame[table.frame], np.uint64(0))
    parent = np.append(table.parent, np.int32(NO_NODE))
    above, value = np.arange(len(number), dtype=np.int32), np.zeros(len(number), np.uint64)
    for _ in range(length):
        value = (value + number[above]) * _FACTOR
        above = parent[above]
    place = np.minimum(np.searchsorted(windows, value), len(windows) - 1)
    matched = np.where(windows[place] == value, place, -1)
    matched[-1] = -1
    # Each node points to itself where it matches, else to its caller; pointing on doubles the distance.
    nearest = np.where(matched >= 0, np.arange(len(number)), parent % len(number))
    while (further := nearest[nearest]).tobytes() != nearest.tobytes():
        nearest = further
    return np.asarray(matched[nearest])
