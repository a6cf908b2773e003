"""What a check returns: one verdict for each budget, and what all of them together say. Frozen and plain."""

from __future__ import annotations

from enum import StrEnum

from pinprof.base.lazy_dataclass import dataclass
from pinprof.check.budgets import Budget, Unit


class BudgetOutcome(StrEnum):
    """What became of a budget."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNASSESSABLE = "not-assessable"


STATUS = {BudgetOutcome.HOLDS: 0, BudgetOutcome.BROKEN: 3, BudgetOutcome.UNASSESSABLE: 4}
"""Exit status of a check by the worst outcome in it: broken is worse than not assessable."""


@dataclass(frozen=True)
class JudgedSite:
    """A source line, and how much of what was found comes from there."""

    file: str
    """As short as it can be without being taken for another: `train.py`; empty where only the function is known."""
    line: int
    """0 where only the function or the file is known."""
    function: str
    amount: float
    """In the verdict's unit."""
    path: str = ""
    """The file's path as it was recorded; empty where unknown."""

    @property
    def place(self) -> str:
        """`train.py:88`, `train.py`, else the function."""
        return (f"{self.file}:{self.line}" if self.line else self.file) or self.function


@dataclass(frozen=True)
class BudgetVerdict:
    """One budget, judged."""

    budget: Budget
    outcome: BudgetOutcome
    found: float | None
    """What is compared with the limit, in `unit`: of exact figures the largest of the runs, of estimates their mean;
    None where it could not be measured."""
    per_run: tuple[float, ...]
    """One figure for each run that tells it, in the order of the captures."""
    limit: float | None
    """What `found` may be at most, in `unit`; with a limit above the baseline's what that comes to. None where a
    baseline was needed and is missing."""
    unit: Unit
    why: str
    """One sentence: what was found, or why it cannot be judged."""
    remedy: str = ""
    """One sentence: what to change, or what makes it assessable; empty where nothing is to do."""
    sites: tuple[JudgedSite, ...] = ()
    """Where it comes from, the largest first; empty where that is not known."""


@dataclass(frozen=True)
class Checked:
    """All budgets, judged by the same captures."""

    verdicts: tuple[BudgetVerdict, ...]
    """In the order of the budgets."""
    captures: tuple[str, ...]
    """Their paths, one for each run."""
    notes: tuple[str, ...] = ()
    """What a reader must know about the captures, one sentence each."""
    against: tuple[str, ...] = ()
    """The baseline's captures; empty without one."""
    allowed: bool = False
    """Whether what is not assessable lets the check pass, because its caller said so: reports say it loudly."""

    @property
    def outcome(self) -> BudgetOutcome:
        """The worst one: broken, then not assessable, then holds."""
        outcomes = {verdict.outcome for verdict in self.verdicts}
        return next(
            (one for one in (BudgetOutcome.BROKEN, BudgetOutcome.UNASSESSABLE) if one in outcomes), BudgetOutcome.HOLDS
        )

    @property
    def status(self) -> int:
        """The exit status: 0 all hold, 3 a budget is broken, 4 one is not assessable and that is not allowed."""
        return 0 if self.allowed and self.outcome is BudgetOutcome.UNASSESSABLE else STATUS[self.outcome]

    def of(self, outcome: BudgetOutcome) -> tuple[BudgetVerdict, ...]:
        """The verdicts with this outcome."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is outcome)
