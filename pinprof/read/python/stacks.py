"""`python-stacks.jsonl.gz`: which Python functions and lines each thread was seen in, and when.

Gzip members one after another, each a line of JSON, a segment of the recording.

    start_ns, end_ns    on CLOCK_MONOTONIC
    uncertainty_ns      half the time between two looks; of py-spy, by which a change may be off (its clock's error too)
    frames              [[function, file, line]], line 0 where unknown
    stacks              [[caller, frame]]: a prefix tree, caller -1 for the outermost; callers come first
    threads             [{pid, tid, name, times, lasts, stacks}]: stacks, -1 for none, each seen from one time on
                        (differences after `start_ns`) to that of `lasts` (ns after it); of some threads `windows`,
                        three columns with an entry for each look from the first that saw it on, in steps of 100 ns: how
                        long after the look's time a moment was between two readings of the thread that found it in the
                        same place, how long before it the first one began (0 for a single reading, which began then),
                        and how long after it the last one ended (0 for a look that did not see it)
    looks               {pid: differences of times after `start_ns` in µs}: when the process was looked at
    lags                {pid: µs}: how long before each look the reader was to wake for it
    unnamed_threads     threads whose kernel id is not known (CPython before 3.11)

Segments of py-spy have neither `lasts` nor `looks`: a thread has a stack from each of `times` on, which stands in the
middle between two looks. Where two segments overlap, the later one counts from its beginning on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.shapes import TEXT, ColumnShape, Each, Facts, Record, RowShape, Whole, parsed
from pinprof.data.model import UNDECIDED_LINE, Bool, Int32, Int64

MAX_BYTES = 1 << 30
"""The text that one file may unpack to."""
MAX_LINE_BYTES = 1 << 27
"""The text of one line, which is held as a whole, in Python's objects, while it is read."""

NO_STACK = -1
_USUAL_LAG_US = 100
_GENERATOR = "<genexpr>"
"""A stack that such a frame begins was read while the generator stopped: something called it before. Recorders of
earlier versions kept those looks."""

_MOST_NS = 1 << 61
"""Of CLOCK_MONOTONIC, and of all differences in a segment together: sums of both have 64 bits."""
_WINDOW_STEP_NS, _MOST_STEPS = 100, 10_000_000
_STEPS = ColumnShape(0, _MOST_NS, _MOST_NS)
_ID, _NUMBER = Whole(0, (1 << 31) - 1), (1 << 31) - 1
_THREAD = Record(
    {"pid": _ID, "tid": _ID, "name": TEXT, "times": _STEPS, "stacks": ColumnShape(NO_STACK, _NUMBER)},
    optional={
        "lasts": _STEPS,
        "windows": RowShape(
            (ColumnShape(-_MOST_STEPS, _MOST_STEPS), ColumnShape(0, _MOST_STEPS), ColumnShape(0, _MOST_STEPS))
        ),
    },
)
_SEGMENT = Record(
    {
        "start_ns": Whole(0, _MOST_NS),
        "uncertainty_ns": Whole(0, _MOST_NS),
        "frames": Each(RowShape((TEXT, TEXT, Whole(-(1 << 63), (1 << 63) - 1)))),
        "stacks": Each(RowShape((Whole(NO_STACK, _NUMBER), Whole(0, _NUMBER)))),
        "threads": Each(_THREAD),
        "unnamed_threads": _ID,
    },
    optional={
        "looks": Facts(others=ColumnShape(0, _MOST_NS // 1000, _MOST_NS // 1000)),
        "lags": Facts(others=ColumnShape(0, _MOST_NS // 1000)),
    },
)
"""What a line of the file holds; how its parts refer to each other is checked as they are taken."""

PythonFrame = tuple[str, str, int]
"""Function, file, line (0 unknown)."""


class Windows(NamedTuple):
    """When looks saw a thread, and in which stack: ascending columns of one length."""

    since: Int64
    """Between this and `begun` it was seen,"""
    begun: Int64
    """and in the same place between this and `ended`; only there if both are the same."""
    ended: Int64
    stack: Int32


class Looks(NamedTuple):
    """Looks at one thread, ascending: columns of one length."""

    time: Int64
    stack: Int32
    due: Int64
    """When the reader was to wake for it, and began to keep others from running."""


@dataclass(frozen=True)
class Runs:
    """One thread in one segment: stacks that it was seen in by one look after another, in ns of CLOCK_MONOTONIC."""

    first: Int64
    last: Int64
    stack: Int32
    looked: Int64
    """When its process was looked at."""
    due: Int64
    """When the reader was to wake for each look."""
    window: tuple[Int64, Int64, Int64] | None = None
    """`since`, `begun` and `ended` of each look; the last two are the same for one that did not see it."""

    def _seen(self) -> tuple[Bool, Int32]:
        """Which looks saw it, and in which stack."""
        row = np.searchsorted(self.first, self.looked, side="right") - 1
        seen = row >= 0
        seen[seen] = self.looked[seen] <= self.last[row[seen]]
        if self.window is not None:
            seen &= self.window[1] < self.window[2]
        return seen, self.stack[row[seen]]

    def looks(self) -> Looks:
        """The looks that saw it."""
        seen, stack = self._seen()
        return Looks(self.looked[seen], stack, self.due[seen])

    def windows(self) -> Windows:
        """When they did; of recordings that do not say so, and of threads that they do not say it of, the moments."""
        seen, stack = self._seen()
        since, begun, ended = self.window or (self.looked,) * 3
        return Windows(since[seen], begun[seen], ended[seen], stack)


@dataclass
class PythonStacks:
    """All segments of a capture as one."""

    frames: list[PythonFrame] = field(default_factory=list)
    stacks: list[tuple[int, int]] = field(default_factory=list)
    """(caller, frame): a prefix tree, callers first."""
    threads: dict[tuple[int, int], list[Runs]] = field(default_factory=dict)
    """(pid, tid) → its segments with looks, in order."""
    changes: dict[tuple[int, int], tuple[Int64, Int32]] = field(default_factory=dict)
    """(pid, tid) → ascending times, and the stack from each on: what py-spy saw."""
    names: dict[tuple[int, int], str] = field(default_factory=dict)
    """(pid, tid) → name of the Python thread."""
    uncertainty_ns: int = 0
    """Half the time between two looks, or by which a change of py-spy's may be off."""
    unnamed_threads: int = 0
    _undecided: dict[str, int] = field(default_factory=dict)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    _frames: dict[PythonFrame, int] = field(default_factory=dict)
    impossible_lines: int = 0
    """Frames whose line is unknown: their code changed while it was read."""
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

    @property
    def processes(self) -> list[int]:
        """Those whose Python was seen."""
        return sorted({pid for pid, _ in (*self.threads, *self.changes)})

    def of(self, pid: int, tid: int) -> list[int]:
        """The distinct stacks of a thread, the one seen last first."""
        parts = [runs.stack for runs in self.threads.get((pid, tid), ())]
        if (pid, tid) in self.changes:
            parts.append(self.changes[pid, tid][1])
        return list(dict.fromkeys(stack for part in parts[::-1] for stack in part[::-1].tolist()))

    def at(self, pid: int, tid: int, times: Int64) -> Int32:
        """The stack that a thread had at each time by py-spy's changes, NO_STACK where none is known."""
        since, stack = self.changes.get((pid, tid), (np.zeros(0, np.int64), np.zeros(0, np.int32)))
        row = np.searchsorted(since, times, side="right") - 1
        return np.append(stack, np.int32(NO_STACK))[row]

    def either(self, one: int, other: int) -> int:
        """A stack of the callers that two agree on, and an undecided line called by them.

        Two that are equal agree on their callers alone: both were seen, but at other times.
        """
        first, second = self.chain(one), self.chain(other)
        common = NO_STACK
        for frame, beside in zip(first[:-1], second if first != second else second[:-1], strict=False):
            if frame != beside:
                break
            common = self._node(common, frame)
        depth = len(self.chain(common))
        file = self.frames[first[depth]][1] if depth < len(first) else self.frames[second[depth]][1]
        return self._node(common, self._undecided_in(file))

    def inside(self, looked: int, frames: Sequence[PythonFrame]) -> int:
        """A stack that ends in these frames, innermost first; its callers are those of one that was seen about then,
        as far as that one has the outermost of them.
        """
        function, file, _ = frames[-1]
        caller, above = NO_STACK, looked
        while above != NO_STACK:
            above, frame = self.stacks[above]
            if self.frames[frame][:2] == (function, file):
                caller = above
                break
        for each in reversed(frames):
            caller = self._node(caller, self._frame(each))
        return caller

    def _frame(self, frame: PythonFrame) -> int:
        if not self._frames:
            self._frames.update({each: number for number, each in enumerate(self.frames)})
        number = self._frames.setdefault(frame, len(self.frames))
        if number == len(self.frames):
            self.frames.append(frame)
        return number

    def _undecided_in(self, file: str) -> int:
        if file not in self._undecided:
            self._undecided[file] = self._frame((UNDECIDED_LINE, file, 0))
        return self._undecided[file]

    def _node(self, caller: int, frame: int) -> int:
        if not self._numbers:
            self._numbers.update({node: number for number, node in enumerate(self.stacks)})
        number = self._numbers.setdefault((caller, frame), len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append((caller, frame))
        return number

    def looks(self, pid: int, tid: int) -> Looks:
        """The looks at a thread."""
        none = Looks(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))
        parts = [none, *(runs.looks() for runs in self.threads.get((pid, tid), ()))]
        times, stacks, due = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(times, kind="stable")
        return Looks(times[order], stacks[order], due[order])

    def windows(self, pid: int, tid: int) -> Windows:
        """When exactly looks saw a thread."""
        none = np.zeros(0, np.int64)
        parts = [Windows(none, none, none, np.zeros(0, np.int32))]
        parts += [runs.windows() for runs in self.threads.get((pid, tid), ())]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        return Windows(*(column[order] for column in columns))


def load(path: Path) -> PythonStacks:
    """The stacks of a capture; what is damaged is left out."""
    loaded = PythonStacks()
    frames: dict[PythonFrame, int] = {}
    stacks: dict[tuple[int, int], int] = {}
    changes: dict[tuple[int, int], list[tuple[Int64, Int32]]] = {}
    for line in _lines(path, loaded):
        try:
            _take(_SEGMENT.fit(parsed(line)), loaded, frames, stacks, changes)
        except ValueError:
            loaded.damaged = True
    loaded.frames, loaded.stacks = list(frames), list(stacks)
    loaded.changes = {thread: _joined(parts) for thread, parts in changes.items()}
    return loaded


def _take(
    raw: Mapping[str, Any],
    loaded: PythonStacks,
    frames: dict[PythonFrame, int],
    stacks: dict[tuple[int, int], int],
    changes: dict[tuple[int, int], list[tuple[Int64, Int32]]],
) -> None:
    """Add one segment; ValueError where its parts do not fit together, with nothing of its threads taken."""
    frame_of = []
    for function, file, line in raw["frames"]:
        possible = 0 <= line <= _NUMBER
        loaded.impossible_lines += not possible
        frame_of.append(frames.setdefault((function, file, line if possible else 0), len(frames)))
    stack_of = np.full(len(raw["stacks"]) + 1, NO_STACK, np.int32)
    torn = np.zeros(len(stack_of), np.bool_)
    for number, (caller, frame) in enumerate(raw["stacks"]):
        if caller >= number or frame >= len(frame_of):
            raise ValueError("a stack refers to a later entry")
        key = (int(stack_of[caller]) if caller >= 0 else NO_STACK, frame_of[frame])
        stack_of[number] = stacks.setdefault(key, len(stacks))
        torn[number] = torn[caller] or (caller < 0 and raw["frames"][frame][0].endswith(_GENERATOR))
    start = raw["start_ns"]
    looks = raw.get("looks", {}).items()
    looked = {int(pid): np.cumsum(np.array(steps, np.int64)) * 1000 + start for pid, steps in looks}
    lags = raw.get("lags", {})
    due = {pid: times - 1000 * _lags(lags.get(str(pid)), len(times)) for pid, times in looked.items()}
    seen: list[tuple[tuple[int, int], str, Runs | tuple[Int64, Int32]]] = []
    for thread in raw["threads"]:
        times: Int64 = np.cumsum(np.array(thread["times"], np.int64)) + start
        which = np.array(thread["stacks"], np.int64)
        if times.shape != which.shape or int(which.max(initial=NO_STACK)) >= len(stack_of) - 1:
            raise ValueError("a thread has an invalid stack")
        key = thread["pid"], thread["tid"]
        if "lasts" in thread:
            lasts = np.array(thread["lasts"], np.int64)
            if lasts.shape != times.shape or key[0] not in looked:
                raise ValueError("times of a thread do not match")
            window, whole = _window(thread, looked[key[0]], times), ~torn[which]
            times, lasts, which = times[whole], lasts[whole], which[whole]
            runs = Runs(times, times + lasts, stack_of[which], looked[key[0]], due[key[0]], window)
            seen.append((key, str(thread["name"]), runs))
        else:
            seen.append((key, thread["name"], (times, stack_of[which])))
    for key, name, part in seen:
        if isinstance(part, Runs):
            loaded.threads.setdefault(key, []).append(part)
        else:
            changes.setdefault(key, []).append(part)
        loaded.names[key] = name or loaded.names.get(key, "")
    loaded.uncertainty_ns = max(loaded.uncertainty_ns, raw["uncertainty_ns"])
    loaded.unnamed_threads = max(loaded.unnamed_threads, raw["unnamed_threads"])


def _window(thread: Mapping[str, Any], looked: Int64, times: Int64) -> tuple[Int64, Int64, Int64] | None:
    """Per look of its process when it read a thread, if that is said."""
    if "windows" not in thread or not len(times):
        return None
    after, before, took = (np.array(column, np.int64) for column in thread["windows"])
    first = int(np.searchsorted(looked, times[0]))
    mine = slice(first, first + len(took))
    if not len(after) == len(before) == len(took) == len(looked[mine]):
        raise ValueError("numbers of looks at a thread do not match")
    moment = looked // _WINDOW_STEP_NS * _WINDOW_STEP_NS
    moment[mine] += _WINDOW_STEP_NS * after
    since, ended = moment.copy(), moment.copy()
    since[mine] -= _WINDOW_STEP_NS * before
    ended[mine] += _WINDOW_STEP_NS * took
    return since, moment, ended


def _lags(raw: Any, count: int) -> Int64:
    """µs; recordings before this was noted have none."""
    lags: Int64 = np.full(count, _USUAL_LAG_US) if raw is None else np.array(raw, np.int64)
    if len(lags) != count or (lags < 0).any():
        raise ValueError("numbers of samples do not match")
    return lags


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
