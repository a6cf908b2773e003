"""What may be found in a capture: budgets, as files and keyword arguments say them.

A table of a file, or keyword arguments, hold filters and any number of measures with their limits:

    {"range": "load", "pinned-bytes": "1 GiB", "pairs": 0, "cause": {"fault": "20 %"}}

Keys may be written with `-` or `_`. A limit is an amount (`4096`, `"1 GiB"`, `"2.5 ms"`, `"20 %"`), or an amount above
the baseline (`"baseline"`, `"baseline + 5 %"`, `"baseline + 1 MiB"`). All that files say is hostile until it is here.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, get_args

from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import (
    format_bytes,
    format_count,
    format_ns,
    format_share,
    parse_bytes,
    parse_duration_ns,
    parse_share,
)

Unit = Literal["bytes", "calls", "pairs", "faults", "findings", "ns", "share"]
"""`share`: from 0 to 1."""
Filter = Literal["range", "phase", "cause", "call", "kind", "size"]
How = Literal["count", "share", "time"]
"""How a limit is judged. `count`: every run alone must keep it; `share`: as far as the samples tell; `time`: by several
runs, since they vary by chance."""
FILTERS: tuple[Filter, ...] = get_args(Filter)

LONGEST, _LONGEST_AMOUNT = 512, 40
"""Characters of a name, and of an amount."""
FEWEST_RUNS, DEFAULT_RUNS = 3, 5
"""The program's runs, to judge a time."""
MOST_RUNS = 1000
_MOST = 1 << 62
SMALLEST_SHARE, _SMALLEST_OPPORTUNITY = 0.05, 0.25
"""The smallest excess of a time that matters, as a part of its limit, where the budget does not say it."""


@dataclass(frozen=True)
class Limited:
    """Something that can be limited."""

    unit: Unit
    how: How
    """How it is judged."""
    filters: tuple[Filter, ...]
    """By which it can be narrowed."""
    title: str
    """What it is, in a few words."""
    help: str
    """What is counted, and what by: one or two sentences."""

    @property
    def exact(self) -> bool:
        """Whether it is counted, so that a single run tells it."""
        return self.how == "count"


LIMITED: Mapping[str, Limited] = MappingProxyType(
    {
        "calls": Limited(
            "calls", "count", ("range", "phase", "call", "kind", "size"), "CUDA calls",
            "Recorded CUDA calls, including failed ones; nested calls belong to the outer call.",
        ),
        "pinned-bytes": Limited(
            "bytes", "count", ("range", "phase"), "peak pinned memory",
            "The peak of page-locked memory held by CUDA calls, from their arguments.",
        ),
        "pairs": Limited(
            "pairs", "count", ("range", "phase", "kind", "size"), "allocate/free pairs",
            "Memory that one CUDA call allocated or registered and a later one freed. It counts where it was "
            "allocated.",
        ),
        "pageable-bytes": Limited(
            "bytes", "count", ("range", "phase", "size"), "bytes copied from or to pageable memory",
            "Bytes of the copies between host and device whose host memory is pageable, which the driver stages.",
        ),
        "pageable-async-calls": Limited(
            "calls", "count", ("range", "phase", "size"), "asynchronous copies that block",
            "Copies meant to be asynchronous that block their caller, because the host's memory is pageable.",
        ),
        "page-faults": Limited(
            "faults", "count", ("range", "phase"), "page faults",
            "CPU page faults: the kernel's count for a whole run; within a run, samples times their period.",
        ),
        "opportunities": Limited(
            "ns", "time", ("range", "phase", "kind"), "largest opportunity",
            "The low end of the predicted wall-time saving of the largest opportunity.",
        ),
        "findings": Limited(
            "findings", "count", ("kind",), "findings",
            "Rules with the verdict critical or warning; `kind` names a rule or a severity.",
        ),
        "time": Limited(
            "ns", "time", ("range", "phase", "cause", "call"), "wall time",
            "Time of the run, a range, a phase or calls, or of a cause on the thread that determines the run's length.",
        ),
        "cpu-time": Limited(
            "ns", "time", ("range", "phase", "cause"), "CPU time",
            "CPU time of all threads: the kernel's clock for a whole run; within a run, samples.",
        ),
        "share": Limited(
            "share", "share", ("range", "phase", "cause"), "a cause's share of the time",
            "The share of CPU time that a cause takes in a range, a phase or the work; for waits, the share of wall "
            "time.",
        ),
    }
)  # fmt: skip
"""In the order in which they are shown; `measures.MEASURES` says how each is taken from a capture."""

_SETTINGS = ("name", "runs", "smallest-ms")
_BASELINE = re.compile(r"baseline(?:\s*\+\s*(.+))?", re.DOTALL)


@dataclass(frozen=True)
class BudgetPlace:
    """Where a budget is written."""

    file: str = ""
    line: int = 0
    """0 where only the file is known."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Budget:
    """What a measure may be at most. Filters are empty for all."""

    name: str
    """Unique among the budgets of a check."""
    measure: str
    """Key of `LIMITED`."""
    limit: float
    """In the measure's unit; with `relative` the amount by which the baseline may be exceeded."""
    range: str = ""
    """Name of a range, or its path: `epoch > load`."""
    phase: str = ""
    cause: str = ""
    """A leaf of the taxonomy, or a level: `fault.minor`, `fault`."""
    call: str = ""
    """A CUDA function without version suffix."""
    kind: str = ""
    """Of calls their purpose, of pairs the memory, of findings the rule or severity, of opportunities the cure."""
    size: str = ""
    """The upper end of a size class, a power of two: `1 MiB` is what is larger than 512 KiB and at most 1 MiB."""
    relative: bool = False
    """Whether the limit counts from what the baseline shows."""
    growth: float = 0.0
    """With `relative`: the part of the baseline by which it may be exceeded, on top of `limit`."""
    smallest_ms: float = 0.0
    """Of times: an excess that is not larger does not matter; 0 for `smallest_share` of the limit."""
    runs: int = 1
    """How many runs it takes at least."""
    place: BudgetPlace = BudgetPlace()

    @property
    def limited(self) -> Limited:
        """What it limits."""
        return LIMITED[self.measure]

    @property
    def unit(self) -> Unit:
        """The share of the limit."""
        return self.limited.unit

    @property
    def smallest_share(self) -> float:
        """The excess that matters, as a part of the limit, where `smallest_ms` does not say it."""
        return _SMALLEST_OPPORTUNITY if self.measure == "opportunities" else SMALLEST_SHARE

    @property
    def subject(self) -> str:
        """What is limited, with its filters: `calls of cudaMalloc in load`."""
        return _subject(self.measure, {name: getattr(self, name) for name in FILTERS})

    @property
    def limit_words(self) -> str:
        """The limit as people read it: `1 GiB`, `the baseline + 5 %`."""
        if not self.relative:
            return format_amount(self.limit, self.unit)
        more = [format_share(self.growth, 1)] if self.growth else []
        more += [format_amount(self.limit, self.unit)] if self.limit else []
        return " + ".join(["the baseline", *more])


def format_amount(value: float, unit: Unit) -> str:
    """An amount as people read it: `1.5 GiB`, `12.5 ms`, `20 %`, `3 pairs`."""
    if unit == "bytes":
        return format_bytes(round(value))
    if unit == "ns":
        return format_ns(value)
    if unit == "share":
        return format_share(value, 1) if value else "0 %"
    shown = f"{value:,.1f}" if value != round(value) else format_count(value)
    return f"{shown} {unit[:-1] if value == 1 else unit}"


def budgets_of(mapping: Mapping[str, object], place: BudgetPlace = BudgetPlace()) -> tuple[Budget, ...]:
    """The budgets of one table or of keyword arguments, in the order of their measures.

    UsageError for what cannot be meant, and for a budget that could not be broken.
    """
    given = {_key(key): value for key, value in mapping.items()}
    if len(given) < len(mapping):
        raise _wrong("A budget has a duplicate key.", "Write each key once, with `-` or with `_`.", place)
    for key in given:
        if key not in (*FILTERS, *_SETTINGS, *LIMITED):
            known = (*LIMITED, *FILTERS, *_SETTINGS)
            raise _wrong(f"A budget has no {key!r}.", _nearest(key, known), place)
    causes = given.pop("cause") if isinstance(given.get("cause"), Mapping) else {}
    assert isinstance(causes, Mapping)
    filters: dict[Filter, str] = {name: _text(name, given[name], place) for name in FILTERS if name in given}
    if filters.get("size"):
        filters["size"] = _size_class(filters["size"], place)
    wanted = [(measure, filters, given[measure]) for measure in LIMITED if measure in given]
    for cause, limit in causes.items():
        measure = "share" if _is_share(limit) else "time"
        wanted.append((measure, {**filters, "cause": _text("cause", cause, place)}, limit))
    if not wanted:
        raise _wrong("A budget has no limit.", f"Give one of these its limit: {', '.join(LIMITED)}.", place)
    name = _text("name", given["name"], place) if "name" in given else ""
    settings = (_runs(given.get("runs"), place), _smallest_ms(given.get("smallest-ms"), place))
    made = []
    for measure, mine, limit in wanted:
        subject = _subject(measure, mine)
        called = name if name and len(wanted) == 1 else f"{name}: {subject}" if name else subject
        made.append(_budget(called, measure, mine, limit, settings, place))
    return tuple(made)


_NO_WORSE: tuple[Mapping[str, object], ...] = (
    {"calls": "baseline", "pinned-bytes": "baseline", "pairs": "baseline", "pageable-bytes": "baseline"},
    {"pageable-async-calls": "baseline", "page-faults": "baseline + 2 %"},
    {"cpu-time": "baseline + 5 %"},
)
CALLS = frozenset({"calls", "pinned-bytes", "pairs", "pageable-bytes", "pageable-async-calls"})
"""What CUDA's calls alone say."""


def no_worse() -> tuple[Budget, ...]:
    """Budgets for a baseline where nobody says what to compare: nothing is worse, as far as captures tell."""
    found = [budget for table in _NO_WORSE for budget in budgets_of(table)]
    return tuple(replace(budget, name=f"{budget.name} against the baseline") for budget in found)


def refuse_alike(budgets: Iterable[Budget]) -> None:
    """UsageError where two budgets have the same name: outputs tell them apart by it."""
    budgets = tuple(budgets)
    for name, count in Counter(budget.name for budget in budgets).items():
        if count > 1:
            place = [budget.place for budget in budgets if budget.name == name][-1]
            raise _wrong(f"{count} budgets are called {name!r}.", "Give each budget its own `name`.", place)


def _budget(
    name: str,
    measure: str,
    filters: Mapping[Filter, str],
    limit: object,
    settings: tuple[int | None, float | None],
    place: BudgetPlace,
) -> Budget:
    limited = LIMITED[measure]
    for given in filters:
        if given not in limited.filters:
            usable = ", ".join(limited.filters)
            raise _wrong(f"{measure} cannot be limited by {given}.", f"Use {usable}.", place)
    if measure == "share" and not filters.get("cause"):
        raise _wrong("A share needs a cause.", 'Name it: cause = { fault = "20 %" }.', place)
    if measure == "time" and len([one for one in ("call", "cause") if filters.get(one)]) > 1:
        raise _wrong("A time budget can't have both `call` and `cause`.", "Leave out `call` or `cause`.", place)
    if filters.get("range") and filters.get("phase"):
        raise _wrong("A budget can't have both `range` and `phase`.", "Leave out `range` or `phase`.", place)
    runs, smallest_ms = settings
    if limited.how == "time" and runs is not None and runs < FEWEST_RUNS:
        raise _wrong(
            f"A time can't be judged by {runs} {'run' if runs == 1 else 'runs'}.",
            f"Times vary between runs: set `runs` to {FEWEST_RUNS} or more.",
            place,
        )
    amount, growth, relative = _limit(measure, limit, place)
    return Budget(
        name=name,
        measure=measure,
        limit=amount,
        relative=relative,
        growth=growth,
        smallest_ms=(smallest_ms or 0.0) if limited.how == "time" else 0.0,
        runs=(runs or DEFAULT_RUNS) if limited.how == "time" else runs or 1,
        place=place,
        **{str(given): text for given, text in filters.items()},
    )


def _limit(measure: str, given: object, place: BudgetPlace) -> tuple[float, float, bool]:
    """The amount, the part of the baseline, and whether they count from it."""
    unit = LIMITED[measure].unit
    match = _BASELINE.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None:
        amount = _amount(measure, given, unit, place)
        if unit == "share" and amount >= 1:
            raise _wrong(f"{measure} of {given!r} cannot be exceeded.", "Give less than 100 %.", place)
        if measure in ("time", "cpu-time") and not amount:
            raise _wrong("No run can meet a time limit of 0.", 'Give a limit above 0, for example "250 ms".', place)
        return amount, 0.0, False
    more = match[1]
    if more is None:
        return 0.0, 0.0, True
    if _is_share(more) and unit != "share":
        return 0.0, _parsed(measure, more, parse_share, place), True
    return _amount(measure, more, unit, place), 0.0, True


def _amount(measure: str, given: object, unit: Unit, place: BudgetPlace) -> float:
    """A limit in its unit, never negative."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise _wrong(f"{measure} has no limit {given!r}.", f"Write it like {_EXAMPLES[unit]}.", place)
    if isinstance(given, float) and not math.isfinite(given):
        raise _wrong(f"{measure} of {given} cannot be exceeded.", f"Write it like {_EXAMPLES[unit]}.", place)
    if isinstance(given, int) and given >= _MOST:
        raise _wrong(f"{measure} has a limit that no program reaches.", "Give a smaller one.", place)
    text = given.strip() if isinstance(given, str) else repr(given)
    if text in ("0", "0.0"):
        return 0.0
    if unit == "ns":
        if not isinstance(given, str) or text[-1:].isdigit():
            raise _wrong(f"{measure} of {text} has no unit.", f"Write it like {_EXAMPLES[unit]}.", place)
        return float(_parsed(measure, text, parse_duration_ns, place))
    if unit == "share":
        return _parsed(measure, text, parse_share, place)
    if unit == "bytes":
        return float(_parsed(measure, text, parse_bytes, place))
    digits = text.replace(",", "").replace("_", "")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise _wrong(f"{measure} has no limit {given!r}.", f"Write it like {_EXAMPLES[unit]}.", place)
    return float(int(digits))


_EXAMPLES: Mapping[Unit, str] = {
    "bytes": '"1 GiB" or 4096', "ns": '"250 ms" or "2 s"', "share": '"20 %" or 0.2', "calls": "12", "pairs": "0",
    "faults": "100000", "findings": "0",
}  # fmt: skip


def _parsed(measure: str, text: str, parse: Callable[[str], float], place: BudgetPlace) -> float:
    try:
        if len(text) > _LONGEST_AMOUNT:
            raise UsageError(f"{text[:20]!r}… is not an amount.", "Write it with fewer digits.", "budget")
        return float(parse(text))
    except (UsageError, OverflowError) as error:
        problem = error.problem if isinstance(error, UsageError) else f"{text[:40]!r} is too large."
        remedy = error.remedy if isinstance(error, UsageError) else "Give an amount that a program can reach."
        raise _wrong(f"{measure}: {problem}", remedy, place) from error


def _is_share(given: object) -> bool:
    """Whether a limit is a part of something: text that ends in `%`, or a number below 1."""
    return given.rstrip().endswith("%") if isinstance(given, str) else isinstance(given, float) and given < 1


def _text(key: str, given: object, place: BudgetPlace) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > LONGEST:
        raise _wrong(f"The {key} of a budget is not a name.", f"Give a text of 1 to {LONGEST} characters.", place)
    return given.strip()


def _runs(given: object, place: BudgetPlace) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_RUNS:
        raise _wrong(f"A budget can't use {given!r} runs.", f"Give a number from 1 to {MOST_RUNS}.", place)
    return given


def _smallest_ms(given: object, place: BudgetPlace) -> float | None:
    if given is None:
        return None
    if isinstance(given, str):
        return _parsed("smallest-ms", given, parse_duration_ns, place) / 1e6
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e12:
        raise _wrong(f"smallest-ms is {given!r}.", "Give the smallest excess that matters in milliseconds.", place)
    return float(given)


def _size_class(text: str, place: BudgetPlace) -> str:
    size = int(_parsed("size", text, parse_bytes, place))
    if size & (size - 1):
        near = format_bytes(1 << size.bit_length())
        raise _wrong(f"The size class {text!r} is not a power of two.", f"Use the class {near!r}.", place)
    return format_bytes(size)


def _subject(measure: str, filters: Mapping[Filter, str]) -> str:
    words = [measure]
    of: tuple[Filter, ...] = ("call", "cause", "kind")
    within: tuple[Filter, ...] = ("range", "phase")
    words += [f"of {filters[name]}" for name in of if filters.get(name)]
    words += [f"of up to {filters['size']}"] if filters.get("size") else []
    words += [f"in {filters[name]}" for name in within if filters.get(name)]
    return " ".join(words)


def _key(key: object) -> str:
    return str(key).replace("_", "-")


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word[:LONGEST], known, 1)
    return f"Did you mean {near[0]!r}?" if near else f"It knows {', '.join(known)}."


def _wrong(problem: str, remedy: str, place: BudgetPlace) -> UsageError:
    return UsageError(f"{place}: {problem}" if place.file else problem, remedy, "budget")
