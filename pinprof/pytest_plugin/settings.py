"""What is asked of a test: by options, the ini file and marks."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.check.budgets import Budget, BudgetPlace, budgets_of

MARK = "pinprof"
ALL, OWN = "all", "own"


@dataclass(frozen=True)
class Settings:
    """What holds for the whole run."""

    every: bool
    """Record tests without a mark too."""
    allow_unassessable: bool
    top: int
    keep: Path | None
    own_only: bool
    frequency: int
    defaults: tuple[Budget, ...]

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """From the command line, else the ini file; pytest.UsageError for what cannot be meant."""
        keep = config.getoption("pinprof_keep") or config.getini("pinprof_keep")
        threads = config.getini("pinprof_threads")
        if threads not in (OWN, ALL):
            raise pytest.UsageError(f"pinprof_threads = {threads!r} is neither {OWN} nor {ALL}.")
        top = config.getoption("pinprof_top")
        return cls(
            every=config.getoption("pinprof") or config.getini("pinprof"),
            allow_unassessable=config.getoption("pinprof_allow_unassessable")
            or config.getini("pinprof_allow_unassessable"),
            top=_number(config, "pinprof_top") if top is None else max(top, 0),
            keep=(config.invocation_params.dir / keep) if keep else None,
            own_only=threads == OWN,
            frequency=max(_number(config, "pinprof_frequency"), 1),
            defaults=_defaults(config),
        )


@dataclass(frozen=True)
class Asked:
    """What one test is to be judged by."""

    budgets: tuple[Budget, ...] = ()
    wrong: str = ""
    """Why its mark cannot be meant."""


def asked_of(item: pytest.Item, settings: Settings) -> Asked | None:
    """None where a test is not to be recorded.

    Each mark is a set of budgets of its own. A default holds unless a mark limits the same measure, by any filter.
    """
    marks = list(item.iter_markers(MARK))
    if not marks and not settings.every:
        return None
    place = BudgetPlace(str(item.location[0]), (item.location[1] or 0) + 1)
    budgets: list[Budget] = []
    try:
        for mark in marks:
            if mark.args:
                raise UsageError(
                    f"{place}: the mark pinprof takes keywords, not {mark.args[0]!r}.",
                    'Write, for example, @pytest.mark.pinprof(page_faults=1000, pinned_bytes="1 GiB").',
                    "budget",
                )
            budgets += budgets_of(mark.kwargs, place) if mark.kwargs else ()
    except UsageError as error:
        return Asked(wrong=str(error))
    limited = {budget.measure for budget in budgets}
    budgets += [budget for budget in settings.defaults if budget.measure not in limited]
    return Asked(tuple(_named_apart(budgets)))


def _number(config: pytest.Config, name: str) -> int:
    """An ini value that counts something; pytest.UsageError for what is not a number."""
    text = str(config.getini(name)).strip()
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise pytest.UsageError(f"{name} = {text[:40]!r} is not a number.")
    return int(text)


def _named_apart(budgets: list[Budget]) -> list[Budget]:
    """Every budget once: of two that are called alike, the closest mark's holds, which comes first."""
    return list({budget.name: budget for budget in reversed(budgets)}.values())[::-1]


def _defaults(config: pytest.Config) -> tuple[Budget, ...]:
    """`pinprof_budgets`: a line is what stands between the mark's parentheses."""
    place = BudgetPlace(config.inipath.name if config.inipath else "")
    made: list[Budget] = []
    for line in config.getini("pinprof_budgets"):
        try:
            made += budgets_of(_keywords(line), place)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    return tuple(made)


def _keywords(line: str) -> Mapping[str, object]:
    """The keywords of `page_faults=1000, cause={"fault": "20 %"}`; UsageError where they are none."""
    try:
        call = ast.parse(f"f({line})", mode="eval").body
        assert isinstance(call, ast.Call)
        if not call.args and call.keywords and all(keyword.arg for keyword in call.keywords):
            return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, AssertionError, RecursionError, MemoryError):
        pass
    raise UsageError(
        f"pinprof_budgets has the line {line[:200]!r}, which is not valid in a mark.",
        'Write the arguments of the mark: page_faults=10000, cause={"fault": "20 %"}.',
        "budget",
    )
