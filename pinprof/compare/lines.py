"""Lines of one source file on both sides: an edit above a line moves it, and it is still the same line."""

from __future__ import annotations

from collections.abc import Mapping

from pinprof.base.lazy_dataclass import dataclass

Place = tuple[str, str, int]
"""File, function and line."""


@dataclass(frozen=True)
class Moves:
    """By how much the lines of each function have moved from before to after."""

    shifts: Mapping[tuple[str, str], int]
    """(file, function) → lines; functions that did not move are absent."""

    def before(self, place: Place) -> Place:
        """Where a line of the after side was before."""
        file, function, line = place
        return (file, function, line - self.shifts.get((file, function), 0)) if line else place


def moves(before: Mapping[Place, float], after: Mapping[Place, float]) -> Moves:
    """The shift of each function whose lines moved; both are lines with their weights, in one unit.

    An edit above a function moves all of its lines by as much. A program that takes another branch has other lines at
    another distance: then nothing has moved.
    """
    shifts = {}
    old, new = _by_function(before), _by_function(after)
    for function in old.keys() & new.keys():
        shift = _shift(old[function], new[function])
        if shift:
            shifts[function] = shift
    return Moves(shifts)


def _by_function(lines: Mapping[Place, float]) -> dict[tuple[str, str], dict[int, float]]:
    functions: dict[tuple[str, str], dict[int, float]] = {}
    for (file, function, line), weight in lines.items():
        if line:
            functions.setdefault((file, function), {})[line] = weight
    return functions


_MOST = 64
"""Lines of a function that are tried, the heaviest."""
_MOVED, _STAYED = 0.9, 0.5
"""A function has moved where this part of its time, on both sides, is on lines of one distance, and less than that part
on lines of the same numbers.
"""


_ALIKE = 0.5
"""A single line tells nothing by its distance: it is the same line where its time is about the same."""


def _shift(before: Mapping[int, float], after: Mapping[int, float]) -> int:
    heavy = [sorted(side, key=lambda line: -side[line])[:_MOST] for side in (before, after)]
    candidates = {new - old for old in heavy[0] for new in heavy[1]}

    def covered(shift: int) -> float:
        """The part of both sides' time on lines that the other side has, at the side with less of it."""
        old = sum(weight for line, weight in before.items() if line + shift in after)
        new = sum(weight for line, weight in after.items() if line - shift in before)
        return min(old / max(sum(before.values()), 1e-9), new / max(sum(after.values()), 1e-9))

    if (
        len(before) == len(after) == 1
        and not _ALIKE <= sum(before.values()) / max(sum(after.values()), 1e-9) <= 1 / _ALIKE
    ):
        return 0
    best = max(candidates, key=lambda shift: (covered(shift), -abs(shift), shift), default=0)
    return best if covered(best) >= _MOVED and covered(0) < _STAYED else 0
