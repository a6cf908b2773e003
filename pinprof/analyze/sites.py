"""Whose code a stack is in: the innermost line of the program's own, where a change can be made."""

from __future__ import annotations

import re

import numpy as np

from pinprof.analyze.lines import NOTHING, Place, nearest_places, places_of_all, short_files
from pinprof.base.columns import Bool, Int32, Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Caller
from pinprof.data.gpu_functions import LINKED_RUNTIME, RUNTIME_API
from pinprof.data.model import NO_NODE, UNDECIDED_LINE, USER, Capture, StackTable
from pinprof.data.own_code import library_part
from pinprof.data.spoken import spoken

_SYSTEM = re.compile(
    r"(/usr)?/lib(32|64)?/|/usr/local/cuda|/(site|dist)-packages/|\[|/(lib)?(cuda|cudart|nv|torch|c10|python)[\w.-]*$|"
    r"/lib(Tools?Injection\w*\.so|pinprof_\w+\.)"
)
"""Paths of what is no program of somebody who looks for a line to change."""
_NOT_OWN = re.compile(rf"\[|_start|(?:{LINKED_RUNTIME}|{RUNTIME_API})$")
"""Functions in a program's file that nobody wrote there."""
_ARRAYS = re.compile(r"(torch|numpy|cupyx?|jax|jaxlib|numba|tensorflow|cuda)/")
"""Libraries whose functions are operations on arrays."""


@dataclass(frozen=True)
class Site:
    """Where to change something."""

    function: str
    file: str
    line: int
    """0 where only the function is known."""
    thread: str
    """Name of the thread, empty where it has none."""
    range: str = ""
    """Path of the innermost NVTX range around most of the cost; empty without one."""

    @property
    def place(self) -> str:
        """`train.py:88`, `train.py`, the function where no file is known, else the range."""
        named = "" if self.function.startswith("[") else spoken(self.function)
        around = f"range {self.range}" if self.range else ""
        return (f"{self.file}:{self.line}" if self.line else self.file) or named or around


class Sites:
    """The places of a capture's stacks."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._places = places_of_all(capture.stacks)
        self._files = short_files(self._places.values())
        own, _ = nearest_places(capture.stacks, self._places)
        frame = np.where(own != NOTHING, own, np.append(_innermost_own(capture.stacks), np.int32(NOTHING)))
        self._frame = self._one_each(len(capture.stacks.frames))[frame]

    def _one_each(self, count: int) -> Int32:
        """Per frame, one more for NOTHING, the first frame at the same line: functions may be there several times."""
        first: dict[tuple[str, int], int] = {}
        same = np.append(np.arange(count, dtype=np.int32), np.int32(NOTHING))
        for frame, place in self._places.items():
            if place.line:
                same[frame] = first.setdefault((place.path, place.line), frame)
        return same

    def path(self, file: str) -> str:
        """The path, as it was recorded, of a file as sites call it; empty where there is none."""
        return next((path for path, short in self._files.items() if short == file), "") if file else ""

    def is_own(self, site: Site) -> bool:
        """Whether a site is in the program's own code."""
        path = self.path(site.file)
        place = next((place for place in self._places.values() if place.path == path), None)
        return bool(site.file) and (place.own if place else not library_part(path))

    def frames(self, nodes: Int32) -> Int32:
        """Per node of the stacks the frame that is its place, NOTHING where it has none; NO_NODE is one without."""
        return np.asarray(self._frame[nodes], np.int32)

    def site(self, frame: int, thread: str) -> Site:
        """A frame as a place to change something."""
        if frame == NOTHING:
            return Site("", "", 0, thread)
        place = self._places.get(frame)
        if place is None:
            return Site(self._capture.stacks.frames.function[frame], "", 0, thread)
        return _site(place, self._files[place.path], thread)

    def by_a_library(self, nodes: Int32) -> Bool:
        """Per node, whether a library does this for the program; one of arrays does what the own line says."""
        places = {frame: place for frame, place in self._places.items() if not _ARRAYS.match(place.short)}
        _, inner = nearest_places(self._capture.stacks, places)
        frames = inner[nodes]
        return np.asarray((frames != NOTHING) & ~self.are_own(frames))

    def are_own(self, frames: Int32) -> Bool:
        """Whether places are in the program's own code; NOTHING is not."""
        own = np.ones(len(self._capture.stacks.frames) + 1, np.bool_)
        own[[frame for frame, place in self._places.items() if not place.own]] = False
        own[NOTHING] = False
        return own[frames]

    def heaviest(self, frames: Int32, weight: Int64, thread: str) -> Site:
        """The place with most weight; `frames` are places."""
        distinct, which = np.unique(frames, return_inverse=True)
        sums = np.bincount(which.reshape(-1), weights=weight.astype(np.float64), minlength=len(distinct))
        sums[distinct == NOTHING] = -1
        return self.site(int(distinct[sums.argmax()]) if len(distinct) else NOTHING, thread)

    def of_caller(self, caller: Caller, thread: str) -> Site:
        """The site of a CUDA call; a call from a file that no sample is in has the file's name alone."""
        if not caller.line:
            return Site(caller.function, "", 0, thread)
        return Site(caller.function, self._files.get(caller.path, caller.file), caller.line, thread)


def _site(place: Place, file: str, thread: str) -> Site:
    function = "" if place.function == UNDECIDED_LINE else place.function
    return Site(function, file, place.line, thread)


def _innermost_own(stacks: StackTable) -> Int32:
    """Per node the innermost function that lies in no system library; without lines the nearest to a place."""
    frames = stacks.frames
    own_file = np.array([not _SYSTEM.search(dso.path or dso.name) for dso in frames.dsos], np.bool_)[frames.dso]
    named = np.array([not _NOT_OWN.match(symbol) for symbol in frames.symbol], np.bool_)
    own = own_file & named & (frames.mode == USER)
    result = np.full(len(stacks), NOTHING, np.int32)
    for nodes in stacks.levels():
        frame, parent = stacks.frame[nodes], stacks.parent[nodes]
        above = np.where(parent == NO_NODE, NOTHING, result[parent])
        result[nodes] = np.where(own[frame], frame, above)
    return result
