"""Costs that a library's documented option answers: the option becomes their cure, and what one option answers is one.

Evidence that the option answers a cost is that most of it was sampled under the library's functions that it concerns.
Where it stands in another place than they are called from, such as a data loader's, the program shows whether it uses
the library, and whether the option is set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pinprof.analyze.lines import NOTHING
from pinprof.analyze.opportunities.candidate import Candidate, total
from pinprof.analyze.opportunities.knobs import Functions, Knob, options
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import ascending, distinct
from pinprof.base.units import format_ns, format_share
from pinprof.data.model import Bool, Int64
from pinprof.data.own_code import library_part

MOST = 0.5
"""The share of a cost that was sampled under a library's functions: less, and their option is not its cure."""
APART_NS = 5_000_000
"""A function that is not seen for this time, while the thread is elsewhere, starts anew."""


def with_options(scene: Scene, candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates with options as cures; those of one phase that one option answers are one."""
    matching = _Matching(scene)
    others: list[Candidate] = []
    alike: dict[tuple[str, str, str], list[Candidate]] = {}
    for candidate in candidates:
        knob = matching.answering(candidate)
        if knob is None:
            others.append(candidate)
            continue
        key = (knob.name, candidate.phase, "" if knob.once else candidate.site.place)
        alike.setdefault(key, []).append(matching.answered(candidate, knob))
    return [*others, *(_as_one(scene, group) for group in alike.values())]


class _Matching:
    """The table against one run; what it has on its stacks is looked up once."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._under: dict[Functions, Bool] = {}
        self._there: dict[Functions, bool] = {}

    def answering(self, candidate: Candidate) -> Knob | None:
        """The first row that answers most of a candidate's cost; None where there is none."""
        return next((knob for knob in options() if self._answers(knob, candidate)), None)

    def _answers(self, knob: Knob, candidate: Candidate) -> bool:
        if candidate.cure.id not in knob.answers:
            return False
        if knob.present and not any(map(self._seen, knob.present)):
            return False
        if any(map(self._seen, knob.absent)):
            return False
        if not knob.frames:
            return True
        rows = candidate.rows
        under = rows[self._inside(knob)[rows]]
        if self._scene.ns(under) < MOST * max(self._scene.ns(rows), 1) and not (knob.line and self._beside(knob, rows)):
            return False
        return not knob.starts or self._starts(under) >= knob.starts

    def _beside(self, knob: Knob, rows: Int64) -> bool:
        """Whether the line of these wall rows also calls a function of the row."""
        place = self._scene.place_of(rows)
        return place != NOTHING and bool((self._inside(knob) & (self._scene.place == place)).any())

    def answered(self, candidate: Candidate, knob: Knob) -> Candidate:
        """The candidate with the option as its cure, and what shows that it is."""
        cure = replace(
            candidate.cure,
            text=knob.text or candidate.cure.text,
            code=knob.code,
            environment=knob.environment,
            option=knob.option,
        )
        return replace(candidate, cure=cure, evidence=(*candidate.evidence, *self._proof(candidate, knob)))

    def _proof(self, candidate: Candidate, knob: Knob) -> Iterable[Evidence]:
        what = f"`{knob.option}`" if knob.option else "What to write"
        documented = f"{what} is documented ({knob.versions}): {knob.source}"
        rows = candidate.rows[self._inside(knob)[candidate.rows]] if knob.frames else candidate.rows[:0]
        if not len(rows):
            return (Evidence(documented),)
        scene = self._scene
        frame = self._innermost(knob, rows)
        frames = scene.capture.stacks.frames
        path = library_part(frames.source_of(frame)) or frames.dsos[int(frames.dso[frame])].name
        share = format_share(scene.ns(rows), max(scene.ns(candidate.rows), 1))
        inside = f"{frames.function[frame]} ({path}), which this line calls, takes {share} of it."
        return Evidence(inside), Evidence(documented)

    def _inside(self, knob: Knob) -> Bool:
        """Per wall row, whether it lies under a function of the row."""
        marks = [self._rows_under(functions) for functions in knob.frames]
        return np.asarray(np.logical_or.reduce(marks))

    def _rows_under(self, functions: Functions) -> Bool:
        if functions not in self._under:
            self._under[functions] = self._scene.under(functions)
        return self._under[functions]

    def _seen(self, functions: Functions) -> bool:
        """Whether the program has one of these functions on a stack."""
        if functions not in self._there:
            stacks = self._scene.capture.stacks
            frames = functions.among(stacks.frames)
            self._there[functions] = bool(frames[ascending(stacks.frame)].any())
        return self._there[functions]

    def _innermost(self, knob: Knob, rows: Int64) -> int:
        """The function of the row that most of these wall rows lie in, the innermost of each stack."""
        stacks, ns = self._scene.capture.stacks, self._scene.course.wall.ns
        wanted = np.logical_or.reduce([functions.among(stacks.frames) for functions in knob.frames])
        sums: dict[int, int] = {}
        for node in ascending(self._scene.node[rows]).tolist():
            found = next(frame for one in stacks.chain(node) if wanted[frame := int(stacks.frame[one])])
            sums[found] = sums.get(found, 0) + int(ns[rows[self._scene.node[rows] == node]].sum())
        return max(sums, key=lambda frame: sums[frame])

    def _starts(self, rows: Int64) -> int:
        """How often the thread of these wall rows came to them from elsewhere."""
        scene = self._scene
        times, ns = scene.course.wall.time_ns[rows], scene.course.wall.ns[rows]
        order = np.argsort(times, kind="stable")
        gaps = times[order][1:] - (times + ns)[order][:-1]
        return int((gaps > APART_NS).sum()) + 1


def _as_one(scene: Scene, group: list[Candidate]) -> Candidate:
    """Candidates that one option answers: the heaviest, with what the others cost besides."""
    first, *others = sorted(group, key=lambda one: -one.saving.likely_ns)
    own = next((one.site for one in (first, *others) if scene.is_own(one.site)), first.site)
    first = replace(first, site=own, title=first.title.replace(first.site.place, own.place, 1))
    for other in others:
        new = other.rows[~np.isin(other.rows, first.rows)]
        share = scene.ns(new) / max(scene.ns(other.rows), 1)
        cost = round(share * other.cost_ns)
        remains = total([first.remains, other.remains.times(share)])
        assert remains is not None
        too = f"{other.title} It costs {format_ns(cost)} more, and the same option answers it."
        first = replace(
            first,
            rows=distinct(first.rows, new),
            cost_ns=first.cost_ns + cost,
            remains=remains,
            evidence=tuple(dict.fromkeys((*first.evidence, Evidence(too)))),
            unknown=first.unknown and other.unknown,
        )
    return first
