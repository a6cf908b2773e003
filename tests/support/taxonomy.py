"""Rows of the taxonomy that cannot work: nothing leads to them, or two of them claim the same function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from pinprof.analyze.attribution.row import Category, Role, Scope
from pinprof.analyze.attribution.tables import Claim, RuleTables, claims_of, derived, ranks_of

_TOKEN = re.compile(r"(\\.|\[[^]]*\]|.)(\*|\+|\{(\d+)[^}]*\})?")
_OPTIONAL = re.compile(r"(\\.|[\w.])\?")
_STANDS_FOR = {r"\w": "x", r"\S": "x", r"\d": "0", ".": "x", "$": ""}
_SCOPES = {"S": ("k", "nv", "uv"), "O": ("uv",), "G": ("k", "nv", "uv"), "D": ("k", "nv", "uv"), "W": ("k", "nv", "uv")}


class TaxonomyError(Exception):
    """A row of the taxonomy that cannot work; the message names it."""


def tables(rows: tuple[Category, ...]) -> RuleTables:
    """Derive everything from the rows; TaxonomyError for the first row that cannot work."""
    _refuse(rows, claims_of(rows, ranks_of(rows)))
    return derived(rows)


def _refuse(rows: Sequence[Category], claims: Mapping[tuple[str, Scope], Sequence[Claim]]) -> None:
    names = [row.name for row in rows]
    contexts = [row.context for row in rows if row.opens or row.takes]
    for what, values in (("rows are named", names), ("rows open context", contexts)):
        for value in values:
            if values.count(value) > 1:
                raise TaxonomyError(f"Two {what} {value!r}.")
    for role in get_args(Role):
        having = [row.name for row in rows if row.role == role]
        if role and len(having) != 1:
            raise TaxonomyError(f"Role {role!r} needs exactly one row, it has {', '.join(having) or 'none'}.")
    for row in rows:
        if reason := _unreachable(row, set(names), set(contexts)):
            raise TaxonomyError(f"Nothing leads to {row.name} (tier {row.tier}): {reason}.")
    _refuse_equals(rows, claims)
    for (contest, scope), entries in claims.items():
        for claim in entries:
            _refuse_rivals(claim, entries, f"{contest}, scope {scope}")


def _refuse_equals(rows: Sequence[Category], claims: Mapping[tuple[str, Scope], Sequence[Claim]]) -> None:
    """Two claims of one strength, or of less than a module's function has anyway."""
    owner: dict[tuple[str, int], str] = {}
    least = next(row for row in rows if row.role == "nvidia")
    ranked = [(contest, claim.strength, claim.row) for (contest, _), entries in claims.items() for claim in entries]
    ranked += [(row.tier, row.strength, row) for row in rows if row.role]
    for contest, strength, row in ranked:
        if strength is not None and (other := owner.setdefault((contest, strength), row.name)) != row.name:
            raise TaxonomyError(f"{row.name} and {other} have the same strength ({strength} in {contest}).")
    for claim in claims.get(("D", "nv"), ()):
        if (claim.strength or 0) < (least.strength or 0):
            raise TaxonomyError(f"{claim.row.name} (tier D) is weaker than {least.name}: its frames have no effect.")


def _refuse_rivals(claim: Claim, entries: Sequence[Claim], where: str) -> None:
    """Another row that matches what this one names, unless it is weaker: then its pattern is the more general one."""
    rivals = [
        other
        for other in entries
        if other.row is not claim.row and (other.strength is None or other.strength >= (claim.strength or 0))
    ]
    for name in {name for frames in claim.frames if rivals for name in examples(frames.pattern)}:
        for rival in rivals:
            if rival.matches(name):
                raise TaxonomyError(f"{claim.row.name} and {rival.row.name} both claim {name!r} ({where}).")


def _unreachable(row: Category, names: set[str], contexts: set[str]) -> str:
    """Why no sample can get this leaf; empty if one can."""
    needs = [name for name in (row.near_libcuda, *(frames.inside for frames in row.frames)) if name]
    needs += [row.takes_from] if row.takes_from else []
    if not names.issuperset(needs):
        return f"there is no row {', '.join(sorted(set(needs) - names))}"
    if row.takes_from and (row.tier != "G" or not row.shown_by):
        return "only a row of tier G, with frames that show it, takes faults from another"
    if row.tier == "G":
        asked = {name for name in (row.context, row.takes, row.also_in, row.kinds_of) if name}
        if not row.context or asked - contexts:
            return f"no row opens context {', '.join(sorted(asked - contexts)) or 'of no name'}"
        if not (row.opens or row.takes) and not ((row.frames or row.kinds_of) and row.strength is not None):
            return "inside its context it needs frames and a strength, or it opens the context itself"
        return ""
    if not (row.frames or row.role or row.near_libcuda):
        return "it has neither frames nor a role"
    wrong = {frames.scope for frames in row.frames} - set(_SCOPES.get(row.tier, ("fn", "so")))
    if wrong:
        return f"its tier has no frames in scope {', '.join(sorted(wrong))}"
    if row.tier in "DW" and row.strength is None and any(frames.strength is None for frames in row.frames):
        return "without a strength, its frames have no effect"
    return ""


def examples(pattern: str) -> Iterator[str]:
    """One name for each way through the groups and alternatives of a pattern of names."""
    pattern = _OPTIONAL.sub(r"(\1)?", pattern)
    depth, start = 0, 0
    for at, char in enumerate(pattern):
        depth += (char == "(") - (char == ")")
        if char == "|" and not depth:
            yield from examples(pattern[start:at])
            start = at + 1
    rest = pattern[start:]
    opening = rest.find("(")
    if opening < 0:
        yield _plain(rest)
        return
    closing, depth = opening, 1
    while depth:
        closing += 1
        depth += (rest[closing] == "(") - (rest[closing] == ")")
    inner, after = rest[opening + 1 : closing], rest[closing + 1 :]
    for choice in (*examples(inner), *([""] if after.startswith("?") else [])):
        yield from examples(rest[:opening] + choice + after.removeprefix("?"))


def _plain(alternative: str) -> str:
    """The shortest name that an alternative without groups matches."""
    name = ""
    for token, quantifier, least in _TOKEN.findall(alternative):
        char = _STANDS_FOR.get(token, token[-1] if token.startswith("\\") else token[1] if token[0] == "[" else token)
        name += "" if quantifier == "*" else char * int(least or 1)
    return name
