"""Looks at the threads of one process: frames.c reads where each of them is."""

from __future__ import annotations

import ctypes
import weakref
from functools import lru_cache
from typing import NamedTuple

from pinprof.collect.python_frames.layout import InterpreterLayout
from pinprof.collect.python_frames.memory import Gone
from pinprof.machine.libraries import FRAMES

NOT_SEEN, AS_BEFORE, ANOTHER = range(3)
"""How a look at a thread went."""
_SEEN, _TORN, _UNREADABLE, _GONE = range(4)
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
    def window(self) -> SeenWindow:
        """When it was seen so."""
        return SeenWindow(self._thread.since, self._thread.begun, self._thread.ended)

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
        self._look, self._heads = library.pinprof_frames_look, library.pinprof_frames_heads
        self._known: tuple[list[int], list[Seen]] | None = None
        self.watch([], [])

    def watch(self, heads: list[int], threads: list[Seen]) -> None:
        """Look at these threads; `heads`: where the first one of each interpreter is noted, 64 at most."""
        if (heads, threads) != self._known:
            self._known = heads, threads
            self._heads(self._process, (ctypes.c_uint64 * len(heads))(*heads), ctypes.c_size_t(len(heads)))
            pointers = (ctypes.POINTER(_Thread) * len(threads))(*(thread.pointer for thread in threads))
            self._arguments = self._process, pointers, ctypes.c_size_t(len(threads))

    def look(self) -> bool:
        """Look at all of them; False where one is gone, or a new one has come first."""
        result = self._look(*self._arguments)
        if result == _GONE:
            raise Gone("no process")
        return bool(result == _SEEN)
