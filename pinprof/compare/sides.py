"""The recordings of a side, and what cannot be compared: said before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from pinprof.base.errors import CaptureError, UsageError, readable
from pinprof.compare.results import Side
from pinprof.compare.runs import ComparedRun
from pinprof.compare.stacks import INTERPRETER
from pinprof.streams.store import MANIFEST, PARTIAL, SUFFIX

_NOT_RECORDINGS = (".html", ".md", ".png", ".svg", ".log", ".c", ".cu", ".cpp", ".py", ".rs", ".go", ".sh")
_RANK = re.compile(r"rank-\d+\.pinprof")
_ALIKE = 0.5
"""Programs of two names are one, where as many of their own functions have the same names."""


def recordings_of(given: Sequence[Path]) -> list[Path]:
    """The recordings of one side: those that were named, and those in folders of repeated captures, by their names.

    CaptureError for a folder that holds none, and for one of ranks: they are one run together.
    """
    return [path for one in given for path in _expanded(one)]


def _expanded(path: Path) -> list[Path]:
    if not path.is_dir() or (path / MANIFEST).is_file() or path.name.endswith((SUFFIX, PARTIAL)):
        return [path]
    with readable(path):
        entries = sorted(path.iterdir())
    if any(_RANK.fullmatch(entry.name) for entry in entries):
        raise UsageError(
            f"{path} holds the ranks of one launch, which are not repeated runs.",
            "Compare rank by rank: give the capture of one rank from each launch.",
            "diff-ranks",
        )
    captures = [entry for entry in entries if entry.is_dir() and entry.name.endswith((SUFFIX, SUFFIX + PARTIAL))]
    files = [
        entry for entry in entries
        if entry.is_file() and not entry.name.startswith(".") and not entry.name.endswith(_NOT_RECORDINGS)
    ]  # fmt: skip
    if not captures and not files:
        raise CaptureError(
            f"{path} has no recordings.",
            "Give a capture, or a folder with the captures of one program.",
            "diff-empty",
        )
    return captures or files


def refuse_same_paths(before: Sequence[Path], after: Sequence[Path]) -> None:
    """UsageError where a recording is named twice."""
    seen: set[Path] = set()
    for path in (*before, *after):
        real = path.resolve()
        if real in seen:
            raise UsageError(
                f"{path} is listed twice.",
                "Give each recording once.",
                "diff-same",
            )
        seen.add(real)


def refuse_incomparable(
    before: Sequence[ComparedRun], after: Sequence[ComparedRun], *, any_program: bool = False
) -> None:
    """CaptureError where the sides cannot be compared; `any_program` lets different programs pass."""
    for run in (*before, *after):
        _refuse_unusable(run)
    refuse_copies((run.path, run.identity) for run in (*before, *after))
    _refuse_events(before, after)
    if not any_program:
        _refuse_programs(before, after)


def _refuse_unusable(run: ComparedRun) -> None:
    name = PurePath(run.path).name
    state = run.manifest.outcome.get("state")
    if state not in (None, "complete") or name.endswith(PARTIAL):
        raise CaptureError(
            f"{name} does not cover a whole run: its recording {'failed' if state == 'failed' else 'was interrupted'}.",
            "Record it again, and let the program finish.",
            "diff-interrupted",
        )
    if damage := next((gap.text for gap in run.gaps if gap.damaged), ""):
        raise CaptureError(
            f"{name} can't be compared. {damage}", "Copy it again, or record the program again.", "diff-damaged"
        )
    if not run.stacks and not run.figures:
        raise CaptureError(
            f"{name} is empty: it has no samples, ranges or calls.",
            "Record the program again. Run `pinprof doctor` to find the problem.",
            "diff-empty",
        )


def refuse_copies(recordings: Iterable[tuple[str, str]]) -> None:
    """UsageError where two of these (path, identity of the recording) are one recording."""
    seen: dict[str, str] = {}
    for path, identity in recordings:
        if identity in seen:
            raise UsageError(
                f"{path} and {seen[identity]} are the same recording.",
                "Give each recording once: a copy does not show how runs vary.",
                "diff-same",
            )
        seen[identity] = path


def _refuse_events(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> None:
    names = [set.intersection(*(set(run.stacks) for run in side)) for side in (before, after)]
    if any(any(run.stacks for run in side) for side in (before, after)) and not names[0] & names[1]:
        shared = {family for run in before for family, _ in run.figures} & {
            family for run in after for family, _ in run.figures
        }
        if all(names) or not shared & {"range", "call"}:
            old, new = (", ".join(sorted(side)) or "no event" for side in names)
            raise CaptureError(
                f"The sides sampled different events: {old} before, {new} after.",
                "Record both sides in the same way.",
                "diff-events",
            )


def _refuse_programs(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> None:
    remedy = "Give recordings of one program. If both programs do the same work, add --any-program."
    runs = (*before, *after)
    names = [sorted({name for run in side if (name := program(run))}) for side in (before, after)]
    everyone = list(dict.fromkeys((*names[0], *names[1])))
    own = [_functions([run for run in runs if program(run) == name], own=True) for name in everyone]
    if any(_alike(own[0], other) < _ALIKE for other in own[1:]):
        mixed = next((side for side in names if len(side) > 1), None)
        words = f"on one side are of different programs: {', '.join(mixed)}" if mixed else ""
        apart = f"are of different programs: {names[0][0]} before, {names[1][0]} after" if not mixed else ""
        raise CaptureError(f"The recordings {words or apart}.", remedy, "diff-programs")
    if not all(names) and all(run.stacks for run in runs) and not _functions(before) & _functions(after):
        problem = "The two sides have no functions in common, so they are recordings of different programs."
        raise CaptureError(problem, remedy, "diff-programs")


def _functions(runs: Sequence[ComparedRun], *, own: bool = False) -> set[str]:
    return {key for run in runs for stacks in run.stacks.values() for key in stacks.functions(own)}


def _alike(one: set[str], other: set[str]) -> float:
    """The part of the functions of the program with fewer that both have."""
    return len(one & other) / max(min(len(one), len(other)), 1)


def program(run: ComparedRun) -> str:
    """What was recorded: the scenario, the script of an interpreter, or the program's file; empty if not known."""
    scenario = run.manifest.scenario.get("name")
    if scenario:
        return f"scenario {scenario}"
    command = [part for part in run.manifest.command if part]
    if not command:
        return ""
    name = PurePath(command[0]).name
    if not INTERPRETER.fullmatch(name):
        return name
    for at, part in enumerate(command[1:], 1):
        if part == "-m" and at + 1 < len(command):
            return f"{command[at + 1]} ({name.rstrip('0123456789.t') or name})"
        if part == "-c":
            break
        if not part.startswith("-"):
            return PurePath(part).name
    return name


def side_of(name: str, runs: Sequence[ComparedRun], units: Sequence[float]) -> Side:
    """The side as results tell it."""
    return Side(
        name=name,
        paths=tuple(run.path for run in runs),
        command=tuple(runs[0].manifest.command),
        units=tuple(units),
        duration_ns=tuple(int(run.manifest.outcome.get("duration_ns") or 0) for run in runs),
    )
