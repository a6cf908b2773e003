"""Folded stacks: straight from the stack table, without attribution; imports numpy only."""

from __future__ import annotations

import re
from collections import Counter
from typing import IO

import numpy as np

from pinprof.errors import UsageError
from pinprof.model import KERNEL, NO_NODE, Bool, Capture, FrameTable, Int32
from pinprof.report.names import NO_CALLCHAIN
from pinprof.report.rows import merged_nodes

_CHUNK = 8192
"""Stacks unrolled at once: bounds memory at chunk × depth name indices."""

_SEPARATORS = re.compile(r"[;\x00-\x1f\x7f-\x9f\u2028\u2029]")


def write_folded(capture: Capture, stream: IO[str], event: str | None = None) -> None:
    """Write one event's distinct stacks as `root;…;leaf weight` lines, heaviest first.

    `event` is a name as recorded or its part before the first `/`; None takes the first event. Kernel functions end
    in `_[k]`, as stackcollapse-perf.pl marks them. Semicolons and line breaks inside names become `:` and spaces.
    Stacks that only then read alike (functions of one name in several libraries) become one line, at the end.
    UsageError when the capture has no such event.
    """
    chosen = find_event(capture, event)
    nodes, weights = merged_nodes(capture, chosen)
    heaviest = np.argsort(-weights, kind="stable")
    nodes, weights = nodes[heaviest], weights[heaviest]
    names = _folded_names(capture.stacks.frames)
    spelled = Counter(names)
    ambiguous = np.array([spelled[name] > 1 for name in names])
    alike: dict[str, int] = {}
    for start in range(0, len(nodes), _CHUNK):
        rows = _unroll(capture, nodes[start : start + _CHUNK], names, ambiguous)
        for stack, several, weight in zip(*rows, weights[start : start + _CHUNK].tolist(), strict=True):
            if several:
                alike[stack] = alike.get(stack, 0) + weight
            else:
                stream.write(f"{stack} {weight}\n")
    for stack, weight in sorted(alike.items(), key=lambda line: -line[1]):
        stream.write(f"{stack} {weight}\n")


def find_event(capture: Capture, name: str | None) -> int:
    """Index of the event called `name`, of the first event for None; UsageError names the events there are."""
    recorded = [event.name for event in capture.events]
    if name is None:
        if recorded:
            return 0
        raise UsageError("The recording holds no events.", "Record it again with `pinprof record`.", "event")
    short = [entry.split("/")[0].split(":")[0] for entry in recorded]
    for candidates in (recorded, short):
        if name in candidates:
            return candidates.index(name)
    raise UsageError(f"No event is called {name!r}.", f"The recording has: {', '.join(recorded)}.", "event")


def _folded_names(frames: FrameTable) -> list[str]:
    """Per frame its name as a folded line spells it, with one more entry for the missing callchain."""
    kernel = (frames.mode == KERNEL).tolist()
    names = [
        _SEPARATORS.sub(lambda match: ":" if match[0] == ";" else " ", symbol) + ("_[k]" if in_kernel else "")
        for symbol, in_kernel in zip(frames.symbol, kernel, strict=True)
    ]
    return [*names, NO_CALLCHAIN]


def _unroll(capture: Capture, nodes: Int32, names: list[str], marked: Bool) -> tuple[list[str], list[bool]]:
    """Per node its chain as text, root first, and whether a name in it is marked; the last name is that of no chain.

    All chains climb one level per numpy pass.
    """
    table = capture.stacks
    if not len(table):
        return [names[-1]] * len(nodes), [True] * len(nodes)
    frames: list[Int32] = []
    current = nodes
    depth = np.zeros(len(nodes), np.int64)
    while (alive := current != NO_NODE).any() or not frames:
        frames.append(np.where(alive, table.frame[current], len(names) - 1))
        depth += alive
        current = np.where(alive, table.parent[current], NO_NODE)
    rows = np.stack(frames[::-1], axis=1)
    texts = [
        ";".join([names[frame] for frame in row[-max(length, 1) :]])
        for row, length in zip(rows.tolist(), depth.tolist(), strict=True)
    ]
    return texts, [bool(flag) for flag in np.any(marked[rows], axis=1)]
