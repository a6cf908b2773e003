"""`python-stacks.jsonl.gz`: which Python functions and lines each thread was in, and when.

Gzip members one after another, each a line of JSON: what one py-spy saw until the next took over.

    start_ns, end_ns    on CLOCK_MONOTONIC
    uncertainty_ns      by which a change may be off: half of py-spy's interval, and what the clocks may differ
    frames              [[function, file, line]], line 0 where unknown
    stacks              [[caller, frame]]: a prefix tree, caller -1 for the outermost; callers come first
    threads             [{pid, tid, name, times, stacks}]: differences of times after `start_ns`, and the stack that the
                        thread had from each on, -1 for none
    unnamed_threads     threads whose kernel id is not known (CPython before 3.11)
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pinprof.model import Int32, Int64

MAX_BYTES = 1 << 30
"""The text that one file may unpack to."""
MAX_LINE_BYTES = 1 << 27
"""The text of one line, which is held as a whole, in Python's objects, while it is read."""

NO_STACK = -1

PythonFrame = tuple[str, str, int]
"""Function, file, line (0 unknown)."""


@dataclass
class PythonStacks:
    """All segments of a capture as one."""

    frames: list[PythonFrame] = field(default_factory=list)
    stacks: list[tuple[int, int]] = field(default_factory=list)
    """(caller, frame): a prefix tree, callers first."""
    threads: dict[tuple[int, int], tuple[Int64, Int32]] = field(default_factory=dict)
    """(pid, tid) → ascending times, and the stack from each on."""
    names: dict[tuple[int, int], str] = field(default_factory=dict)
    """(pid, tid) → name of the Python thread."""
    uncertainty_ns: int = 0
    unnamed_threads: int = 0
    damaged: bool = False
    """Whether a part of the file could not be read."""

    def chain(self, stack: int) -> list[int]:
        """Frame numbers of a stack, outermost first."""
        frames = []
        while stack != NO_STACK:
            stack, frame = self.stacks[stack]
            frames.append(frame)
        frames.reverse()
        return frames

    def at(self, pid: int, tid: int, times: Int64) -> Int32:
        """The stack of a thread at each time, NO_STACK where none is known."""
        since, stack = self.threads.get((pid, tid), (np.zeros(0, np.int64), np.zeros(0, np.int32)))
        row = np.searchsorted(since, times, side="right") - 1
        return np.where(row >= 0, np.append(stack, NO_STACK)[row], NO_STACK).astype(np.int32)


def load(path: Path) -> PythonStacks:
    """The stacks of a capture; what is damaged is left out."""
    loaded = PythonStacks()
    frames: dict[PythonFrame, int] = {}
    stacks: dict[tuple[int, int], int] = {}
    pieces: dict[tuple[int, int], list[tuple[Int64, Int32]]] = {}
    for line in _lines(path, loaded):
        try:
            _take(json.loads(line), loaded, frames, stacks, pieces)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            loaded.damaged = True
    loaded.frames, loaded.stacks = list(frames), list(stacks)
    loaded.threads = {key: _joined(parts) for key, parts in pieces.items()}
    return loaded


def _take(
    raw: Any,
    loaded: PythonStacks,
    frames: dict[PythonFrame, int],
    stacks: dict[tuple[int, int], int],
    pieces: dict[tuple[int, int], list[tuple[Int64, Int32]]],
) -> None:
    """Add one segment; raises where it is not as documented, with nothing of its threads taken."""
    frame_of = [
        frames.setdefault((str(name), str(file), max(int(line), 0)), len(frames)) for name, file, line in raw["frames"]
    ]
    stack_of = np.full(len(raw["stacks"]) + 1, NO_STACK, np.int32)
    for number, (caller, frame) in enumerate(raw["stacks"]):
        if not -1 <= caller < number or not 0 <= frame < len(frame_of):
            raise ValueError("a stack refers to what comes later")
        key = (int(stack_of[caller]) if caller >= 0 else NO_STACK, frame_of[frame])
        stack_of[number] = stacks.setdefault(key, len(stacks))
    start = int(raw["start_ns"])
    made = []
    for thread in raw["threads"]:
        times: Int64 = np.cumsum(np.array(thread["times"], np.int64)) + start
        which = np.array(thread["stacks"], np.int64)
        if times.shape != which.shape or (np.diff(times) < 0).any():
            raise ValueError("times and stacks of a thread do not fit")
        if len(which) and not -1 <= int(which.min()) <= int(which.max()) < len(stack_of) - 1:
            raise ValueError("a thread has a stack that is none")
        made.append(((int(thread["pid"]), int(thread["tid"])), str(thread["name"]), (times, stack_of[which])))
    for of_thread, name, piece in made:
        pieces.setdefault(of_thread, []).append(piece)
        loaded.names[of_thread] = name or loaded.names.get(of_thread, "")
    loaded.uncertainty_ns = max(loaded.uncertainty_ns, int(raw["uncertainty_ns"]))
    loaded.unnamed_threads = max(loaded.unnamed_threads, int(raw["unnamed_threads"]))


def _joined(parts: list[tuple[Int64, Int32]]) -> tuple[Int64, Int32]:
    """Segments one after another; where two overlap, the later one counts from its beginning on."""
    times, stacks = parts[0]
    for more_times, more_stacks in parts[1:]:
        if len(more_times):
            kept = int(np.searchsorted(times, more_times[0]))
            times, stacks = np.append(times[:kept], more_times), np.append(stacks[:kept], more_stacks)
    return times, stacks.astype(np.int32)


def _lines(path: Path, loaded: PythonStacks) -> Iterator[bytes]:
    """The whole lines of the file, as far as it can be unpacked."""
    left, carry = MAX_BYTES, b""
    with path.open("rb") as stream:
        gunzip = zlib.decompressobj(wbits=31)
        while data := gunzip.unconsumed_tail or gunzip.unused_data or stream.read(1 << 20):
            try:
                if gunzip.eof:
                    gunzip = zlib.decompressobj(wbits=31)
                text = gunzip.decompress(data, 1 << 24)
            except zlib.error:
                loaded.damaged = True
                return
            left -= len(text)
            if left < 0 or len(carry) > MAX_LINE_BYTES:
                loaded.damaged = True
                return
            *whole, carry = (carry + text).split(b"\n")
            yield from whole
        loaded.damaged |= bool(carry) or not gunzip.eof
