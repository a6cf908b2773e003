"""Why samples have a cause: the top stacks of one leaf and the frame that decided (`pinprof report --explain LEAF`)."""

from __future__ import annotations

import difflib

import numpy as np
from rich.text import Text

from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.attribution.row import Category
from pinprof.analyze.run import Run
from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_count, format_share, format_weight
from pinprof.data.model import KERNEL, NO_NODE, Event, Frame, Int32, StackTable
from pinprof.report.joined_frames import with_frames_joined
from pinprof.report.names import printable
from pinprof.report.terminal.layout import console_of, tidy

TIERS = {
    "S": "the innermost of these frames decides, whatever encloses it",
    "O": "the outermost of these [nvidia_uvm] frames decides",
    "G": "the nearest enclosing memory-management context decides, together with the frames inside it",
    "D": "no stronger rule applies; the strongest of these frames decides",
    "W": "off the CPU; the strongest of these frames decides",
    "U": "no kernel frame; the innermost function's file and name decide",
}

TOP_STACKS, TOP_FRAMES, USER_FRAMES = 8, 8, 6


@dataclass(frozen=True)
class Step:
    """One frame of an explained stack."""

    frame: Frame
    decided: bool


@dataclass(frozen=True)
class ExplainedStack:
    """One stack, innermost frame first."""

    weight: int
    samples: int
    steps: tuple[Step, ...]
    heuristic: bool


@dataclass(frozen=True)
class Explanation:
    """One leaf of one event, explained; `str()` is what the terminal prints."""

    category: Category
    event: Event
    weight: int
    total: int
    deciding: tuple[tuple[str, int], ...]
    """Functions that decided, heaviest first, with their weight."""
    stacks: tuple[ExplainedStack, ...]
    """Heaviest first."""
    heuristic: int
    """Weight that the hot-loop rule gave, without a deciding frame."""

    def __str__(self) -> str:
        category = self.category
        lines = [
            f"{category.name} · {category.meaning}",
            f"Remedy: {category.remedy}",
            f"Rule: tier {category.tier}, {TIERS[category.tier]}"
            + (f"; context “{category.context}”." if category.context else "."),
            f"Event {self.event.name}: {self._of(self.weight)}.",
        ]
        if self.heuristic:
            lines.append(
                f"The hot-loop rule decided {self._of(self.heuristic)} of it (a heuristic: no frame name proves it)."
            )
        if self.deciding:
            lines += ["", "Decided by:"]
            lines += [f"  {self._of(weight):>24}  {name}" for name, weight in self.deciding]
        for stack in self.stacks:
            mark = ", heuristic" if stack.heuristic else ""
            lines += ["", f"{self._of(stack.weight)}, {format_count(stack.samples)} samples{mark}, innermost first:"]
            lines += [_line(step) for step in _visible(stack.steps)]
            hidden = len(stack.steps) - len(_visible(stack.steps))
            if hidden:
                lines.append(f"      … {hidden} more callers")
        if not self.weight:
            lines += ["", "This recording has no samples with this cause."]
        return "\n".join(lines)

    def _of(self, weight: int) -> str:
        return f"{format_share(weight, self.total)} ({format_weight(weight, self.event.unit)})"


def explain(analysis: Run, leaf: str, top: int = TOP_STACKS, *, all_frames: bool = False) -> Explanation:
    """The heaviest stacks of a leaf, in the main event if it has any there; UsageError for an unknown leaf."""
    if leaf not in LEAF:
        of_level = [name for name in LEAF if name.startswith(f"{leaf.rstrip('.*')}.")]
        if of_level:
            raise UsageError(f"{leaf!r} is a group of causes.", f"Choose one of {', '.join(of_level)}.", "explain")
        near = difflib.get_close_matches(leaf, LEAF, 3, 0.6)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`pinprof explain` lists all causes."
        raise UsageError(f"There is no cause {leaf!r}.", hint, "explain")
    shown, attribution = with_frames_joined(analysis.capture, all_frames=all_frames), analysis.attribution
    samples, stacks, decider = shown.capture.samples, shown.capture.stacks, shown.carried(attribution.decided)
    main = analysis.main
    candidates = [result for result in analysis.events if leaf in result.by_leaf]
    result = main if main in candidates or not candidates else candidates[0]
    if result is None:
        raise UsageError(
            "The recording has no samples to explain.", "Record again while the program is working.", "explain"
        )
    event = next(number for number, other in enumerate(analysis.events) if other is result)
    rows = np.flatnonzero((attribution.leaf == LEAF[leaf]) & (samples.event == event))
    node, inverse = np.unique(samples.stack[rows], return_inverse=True)
    inverse = inverse.reshape(-1)
    weight = np.zeros(len(node), np.int64)
    np.add.at(weight, inverse, samples.weight[rows])
    count = np.bincount(inverse, minlength=len(node))
    heuristic = np.zeros(len(node), np.int64)
    np.add.at(heuristic, inverse[attribution.heuristic[rows]], 1)

    deciding: dict[str, int] = {}
    for own, amount, guessed in zip(node.tolist(), weight.tolist(), heuristic.tolist(), strict=True):
        decided = NO_NODE if own == NO_NODE or guessed else int(decider[own])
        if decided != NO_NODE:
            name = _name(stacks.frames[int(stacks.frame[decided])])
            deciding[name] = deciding.get(name, 0) + amount
    heaviest = np.argsort(-weight, kind="stable")[:top].tolist()
    return Explanation(
        category=CATEGORIES[LEAF[leaf]],
        event=result.event,
        weight=result.by_leaf.get(leaf, 0),
        total=result.total,
        deciding=tuple(sorted(deciding.items(), key=lambda item: (-item[1], item[0]))[:TOP_FRAMES]),
        stacks=tuple(
            ExplainedStack(
                weight=int(weight[rank]),
                samples=int(count[rank]),
                steps=_steps(stacks, decider, int(node[rank]), bool(heuristic[rank])),
                heuristic=bool(heuristic[rank]),
            )
            for rank in heaviest
        ),
        heuristic=int(samples.weight[rows][attribution.heuristic[rows]].sum()),
    )


def _steps(stacks: StackTable, decider: Int32, node: int, heuristic: bool) -> tuple[Step, ...]:
    decided = NO_NODE if heuristic or node == NO_NODE else int(decider[node])
    return tuple(Step(stacks.frames[int(stacks.frame[step])], step == decided) for step in stacks.chain(node))


def _visible(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    kernel = sum(1 for step in steps if step.frame.mode == KERNEL)
    decided = next((number + 1 for number, step in enumerate(steps) if step.decided), 0)
    return steps[: max(kernel, decided) + USER_FRAMES]


def _line(step: Step) -> str:
    return f"    {'▶' if step.decided else ' '} {_name(step.frame)}"


def _name(frame: Frame) -> str:
    return frame.symbol if frame.dso.kind == "kernel" else f"{frame.symbol} [{frame.dso.name.strip('[]')}]"


def print_explanation(explanation: Explanation) -> None:
    """Print the top stacks of one leaf, innermost function first, with the frame that decided marked."""
    console = console_of()
    with tidy(console):
        console.print(Text("\n".join(printable(line) for line in str(explanation).split("\n"))), soft_wrap=True)
