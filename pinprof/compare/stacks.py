"""Both sides' stacks as one prefix tree, functions matched by their keys; events stay apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.recorder import RECORDER_EVENT
from pinprof.base.columns import Int32, Int64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.compare.frames import frame_key, library_key
from pinprof.compare.results import ComparedFrames, ComparedStacks, ComparedWeights
from pinprof.data.model import NO_NODE, USER, Capture, Dso, FrameTable, StackTable
from pinprof.data.own_code import library_part
from pinprof.data.unnamed_runs import as_single_frames

INTERPRETER = re.compile(r"(?:python|pypy|ruby|perl|node|bash|sh|dash|zsh|java|julia|Rscript)[\d.]*t?")
_EVERYWHERE = frozenset(("_start", "main", "_init", "_fini", "__libc_csu_init"))


@dataclass(frozen=True)
class EventStacks:
    """One event of one run by its stacks."""

    table: StackTable
    rows: ComparedWeights
    """All of run 0; the node is NO_NODE for samples without a call chain."""
    unit: str
    waits: bool
    """Whether it is time off the CPU."""

    def functions(self, own: bool = False) -> set[str]:
        """The keys of all functions on these stacks, or of the program's own: those of its file and its sources.

        An interpreter's functions are no program's own, nor are those that every program has.
        """
        frames = self.table.frames
        libraries = [library_key(dso) for dso in frames.dsos]
        mine = [
            not library_part(dso.path) if dso.kind == "python" else not (library or INTERPRETER.fullmatch(dso.name))
            for library, dso in zip(libraries, frames.dsos, strict=True)
        ]
        return {
            frame_key(symbol, libraries[dso], mode)
            for symbol, dso, mode in zip(frames.symbol, frames.dso.tolist(), frames.mode.tolist(), strict=True)
            if not own or (mine[dso] and not symbol.startswith("[") and symbol not in _EVERYWHERE)
        }


def event_stacks(capture: Capture, attribution: Attribution, name: Callable[[str], str]) -> dict[str, EventStacks]:
    """Name of an event → its stacks; waits, which are no samples of time on a processor, are an event of their own.

    What the recorder took is none of the program's. A run of frames without a name is one function, however long: how
    many of a library's functions call each other changes with its version.
    """
    samples = capture.samples
    table, stack = as_single_frames(capture.stacks, samples.stack)
    found = {}
    for number, event in enumerate(capture.events):
        mine = samples.event == number
        if event.name == RECORDER_EVENT or not mine.any():
            continue
        rows = ComparedWeights.of(
            int(mine.sum()),
            node=stack[mine],
            cause=attribution.leaf[mine],
            likely=attribution.heuristic[mine],
            weight=samples.weight[mine],
            samples=1,
        )
        found[name(event.name)] = EventStacks(table, summed(rows), event.unit, event.spans)
    return found


def summed(rows: ComparedWeights) -> ComparedWeights:
    """Rows that agree in node, run, cause and how that was found, added up; in the order of their nodes."""
    keys = np.stack([rows.likely, rows.cause, rows.run, rows.node]).astype(np.int64)
    order = np.lexsort(keys)
    fresh = np.append(len(order) > 0, (np.diff(keys[:, order], axis=1) != 0).any(axis=0))[: len(order)]
    first = np.flatnonzero(fresh)
    if not len(first):
        return rows
    sums = {name: np.add.reduceat(getattr(rows, name)[order], first) for name in ("weight", "samples")}
    return replace(rows.take(order[first]), **sums)


def compared_stacks(
    event: str,
    before: Sequence[EventStacks | None],
    after: Sequence[EventStacks | None],
    units: tuple[Sequence[float], Sequence[float]],
    exact: bool = False,
) -> ComparedStacks:
    """The runs of both sides as one tree; every run's weights divided by its units of work and the number of runs.

    None stands for a run without such samples; some run has them. `exact` matches functions by their own names instead
    of their keys.
    """
    frames = _Frames(exact)
    parents, functions, rows = [], [], []
    offset = 0
    for number, run in enumerate((*before, *after)):
        if run is None:
            continue
        side, table = int(number >= len(before)), run.table
        parents.append(np.where(table.parent == NO_NODE, NO_NODE, table.parent + offset).astype(np.int32))
        functions.append(frames.of(table.frames, side)[table.frame])
        node = run.rows.node + np.int32(offset)
        offset += len(table)
        if (without := run.rows.node == NO_NODE).any():
            parents.append(np.array([NO_NODE], np.int32))
            functions.append(frames.of(_NO_CHAIN, side))
            node[without] = offset
            offset += 1
        rows.append(replace(run.rows, node=node, run=np.full(len(node), number, np.int32)))
    tree, place = StackTable(np.concatenate(parents), np.concatenate(functions), NO_FRAMES).merged()
    weights = rows[0].joined(*rows[1:])
    kept, parent = _reached(tree.parent, ascending(place[weights.node]).astype(np.int64))
    weights = summed(replace(weights, node=np.searchsorted(kept, place[weights.node]).astype(np.int32)))
    scale = np.array([1 / (unit * len(side)) for side in units for unit in side])
    later = weights.run >= len(before)
    columns = [
        np.bincount(weights.node[mine], weights=column[mine], minlength=len(kept)).astype(np.float64)
        for column in (weights.weight * scale[weights.run], weights.samples)
        for mine in (~later, later)
    ]
    return ComparedStacks(
        parent=parent,
        frame=tree.frame[kept],
        before=columns[0],
        after=columns[1],
        before_samples=columns[2].astype(np.int64),
        after_samples=columns[3].astype(np.int64),
        event=event,
        unit=next(run.unit for run in (*before, *after) if run is not None),
        frames=frames.table(),
        weights=weights,
    )


class _Frames:
    """The functions of all runs, each key once, with its names on both sides."""

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._number: dict[str, int] = {}
        self._names: tuple[list[set[str]], list[set[str]]] = ([], [])
        self._facts: list[tuple[int, str, str]] = []

    def of(self, frames: FrameTable, side: int) -> Int32:
        """Per frame of one run its number here."""
        libraries = [library_key(dso) for dso in frames.dsos]
        numbers = np.zeros(len(frames), np.int32)
        rows = zip(frames.symbol, frames.dso.tolist(), frames.mode.tolist(), strict=True)
        for row, (symbol, dso, mode) in enumerate(rows):
            key = f"{mode}:{symbol}" if self._exact else frame_key(symbol, libraries[dso], mode)
            number = self._number.setdefault(key, len(self._facts))
            if number == len(self._facts):
                self._facts.append((mode, frames.dsos[dso].kind, libraries[dso]))
                for names in self._names:
                    names.append(set())
            self._names[side][number].add(symbol)
            numbers[row] = number
        return numbers

    def table(self) -> ComparedFrames:
        """All of them. Of several names the first in the order of the alphabet stands for them."""
        before, after = ([min(names, default="") for names in side] for side in self._names)
        apart = [bool(one and two and not one & two) for one, two in zip(*self._names, strict=True)]
        both = [sorted(one & two) for one, two in zip(*self._names, strict=True)]
        return ComparedFrames(
            key=tuple(self._number),
            before=tuple(same[0] if same else name for same, name in zip(both, before, strict=True)),
            after=tuple(same[0] if same else name for same, name in zip(both, after, strict=True)),
            mode=np.array([fact[0] for fact in self._facts], np.uint8),
            kind=tuple(fact[1] for fact in self._facts),
            library=tuple(fact[2] for fact in self._facts),
            renamed=np.array(apart, np.bool_),
        )


def _reached(parent: Int32, ends: Int64) -> tuple[Int64, Int32]:
    """The nodes at which samples end, and those on the way there; and their parents' new places."""
    reached = np.zeros(len(parent), np.bool_)
    reached[ends] = True
    ahead = ends
    while len(ahead):
        above = ascending(parent[ahead]).astype(np.int64)
        above = above[above != NO_NODE]
        ahead = above[~reached[above]]
        reached[ahead] = True
    kept = np.flatnonzero(reached)
    place = np.full(len(parent) + 1, NO_NODE, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return kept, place[parent[kept]]


_NO_CHAIN = FrameTable(("[no callchain]",), np.zeros(1, np.int32), np.full(1, USER, np.uint8), (Dso("", "", "anon"),))
"""Stands for the stack of samples without one."""
NO_FRAMES = FrameTable((), np.zeros(0, np.int32), np.zeros(0, np.uint8), ())


def unmatched(stacks: ComparedStacks) -> Mapping[str, tuple[float, float]]:
    """What could not be laid side by side, as weights (before, after) of the nodes themselves.

    `only`: of functions that one side has alone; `renamed`: of functions that both have by different names.
    """
    frames = stacks.frames
    missing = np.array([not (one and two) for one, two in zip(frames.before, frames.after, strict=True)], np.bool_)
    return {
        word: (float(stacks.before[rows].sum()), float(stacks.after[rows].sum()))
        for word, rows in (("only", missing[stacks.frame]), ("renamed", frames.renamed[stacks.frame]))
    }
