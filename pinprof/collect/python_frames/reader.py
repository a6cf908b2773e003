"""Looks at the threads of one process: frames.c reads where each of them is."""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from pinprof.collect.python_frames.layout import InterpreterLayout
from pinprof.collect.python_frames.memory import Gone
from pinprof.machine.libraries import FRAMES

NOT_SEEN, AS_BEFORE, ANOTHER = range(3)
"""How a look at a thread went."""
NO_STACK, UNKNOWN, UNNAMED = -1, -2, -3
"""Instead of the number of a stack: the thread runs no Python; it was not seen, for its frames changed too much
meanwhile; where it is has no number yet."""
_MOST_LOOKS, _MOST_SAMPLES = 64, 8192
"""How many looks follow each other at most, and how many threads they see in all."""
_UNREADABLE, _GONE = 2, 3
_PIECE, _TIMES, _SAMPLE = struct.Struct("<QQ"), struct.Struct("<QQ"), struct.Struct("<qQQQ")
_OFFSETS = (
    "frame", "frame_in_cframe", "has_cframe", "c_outermost", "frame_bytes", "code", "previous", "instruction", "owner",
    "copy", "has_copy",
)  # fmt: skip
_C_OUTERMOST = (3, 12)
"""From this version on the outermost frame is the one by which C calls Python."""

Places = tuple[int, ...]
"""(code, instruction, number of the bytecode's copy) of each frame, one after another, innermost first."""


class SeenWindow(NamedTuple):
    """When a look saw a thread, in ns of CLOCK_MONOTONIC."""

    since_ns: int
    """Between this and `begun_ns` it was seen,"""
    begun_ns: int
    """and in the same place between this and `ended_ns`; only there if both are the same."""
    ended_ns: int


class _Layout(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in _OFFSETS)


class _Thread(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64),
        ("outermost", ctypes.c_uint64),
        ("places", ctypes.POINTER(ctypes.c_uint64)),
        ("depth", ctypes.c_uint32),
        ("state", ctypes.c_int32),
        ("since", ctypes.c_uint64),
        ("begun", ctypes.c_uint64),
        ("ended", ctypes.c_uint64),
    )


@lru_cache
def _library() -> ctypes.CDLL:
    """ToolMissing where it is not available."""
    library = ctypes.CDLL(str(FRAMES.find()))
    library.pinprof_frames_new.restype = ctypes.c_void_p
    library.pinprof_frames_thread.restype = ctypes.POINTER(_Thread)
    return library


class Look(NamedTuple):
    """A look at all threads of a process."""

    due_ns: int
    """When it was to be."""
    seen_ns: int
    """When it was; both of CLOCK_MONOTONIC."""
    samples: tuple[tuple[int, int, int, int], ...]
    """By thread: the number of its stack, or what there is instead, and a `SeenWindow`."""


class _Looks(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("due", "until", "most", "done")),
        *((name, ctypes.c_void_p) for name in ("gaps", "times", "samples")),
    )


class Seen:
    """One thread, as it was seen last."""

    def __init__(self, address: int) -> None:
        library = _library()
        self.pointer = library.pinprof_frames_thread(ctypes.c_uint64(address))
        if not self.pointer:
            raise MemoryError
        self._thread: _Thread = self.pointer.contents
        weakref.finalize(self, library.pinprof_frames_forget, self.pointer)

    @property
    def state(self) -> int:
        """NOT_SEEN, AS_BEFORE, ANOTHER."""
        return int(self._thread.state)

    @property
    def depth(self) -> int:
        """How many frames it has."""
        return int(self._thread.depth)

    @property
    def outermost(self) -> int:
        """The frame that its function lies in; 0 where it has none."""
        return int(self._thread.outermost)

    @property
    def places(self) -> Places:
        """Where it is."""
        return tuple(self._thread.places[: 3 * self._thread.depth])


class ThreadReader:
    """Reads the threads of a process."""

    def __init__(self, pid: int, layout: InterpreterLayout) -> None:
        """ToolMissing where the library is not available."""
        library, copies = _library(), layout.bytecode_copy
        ends = layout.code + 8, layout.previous + 8, layout.instruction + 8, layout.owner + 1, copies and copies + 4
        given = _Layout(
            frame=layout.frame,
            frame_in_cframe=layout.frame_in_cframe or 0,
            has_cframe=layout.frame_in_cframe is not None,
            c_outermost=layout.version >= _C_OUTERMOST,
            frame_bytes=max(ends),
            code=layout.code,
            previous=layout.previous,
            instruction=layout.instruction,
            owner=layout.owner,
            copy=copies,
            has_copy=copies > 0,
        )
        self._process = ctypes.c_void_p(library.pinprof_frames_new(ctypes.c_int(pid), ctypes.byref(given)))
        if self._process.value is None:
            raise MemoryError
        weakref.finalize(self, library.pinprof_frames_free, self._process)
        self._library = library
        self._followed: tuple[list[int], list[Seen]] | None = None
        self.follow([], [])

    def follow(self, heads: list[int], threads: list[Seen]) -> None:
        """Look at these threads; `heads`: where the first one of each interpreter is noted, 64 at most."""
        if (heads, threads) == self._followed:
            return
        self._followed, count = (heads, threads), len(threads)
        noted = (ctypes.c_uint64 * len(heads))(*heads)
        self._library.pinprof_frames_heads(self._process, noted, ctypes.c_size_t(len(heads)))
        pointers = (ctypes.POINTER(_Thread) * count)(*(thread.pointer for thread in threads))
        self._arguments = self._process, pointers, ctypes.c_size_t(count)
        most = max(min(_MOST_LOOKS, _MOST_SAMPLES // max(count, 1)), 1)
        self._gaps, self._times = (ctypes.c_uint64 * most)(), ctypes.create_string_buffer(_TIMES.size * most)
        self._samples = ctypes.create_string_buffer(_SAMPLE.size * max(most * count, 1))
        places = (ctypes.cast(place, ctypes.c_void_p) for place in (self._gaps, self._times, self._samples))
        self._looks = _Looks(0, 0, most, 0, *places)

    def name(self, thread: Seen, stack: int, fixed: Sequence[tuple[int, int]], content: bytes) -> None:
        """Give where a thread was seen a number: it has it as long as at the (address, bytes) `fixed` is `content`."""
        places = b"".join(_PIECE.pack(*piece) for piece in fixed)
        count, size = ctypes.c_size_t(len(fixed)), ctypes.c_size_t(len(content))
        self._library.pinprof_frames_name(self._process, thread.pointer, stack, places, count, content, size)

    def forget_names(self) -> None:
        """No place has a number any more."""
        self._library.pinprof_frames_forget_names(*self._arguments)

    def look(self, due_ns: int = 0, until_ns: int = 0, gaps_ns: Sequence[int] = (0,)) -> tuple[list[Look], int, bool]:
        """Look at all of them, at `due_ns`, which is now, and again after each gap.

        The looks end where one finds a place without a number, a thread that is gone or a new one, where the next would
        be after `until_ns`, or where a signal arrives. With them: when the next one is due, and whether no thread is
        gone and no new one has come first. `Gone` where the process is.
        """
        looks, most = self._looks, min(len(gaps_ns), len(self._gaps))
        looks.due, looks.until, looks.most = due_ns, until_ns, most
        self._gaps[:most] = list(gaps_ns[:most])
        result = self._library.pinprof_frames_look(*self._arguments, ctypes.byref(looks))
        if result == _GONE and not looks.done:
            raise Gone("no process")
        count = len(self._followed[1]) if self._followed else 0
        times = _TIMES.iter_unpack(ctypes.string_at(self._times, _TIMES.size * looks.done))
        samples = _SAMPLE.iter_unpack(ctypes.string_at(self._samples, _SAMPLE.size * count * looks.done))
        seen = [Look(due, at, tuple(islice(samples, count))) for due, at in times]
        return seen, int(looks.due), result not in (_UNREADABLE, _GONE)
