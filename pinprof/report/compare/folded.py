"""Folded stacks with two counts, `root;…;leaf before after`: what FlameGraph's difffolded.pl writes of two such files.

A stack that one side lacks has 0 there. Lines stand in the order of their bytes; difffolded.pl has none. Counts are
whole numbers: weights per unit of work, rounded; those that round to 0 on both sides are left out.
"""

from __future__ import annotations

from typing import IO

from pinprof.base.errors import UsageError
from pinprof.compare.results import ComparedStacks
from pinprof.data.model import KERNEL, NO_NODE
from pinprof.report.export.flamegraph_style import plain

_KERNEL = "_[k]"


def write_folded(stacks: ComparedStacks, stream: IO[str]) -> None:
    """Write one event's stacks. A function is called as after, else as before; kernel functions end in `_[k]`."""
    frames = stacks.frames
    names = [
        plain(after or before) + (_KERNEL if mode == KERNEL else "")
        for before, after, mode in zip(frames.before, frames.after, frames.mode.tolist(), strict=True)
    ]
    texts: list[str] = []
    lines: dict[str, tuple[int, int]] = {}
    columns = (stacks.parent.tolist(), stacks.frame.tolist(), stacks.before.tolist(), stacks.after.tolist())
    for parent, frame, before, after in zip(*columns, strict=True):
        text = names[frame] if parent == NO_NODE else f"{texts[parent]};{names[frame]}"
        texts.append(text)
        old = lines.get(text, (0, 0))
        lines[text] = (old[0] + round(before), old[1] + round(after))
    for text, (before, after) in sorted(lines.items()):
        if before or after:
            stream.write(f"{text} {before} {after}\n")


def chosen(stacks: tuple[ComparedStacks, ...], event: str | None) -> ComparedStacks:
    """The stacks of one event, the first for None; UsageError names those that both sides have."""
    if not stacks:
        raise UsageError("The two sides have no sampled event in common.", "Use --format text or json.", "no-samples")
    names = [one.event for one in stacks]
    if event is None:
        return stacks[0]
    if event not in names:
        raise UsageError(f"There is no event {event!r}.", f"Events on both sides: {', '.join(names)}.", "event")
    return stacks[names.index(event)]
