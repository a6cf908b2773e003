"""Folded stacks: straight from the stack table, without attribution; imports numpy only."""

from __future__ import annotations

from collections import Counter
from typing import IO, Literal, get_args

import numpy as np

from pinprof.base.errors import UsageError
from pinprof.data.model import KERNEL, NO_NODE, Bool, Capture, FrameTable, Int32
from pinprof.report.export import flamegraph_style
from pinprof.report.export.flamegraph_style import plain
from pinprof.report.names import NO_CALLCHAIN
from pinprof.report.rows import merged_nodes

_CHUNK = 8192
"""Stacks unrolled at once: bounds memory at chunk × depth name indices."""

Style = Literal["pinprof", "flamegraph"]
STYLES: tuple[Style, ...] = get_args(Style)


def write_folded(capture: Capture, stream: IO[str], event: str | None = None, style: Style = "pinprof") -> None:
    """Write one event's distinct stacks as `root;…;leaf weight` lines, heaviest first.

    `event` is a name as recorded or its part before the first `/`; None takes the first event. Kernel functions end
    in `_[k]`, as stackcollapse-perf.pl marks them. Semicolons and line breaks inside names become `:` and spaces.
    Stacks that only then read alike (functions of one name in several libraries) become one line, at the end.
    The style `flamegraph` is that of stackcollapse-perf.pl (flamegraph_style.py), in the order of the lines' bytes.
    UsageError when the capture has no such event.
    """
    chosen = find_event(capture, event)
    if style == "flamegraph":
        _write_flamegraph(capture, stream, chosen)
        return
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


def _write_flamegraph(capture: Capture, stream: IO[str], event: int) -> None:
    """The lines of stackcollapse-perf.pl; a sample without a call chain is its process alone."""
    processes, process, nodes, weights = flamegraph_style.merged_by_process(capture, event)
    names = [*flamegraph_style.frame_names(capture.stacks.frames), ""]
    nothing = np.zeros(len(names), np.bool_)
    lines: dict[str, int] = {}
    for start in range(0, len(nodes), _CHUNK):
        piece = slice(start, start + _CHUNK)
        stacks = _unroll(capture, nodes[piece], names, nothing)[0]
        for stack, which, weight in zip(stacks, process[piece].tolist(), weights[piece].tolist(), strict=True):
            line = ";".join(filter(None, (processes[which], stack))) or NO_CALLCHAIN
            lines[line] = lines.get(line, 0) + weight
    for line, weight in sorted(lines.items()):
        stream.write(f"{line} {weight}\n")


def find_event(capture: Capture, name: str | None) -> int:
    """Index of the event called `name`, of the first event for None; UsageError names the events there are."""
    recorded = [event.name for event in capture.events]
    if name is None:
        if recorded:
            return 0
        raise _nothing_sampled(capture)
    short = [entry.split("/")[0].split(":")[0] for entry in recorded]
    for candidates in (recorded, short):
        if name in candidates:
            return candidates.index(name)
    raise UsageError(f"There is no event {name!r}.", f"The recording has: {', '.join(recorded)}.", "event")


def _nothing_sampled(capture: Capture) -> UsageError:
    """Why there is nothing to fold: a trace has ranges and calls, anything else should have had samples."""
    if capture.activity is None and not len(capture.ranges):
        return UsageError("The recording has no events.", "Record it again with `pinprof record`.", "event")
    return UsageError(
        "The recording is a trace: it has ranges, CUDA calls or GPU work, but no samples.",
        "Use --format trace, csv or json, or also record samples with `pinprof record`.",
        "no-samples",
    )


def _folded_names(frames: FrameTable) -> list[str]:
    """Per frame its name as a folded line spells it, with one more entry for the missing callchain."""
    kernel = (frames.mode == KERNEL).tolist()
    names = [
        plain(symbol) + ("_[k]" if in_kernel else "") for symbol, in_kernel in zip(frames.symbol, kernel, strict=True)
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
    spelled = np.array(names, object)[rows].tolist()
    texts = [";".join(row[-length:]) for row, length in zip(spelled, np.maximum(depth, 1).tolist(), strict=True)]
    return texts, np.any(marked[rows], axis=1).tolist()
