"""What `pinprof fix` returns: every change with its proof, and each opportunity that it leaves alone with why."""

from __future__ import annotations

from typing import Literal

from pinprof.base.lazy_dataclass import dataclass
from pinprof.trial.result import CureResult, TrialResult

Verdict = Literal["keep", "no gain", "changes results", "does not run", "not measured", "alternative"]


@dataclass(frozen=True)
class FixedChange:
    """One change of code, measured in a copy of the work tree."""

    verdict: Verdict
    transformation: str
    """Its id in the table of transformations."""
    place: str
    """`FILE:LINE` below the work tree's top; `FILE` where lines at its top set how memory is allocated."""
    diff: str
    """Unified, with paths below the work tree's top."""
    measured: CureResult
    """What was measured, as of a cure of `pinprof try`."""
    without_code: CureResult | None = None
    """The cure of `pinprof try` that does the same without a change of code, as it was measured beside it."""
    applied: bool = False
    """Whether it is written into the work tree."""


@dataclass(frozen=True)
class LeftAlone:
    """An opportunity whose line stays as it is."""

    title: str
    place: str
    cure: str
    reason: str


@dataclass(frozen=True)
class FixResult:
    """A whole run of `pinprof fix`. Changes are in the order of their savings."""

    command: tuple[str, ...]
    trial: TrialResult
    """How all was measured."""
    changes: tuple[FixedChange, ...]
    left_alone: tuple[LeftAlone, ...]
    patch: str
    """Unified diff of all that is kept; empty where nothing is."""
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> list[FixedChange]:
        """The changes that save and keep the results."""
        return [change for change in self.changes if change.verdict == "keep"]
