"""From the taxonomy's rows to what the machine reads: claims, ranks and contexts, derived from the rows alone.

A test refuses rows that cannot work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.attribution.row import Category, Frames, Role, Scope
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int16

NONE = -1

Matcher = Callable[[str], re.Match[str] | None]


@dataclass(frozen=True)
class Claim:
    """What one row claims in one contest and scope."""

    row: Category
    leaf: int
    rank: int
    """Among the contest's claims, from the weakest; only in contests that strength decides (D, W, kinds)."""
    strength: int | None
    frames: tuple[Frames, ...]
    matches: Matcher


@dataclass(frozen=True)
class Detour:
    """A context that opens as another one, or not at all (0), depending on the frames that it lies beneath."""

    opened: int
    becomes: int
    beneath: int
    """Bit of the frames that it must lie beneath."""
    not_beneath: int
    """Bit of the frames that it must not lie beneath; 0 for none."""


@dataclass(frozen=True, eq=False)
class RuleTables:
    """All that the machine knows of the rows. Leaves are indices of rows, ranks dense from the weakest claim (0) on."""

    rows: tuple[Category, ...]
    leaf: Mapping[str, int]
    role: Mapping[Role, int]
    """Leaf of each role."""
    rank: Mapping[Role, int]
    """Rank of each role's row in its tier, where that has ranks."""
    claims: Mapping[tuple[str, Scope], Sequence[Claim]]
    """By (contest, scope), in the order of the rows. A contest is a tier, `opens`, `kind CONTEXT` or `U ROW`."""
    remainder_leaf: Int16
    """Tier D: rank → leaf."""
    wait_leaf: Int16
    """Tier W: rank → leaf."""
    system_call_waits: tuple[int, ...]
    """Ranks of waits by a thread's own system call."""
    context: Mapping[str, int]
    """Context → state, from 1 on."""
    context_leaf: Int16
    """Leaf by (context, rank of the kind + 1): the whole of tier G's outcome."""
    beneath: Mapping[tuple[Frames, ...], int]
    """Frames that detours ask for → bit."""
    detours: tuple[Detour, ...]
    """In the order of their rows: the first that applies counts."""
    shown_by: Mapping[tuple[Frames, ...], int]
    """Frames that show of which row a fault is → bit."""
    near_libcuda: Int16
    """Tier U: leaf → leaf near libcuda."""

    def taken(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """Leaf whose faults other rows may have → (leaf, bit of what shows it) of these and of itself."""
        having = [(number, row) for number, row in enumerate(self.rows) if row.shown_by]
        return {
            self.leaf[name]: tuple(
                (number, self.shown_by[row.shown_by]) for number, row in having if name in (row.name, row.takes_from)
            )
            for name in dict.fromkeys(row.takes_from for _, row in having if row.takes_from)
        }


def matcher(frames: Sequence[Frames], scope: Scope) -> Matcher | None:
    """What matches names of a scope against these frames, compiled at the first name; None where none are of it."""
    patterns = [entry.pattern for entry in frames if entry.scope == scope]
    if not patterns:
        return None

    @cache
    def matches() -> Matcher:
        compiled = re.compile("|".join(patterns))
        return compiled.match if scope == "so" else compiled.fullmatch

    return lambda name: matches()(name)


def derived(rows: tuple[Category, ...]) -> RuleTables:
    """The tables of rows that can work."""
    leaf = {row.name: number for number, row in enumerate(rows)}
    ranks = ranks_of(rows)
    claims = claims_of(rows, ranks)
    openers = [row for row in rows if row.opens or row.takes]
    context = {row.context: code for code, row in enumerate(openers, 1)}
    kinds = {name: ranks.get(f"kind {name}", []) for name in context}
    context_leaf = np.full((len(context) + 1, 1 + max(map(len, kinds.values()))), NONE, np.int16)
    for row in openers:
        context_leaf[context[row.context]] = leaf[row.name]
    for (contest, _), entries in claims.items():
        for claim in entries if contest.startswith("kind ") else ():
            context_leaf[context[contest.removeprefix("kind ")], claim.rank + 1] = claim.leaf
    beneath, detours = _detours(openers, context)
    near = np.arange(len(rows), dtype=np.int16)
    for row in rows:
        if row.near_libcuda:
            near[leaf[row.near_libcuda]] = leaf[row.name]
    return RuleTables(
        rows=rows,
        leaf=leaf,
        role={row.role: leaf[row.name] for row in rows if row.role},
        rank={row.role: ranks[row.tier].index(row.strength) for row in rows if row.role and row.strength is not None},
        claims=claims,
        remainder_leaf=_leaf_of_rank(rows, "D", ranks["D"]),
        wait_leaf=_leaf_of_rank(rows, "W", ranks["W"]),
        system_call_waits=tuple(
            ranks["W"].index(row.strength) for row in rows if row.by_system_call and row.strength is not None
        ),
        context=context,
        context_leaf=context_leaf,
        beneath=beneath,
        detours=detours,
        shown_by={row.shown_by: 1 << bit for bit, row in enumerate(row for row in rows if row.shown_by)},
        near_libcuda=near,
    )


def _contests(row: Category, frames: Frames) -> tuple[str, ...]:
    """What these frames of a row are claims in."""
    if row.tier == "G":
        return tuple(f"kind {name}" for name in (row.context, row.also_in) if name)
    return (f"U {frames.inside}".rstrip(),) if row.tier == "U" else (row.tier,)


def ranks_of(rows: tuple[Category, ...]) -> dict[str, list[int]]:
    """The strengths of each contest, ascending: their positions are the ranks."""
    ranks: dict[str, set[int]] = {}
    for row in rows:
        for frames in (*row.frames, Frames("k", "")):
            strength = row.strength if frames.strength is None else frames.strength
            if strength is not None:
                for contest in _contests(row, frames):
                    ranks.setdefault(contest, set()).add(strength)
    return {contest: sorted(strengths) for contest, strengths in ranks.items()}


def claims_of(rows: tuple[Category, ...], ranks: Mapping[str, list[int]]) -> dict[tuple[str, Scope], list[Claim]]:
    """What rows claim, by contest and scope, in the order of the rows."""
    claims: dict[tuple[str, Scope], list[Claim]] = {}
    for number, row in enumerate(rows):
        groups: dict[tuple[str, Scope, int | None], list[Frames]] = {}
        matched_by = row.frames
        if row.kinds_of:
            matched_by = tuple(frames for other in rows if other.context == row.kinds_of for frames in other.frames)
        for frames in matched_by:
            strength = row.strength if frames.strength is None else frames.strength
            for contest in _contests(row, frames):
                groups.setdefault((contest, frames.scope, strength), []).append(frames)
        for frames in row.opens:
            groups.setdefault(("opens", frames.scope, None), []).append(frames)
        for (contest, scope, strength), group in groups.items():
            matches = matcher(group, scope)
            rank = NONE if strength is None else ranks[contest].index(strength)
            if matches:
                entry = Claim(row, number, rank, strength, tuple(group), matches)
                claims.setdefault((contest, scope), []).append(entry)
    return claims


def _leaf_of_rank(rows: tuple[Category, ...], tier: str, ranks: list[int]) -> Int16:
    leaf = np.full(len(ranks), NONE, np.int16)
    for number, row in enumerate(rows):
        for strength in {row.strength, *(frames.strength for frames in row.frames)} - {None}:
            if row.tier == tier and strength is not None:
                leaf[ranks.index(strength)] = number
    return leaf


def _detours(
    openers: Sequence[Category], context: Mapping[str, int]
) -> tuple[dict[tuple[Frames, ...], int], tuple[Detour, ...]]:
    bits: dict[tuple[Frames, ...], int] = {}

    def bit(frames: tuple[Frames, ...]) -> int:
        return bits.setdefault(frames, 1 << len(bits)) if frames else 0

    detours = []
    for row in openers:
        own = context[row.context]
        if row.takes:
            detours.append(Detour(context[row.takes], own, bit(row.beneath or row.opens), bit(row.not_beneath)))
        elif row.not_beneath:
            detours.append(Detour(own, 0, bit(row.not_beneath), 0))
    return bits, tuple(detours)


TABLES = derived(CATEGORIES)
