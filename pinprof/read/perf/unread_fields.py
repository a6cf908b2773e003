"""The fields of tracepoints in a recording: those that nobody reads are overwritten with zeros (program_memory.py).

Wake-ups name the woken thread, which may be another program's. Calls in old recordings have what lay in registers that
hold no argument, and behind the sizes of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinprof.base.columns import ascending
from pinprof.data import perf_format as perf
from pinprof.data.gpu_functions import FUNCTIONS, READ_PIECES, Function, plain_name
from pinprof.data.model import NO_NODE, Bool, Int64, UInt64
from pinprof.read.perf import wakeups
from pinprof.read.perf.chains import by_value
from pinprof.read.perf.data import PerfRecording
from pinprof.read.perf.header import EventSource
from pinprof.read.perf.sequences import positions
from pinprof.read.perf.stacks import build_stacks
from pinprof.read.symbols.resolver import Resolver

Called = Mapping[tuple[int, int], Function]
"""By process and address, what a watched function reads."""
_COMMON, _FUNCTION, _ARGUMENTS, _SIZES = 1, 1, 2, 6
"""Words of a tracepoint's payload: how many every tracepoint has, and where those of calls stand (cuda_calls.py)."""
_NAME, _WOKEN, _HALF = slice(1, 3), 3, np.uint64(0xFFFFFFFF)
"""The words of a wake-up's payload with the woken thread's name, and where its number follows (wakeups.py)."""
_CALLS, _LEAVE = ("call-enter", "call-enter-bare"), "call-leave"
_NOBODY = Function()


def functions_called(recording: PerfRecording, resolver: Resolver) -> Called:
    """The functions that are entered in a recording of calls."""
    raw = recording.raw
    if not len(raw.payload):
        return {}
    stacks = build_stacks(raw.chains.innermost(2), raw.samples.chain, raw.spaces, resolver)
    table, found = stacks.table, {}
    rows = np.flatnonzero(stacks.node != NO_NODE)
    # One stack of a function may be cut where another is whole.
    node = stacks.node[rows].astype(np.uint64)
    keys = np.stack([raw.samples.pid[rows].astype(np.uint64), raw.payload[rows, _FUNCTION], node])
    _, first = np.unique(keys, axis=1, return_index=True)
    for row in rows[first].tolist():
        name = plain_name(table.frames.function[int(table.frame[stacks.node[row]])])
        if name in FUNCTIONS:
            found[int(raw.samples.pid[row]), int(raw.payload[row, _FUNCTION])] = FUNCTIONS[name]
    return found


class UnreadFields:
    """Which samples of a recording have such fields, and zeros in their place."""

    def __init__(self, sources: Sequence[EventSource], threads: UInt64, called: Called | None) -> None:
        """`threads`: the program's. `called`: what the arguments of calls are; None where no other was read."""
        self._names, self._threads, self._called = [source.name for source in sources], threads, called
        kinds = [name.partition("/")[0] for name in self._names]
        fielded = [bool(source.attr.sample_type & perf.SAMPLE_RAW) for source in sources]
        self._wakeups = wakeups_among(sources)
        self._calls = [index for index, kind in enumerate(kinds) if kind in _CALLS and fielded[index]]
        self._unknown = [
            index
            for index, kind in enumerate(kinds)
            if fielded[index] and kind not in (*_CALLS, _LEAVE) and index not in self._wakeups
        ]

    def concern(self, recording: PerfRecording, part: slice) -> Bool:
        """Whether some samples of a recording, as read, have any."""
        source = recording.raw.samples.source[part]
        rows = np.isin(source, self._unknown if self._called is None else [*self._unknown, *self._calls])
        if self._wakeups:
            fields = recording.raw.payload[part]
            strange = fields[:, _NAME].any(1) & ~np.isin(fields[:, _WOKEN] & _HALF, self._threads)
            rows |= strange & np.isin(source, self._wakeups)
        return rows

    def blank(self, words: UInt64, index: int, pid: Int64, place: Int64, end: Int64) -> None:
        """Put zeros into the fields of some samples of an event, half a word behind `place`."""
        fields = _Fields(words, 2 * place + 1, 2 * end)
        if index in self._wakeups:
            strangers = np.flatnonzero(~np.isin(fields.word(_WOKEN) & _HALF, self._threads))
            fields.blank(strangers, range(_NAME.start, _NAME.stop))
        elif index in self._calls and self._called is not None:
            _blank_arguments(fields, pid, self._called)
        elif index in self._unknown:
            fields.blank(np.arange(len(place)), range(_COMMON, int((end - place).max(initial=0)) + 1))


def wakeups_among(sources: Sequence[EventSource]) -> list[int]:
    """The events that are wake-ups."""
    return [index for index, source in enumerate(sources) if source.name in wakeups.NAMES]


class _Fields:
    """The fields of some samples' tracepoint: words that begin in the middle of others."""

    def __init__(self, words: UInt64, begin: Int64, end: Int64) -> None:
        self._halves, self._begin, self._end = words.view("<u4"), begin, end

    def word(self, number: int) -> UInt64:
        """What each sample has."""
        place = np.minimum(self._begin + 2 * number, len(self._halves) - 2)
        low, high = (self._halves[place + half].astype(np.uint64) for half in range(2))
        return np.asarray(low | high << np.uint64(32))

    def blank(self, rows: Int64, numbers: range) -> None:
        """Put zeros into these words of some samples."""
        begin = self._begin[rows] + 2 * numbers.start
        length = np.maximum(np.minimum(self._end[rows] - begin, 2 * len(numbers)), 0)
        self._halves[positions(begin, length)] = 0


def _blank_arguments(fields: _Fields, pid: Int64, called: Called) -> None:
    """What is no argument of the function that was entered, and no size of its batch."""
    address = fields.word(_FUNCTION)
    for function in ascending(address).tolist():
        for process, rows in by_value(pid, np.flatnonzero(address == np.uint64(function))):
            role = called.get((process, function), _NOBODY)
            for argument in set(range(_SIZES - _ARGUMENTS)) - set(role.arguments):
                fields.blank(rows, range(_ARGUMENTS + argument, _ARGUMENTS + argument + 1))
            pieces = np.zeros(len(rows), np.int64)
            if role.pieces is not None:
                told = fields.word(_ARGUMENTS + role.pieces)[rows]
                pieces = np.minimum(told, np.uint64(READ_PIECES)).astype(np.int64)
            for count, mine in by_value(pieces, np.arange(len(rows))):
                fields.blank(rows[mine], range(_SIZES + count, _SIZES + READ_PIECES + 1))
