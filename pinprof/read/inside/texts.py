"""What records of the agent say in text: who makes a call, paths of mappings, and the sampler's modules and code."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pinprof.read.inside.layout import RECORD, Kind

_LONGEST_TEXT = 1 << 13
SAMPLED = (Kind.MODULE, Kind.CODE, Kind.CHAIN)
"""Records of the sampler that are nothing but what they say."""
_TEXTS = (Kind.SITE, Kind.MAPPED, Kind.UNMAPPED, Kind.NAMED, *SAMPLED)
"""Records that say in the next units what they are about."""


class PythonFrame(NamedTuple):
    """A function of Python, and the line in it."""

    function: str
    file: str
    line: int


class NativeFrame(NamedTuple):
    """A return address, by its place in a file; an address where no file holds it."""

    file: str
    place: int


class AgentSite(NamedTuple):
    """Who makes a call, innermost first."""

    python: tuple[PythonFrame, ...]
    """Up to the first function of the program's own code."""
    native: tuple[NativeFrame, ...]


class Texts(NamedTuple):
    """What records say."""

    sites: list[tuple[int, AgentSite]]
    """By number."""
    paths: list[str]


def without_texts(
    units: NDArray[np.void], before: int, told: dict[Kind, list[tuple[np.void, bytes]]]
) -> tuple[NDArray[np.void], Texts]:
    """The records, mappings with the number of their path, counted from `before`, as `site`; and what texts say, which
    lie in place of records behind those of sites and mappings. What the sampler says is added to `told`.
    """
    text = np.zeros(len(units), np.bool_)
    texts = Texts([], [])
    units = units.copy()
    for at in np.flatnonzero(np.isin(units["kind"], _TEXTS)).tolist():
        length = int(units["bytes"][at])
        if text[at] or length > _LONGEST_TEXT:
            text[at] = True
            continue  # bytes of a text, or damage
        size = -(-length // RECORD.itemsize)
        text[at + 1 : at + 1 + size] = True
        raw = units[at + 1 : at + 1 + size].tobytes()[:length]
        if (kind := int(units["kind"][at])) in told:
            text[at] = True
            told[Kind(kind)].append((units[at], raw))
            continue
        said = raw.decode("utf-8", "replace")
        if kind == Kind.SITE:
            text[at] = True
            texts.sites.append((int(units["site"][at]), _site(said)))
        else:
            units["site"][at] = before + len(texts.paths)
            texts.paths.append(said)
    return units[~text], texts


def _site(text: str) -> AgentSite:
    """A site by its text; what is cut off is left out."""
    frames = [*map(_frame, text.split("\n")[:-1])]
    return AgentSite(
        tuple([frame for frame in frames if isinstance(frame, PythonFrame)]),
        tuple([frame for frame in frames if isinstance(frame, NativeFrame)]),
    )


@lru_cache(1 << 14)
def _frame(line: str) -> PythonFrame | NativeFrame | None:
    """The frame in a line of a site's text, of which each is in many; None for damage."""
    fields = line.split("\t")
    with suppress(ValueError):
        if fields[0] == "P" and len(fields) == 4:
            return PythonFrame(fields[2], fields[3], min(max(int(fields[1]), 0), 2**31 - 1))
        if fields[0] == "N" and len(fields) == 3:
            return NativeFrame(fields[2], min(max(int(fields[1], 16), 0), 2**63))
    return None
