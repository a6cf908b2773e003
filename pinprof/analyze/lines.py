"""Which line a sample belongs to: the innermost one of the program's own code, else the innermost of all.

Library code (installed packages, the standard library, the system's headers) is what the line called, and is shown with
it: `loss.backward()` in train.py is the answer, torch/_tensor.py the way there. Only a thread that runs no code of the
program, such as PyTorch's pin thread, counts for the library's line. Every sample belongs to one line at most, so lines
add up; where the recording does not tell which one, it counts as undecided.

Python's lines are one view, those of all languages another: there a line of C++ that Python called is the one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.main_packages import ownership
from pinprof.base.columns import numbered_pairs, pairs_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import UNDECIDED_LINE, Capture, Int32, Int64, StackTable
from pinprof.data.own_code import is_text, library_part

_HOME = re.compile(r"^/(?:home|Users)/[^/]+/|^/root/")
"""Holds a user's name, and reports get shared."""
NOTHING = -1


@dataclass(frozen=True)
class SourceLine:
    """One line, or one function of Python where lines are unknown, with the weight of one event."""

    file: str
    """As short as it can be without being taken for another: `train.py`, `torch/_tensor.py`."""
    line: int
    """0 where only the function is known."""
    function: str
    library: bool
    samples: int
    weight: int
    leaves: Mapping[str, int]
    """Weight by cause, heaviest first."""
    inside: str
    """The library's line in which most of the weight was spent, `torch/_tensor.py:530`; empty if in the line itself."""
    inside_weight: int
    threads: Mapping[str, int]
    """Weight by the threads' names, heaviest first; threads of one name are one."""

    @property
    def symbol_place(self) -> str:
        """The place as it stands in names of frames: without directories."""
        return self.place.rpartition("/")[2]

    @property
    def place(self) -> str:
        """`train.py:88`, or `train.py`."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class EventLines:
    """One event by line."""

    event: int
    """Index into the capture's events."""
    total: int
    """The weight of the event, with and without lines."""
    weight: int
    """The weight of the samples with such functions: what `lines` and `undecided` add up to."""
    undecided: int
    """The weight of those in the program's own code at a line that is not known."""
    lines: tuple[SourceLine, ...]
    """Heaviest first."""

    @property
    def has_lines(self) -> bool:
        """Whether lines are known, not only functions."""
        return any(line.line for line in self.lines)


@dataclass(frozen=True)
class Place:
    """A frame whose file is known."""

    path: str
    line: int
    function: str
    short: str
    """The path within its library; empty outside of libraries."""
    own: bool
    """Whether it is the program's own code."""


def python_lines(capture: Capture, attribution: Attribution) -> tuple[EventLines, ...]:
    """Per event with such samples its weight by Python line; empty for a capture without Python functions."""
    return _by_line(capture, attribution, _python_places(capture.stacks))


def lines_of_all(capture: Capture, attribution: Attribution, python: tuple[EventLines, ...]) -> tuple[EventLines, ...]:
    """As `python_lines`, for every language; the same where only Python's are known."""
    if not capture.stacks.frames.source:
        return python
    return _by_line(capture, attribution, places_of_all(capture.stacks))


def lines_of_samples(capture: Capture) -> list[str]:
    """Per sample the place that it belongs to in `lines_of_all`, such as `train.py:88`; empty where it is not known."""
    stacks = capture.stacks
    places = places_of_all(stacks) if stacks.frames.source else _python_places(stacks)
    files = short_files(places.values())
    text = {frame: "" if place.function == UNDECIDED_LINE else _text(place, files) for frame, place in places.items()}
    text[NOTHING] = ""
    line, _ = nearest_places(capture.stacks, places)
    return [text[frame] for frame in line[capture.samples.stack].tolist()]


def _python_places(stacks: StackTable) -> dict[int, Place]:
    frames = stacks.frames
    python = [index for index, dso in enumerate(frames.dso.tolist()) if frames.dsos[dso].kind == "python"]
    return _places(stacks, python)


def places_of_all(stacks: StackTable) -> dict[int, Place]:
    """Frame → its place, of every language."""
    return _places(stacks, (index for index in range(len(stacks.frames)) if stacks.frames.source_of(index)))


def _places(stacks: StackTable, indices: Iterable[int]) -> dict[int, Place]:
    frames, owned = stacks.frames, cache(ownership(stacks))
    places = {}
    for index in indices:
        path = frames.source_of(index)
        places[index] = Place(path, frames.lines[index], frames.function[index], library_part(path), owned(path))
    return places


def _by_line(capture: Capture, attribution: Attribution, places: Mapping[int, Place]) -> tuple[EventLines, ...]:
    if not places:
        return ()
    line, inside = nearest_places(capture.stacks, places)
    files = short_files(places.values())
    events = []
    for event in range(len(capture.events)):
        rows = np.flatnonzero((capture.samples.event == event) & (line[capture.samples.stack] != NOTHING))
        if len(rows):
            events.append(_event(capture, attribution, event, rows, line, inside, places, files))
    return tuple(events)


def nearest_places(stacks: StackTable, places: Mapping[int, Place]) -> tuple[Int32, Int32]:
    """Per node, one more for NO_NODE: the frame that its weight belongs to, and the innermost of all (or NOTHING)."""
    # One more element, for NOTHING.
    is_known, is_own, is_generated = np.zeros((3, len(stacks.frames) + 1), np.bool_)
    for index, place in places.items():
        is_known[index], is_own[index], is_generated[index] = True, place.own, is_text(place.path)
    own, inner = np.full(len(stacks) + 1, NOTHING, np.int32), np.full(len(stacks) + 1, NOTHING, np.int32)
    for nodes in stacks.levels():
        frame, parent = stacks.frame[nodes], stacks.parent[nodes]
        above = own[parent]
        # What a named tuple or `exec` compiles is the doing of the line in a file that called it.
        in_file = (above != NOTHING) & ~is_generated[above]
        own[nodes] = np.where(is_own[frame] & ~(is_generated[frame] & in_file), frame, above)
        inner[nodes] = np.where(is_known[frame], frame, inner[parent])
    return np.where(own != NOTHING, own, inner), inner


def _event(
    capture: Capture,
    attribution: Attribution,
    event: int,
    rows: Int64,
    line: Int32,
    inside: Int32,
    places: Mapping[int, Place],
    files: Mapping[str, str],
) -> EventLines:
    samples = capture.samples
    weight, node = samples.weight[rows], samples.stack[rows]
    distinct, which = np.unique(line[node], return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(distinct) + 1))
    lines, undecided = [], 0
    for number, frame in enumerate(distinct.tolist()):
        mine = order[bounds[number] : bounds[number + 1]]
        place = places[frame]
        if place.function == UNDECIDED_LINE:
            undecided += int(weight[mine].sum())
            continue
        within = _sums(inside[node[mine]], weight[mine])
        within.pop(frame, None)
        deepest, deepest_weight = next(iter(within.most_common(1)), (NOTHING, 0))
        pids, tids = samples.pid[rows[mine]], samples.tid[rows[mine]]
        lines.append(
            SourceLine(
                file=files[place.path],
                line=place.line,
                function=place.function,
                library=not place.own,
                samples=len(mine),
                weight=int(weight[mine].sum()),
                leaves=_by_leaf(attribution, rows[mine], weight[mine]),
                inside=_text(places[deepest], files) if deepest != NOTHING else "",
                inside_weight=deepest_weight,
                threads=_by_thread(capture, pids, tids, weight[mine]),
            )
        )
    lines.sort(key=lambda row: (-row.weight, row.place, row.function))
    total = int(samples.weight[samples.event == event].sum())
    return EventLines(event, total, int(weight.sum()), undecided, tuple(lines))


def _text(place: Place, files: Mapping[str, str]) -> str:
    return f"{files[place.path]}:{place.line}" if place.line else files[place.path]


def _sums(keys: Int32, weight: Int64) -> Counter[int]:
    distinct, which = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, which.reshape(-1), weight)
    return Counter(dict(zip(distinct.tolist(), sums.tolist(), strict=True)))


def _by_leaf(attribution: Attribution, rows: Int64, weight: Int64) -> dict[str, int]:
    sums = _sums(attribution.leaf[rows].astype(np.int32), weight)
    return {CATEGORIES[leaf].name: value for leaf, value in sums.most_common() if value}


def _by_thread(capture: Capture, pids: Int32, tids: Int32, weight: Int64) -> dict[str, int]:
    names: Counter[str] = Counter()
    distinct, which = numbered_pairs(pids, tids)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, which, weight)
    for thread, value in zip(pairs_of(distinct), sums.tolist(), strict=True):
        names[capture.threads.get(thread, "")] += value
    return dict(names.most_common())


def short_files(places: Iterable[Place]) -> dict[str, str]:
    """Path → the shortest ending of whole components that no other file of the program has."""
    own: dict[str, list[str]] = {}
    short = {}
    for place in places:
        if place.short:
            short[place.path] = place.short
        else:
            own[place.path] = _HOME.sub("~/", place.path).strip("/").split("/")
    for path, parts in own.items():
        length = 1
        while length < len(parts) and any(
            other != path and others[-length:] == parts[-length:] for other, others in own.items()
        ):
            length += 1
        short[path] = "/".join(parts[-length:])
    return short
