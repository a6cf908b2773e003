"""Budgets for a start: what captures show, with the room that is stated beside each.

What is counted gets no room where all captures show the same, since one more of it is one too many. What varies between
runs gets as much as it varies on an ordinary machine; times get more, and several runs. They are times on processors,
which other programs on the machine change least.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence

from pinprof.analyze.run import Run
from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import printable
from pinprof.base.units import format_bytes, format_share, parse_bytes
from pinprof.check.budgets import DEFAULT_RUNS, FEWEST_RUNS, LIMITED, Budget, Unit, budgets_of, format_amount
from pinprof.check.taken import take
from pinprof.check.view import Amount

_ROOM = {"page-faults": 0.02, "opportunities": 0.5, "cpu-time": 0.1}
"""Part of what is shown that is added to it."""
_SHARE_ROOM, _SHARE_PART, _LEAST_SHARE = 0.10, 0.25, 0.10
"""A share's room, of the whole and of itself; shares of causes that are smaller get no budget."""
_LEAST_OPPORTUNITY_NS = 10_000_000.0
_MOST_RANGES = 6
_WHOLE_RUN = ("calls", "pinned-bytes", "pairs", "pageable-bytes", "pageable-async-calls", "page-faults")
_WHOLE_RUN_TOO = ("opportunities", "findings")
_ANY: dict[Unit, object] = {"ns": "60 min", "share": "50 %"}


@dataclass(frozen=True)
class Line:
    """One budget to write, or why there is none."""

    table: dict[str, object]
    """Filters and one measure with its limit."""
    about: str
    """What the captures show, and the room; else why it cannot be limited."""
    written: bool
    varies: bool = False
    """Whether one run does not tell it."""


def initial(analyses: Sequence[Run], names: Sequence[str], table: str) -> str:
    """TOML with a budget for everything that these captures of one program tell; `table` is the name of its tables."""
    lines = list(_lines(analyses))
    made = [line for line in lines if line.written]
    if not made:
        why = "; ".join(dict.fromkeys(line.about for line in lines))
        raise UsageError(
            f"The captures have no values that can be limited: {why}", "Record the program with pinprof.", "budget"
        )
    shown = ", ".join(_comment(name) for name in names)
    text = [
        f"# Written by `pinprof check init` from {shown}.",
        "# Limits are the measured values plus the margin next to them. Tighten them, or remove those that may grow.",
        "",
    ]
    enough = len(analyses) >= FEWEST_RUNS
    for line in made:
        rows = [f"[[{table}]]", *(f"{key} = {_toml(value)}" for key, value in line.table.items())]
        rows[-1] += f"  # {_comment(line.about)}"
        if line.varies and not enough:
            few = "One run does" if len(analyses) == 1 else f"{len(analyses)} runs do"
            text.append(f"# {few} not show how much this varies. For several runs and `pinprof check -- CMD`:")
            rows = [f"# {row}" for row in rows]
        text += [*rows, ""]
    text += [f"# Without a budget: {_comment(line.about)}" for line in lines if not line.written]
    return "\n".join(text).rstrip() + "\n"


def _lines(analyses: Sequence[Run]) -> Iterator[Line]:
    for measure in _WHOLE_RUN:
        yield _line(analyses, {}, measure)
    for measure in _WHOLE_RUN_TOO:
        yield _line(analyses, {}, measure)
    for cause in _large_causes(analyses[0]):
        yield _line(analyses, {"cause": cause}, "share")
    yield _line(analyses, {}, "cpu-time")
    for name in _ranges(analyses[0]):
        yield _line(analyses, {"range": name}, "cpu-time")


def _ranges(analysis: Run) -> list[str]:
    """The names of ranges in which most time was spent."""
    longest = sorted(analysis.ranges, key=lambda one: -one.wall_ns)
    return list(dict.fromkeys(one.name for one in longest if one.name.strip()))[:_MOST_RANGES]


def _large_causes(analysis: Run) -> list[str]:
    """Levels of causes that host memory is to blame for, with enough of the time."""
    main = analysis.main
    if main is None or not main.total:
        return []
    levels = ("fault", "pin", "free", "uvm", "copy")
    return [level for level in levels if main.by_level.get(level, 0) >= _LEAST_SHARE * main.total]


def _line(analyses: Sequence[Run], filters: dict[str, object], measure: str) -> Line:
    unit = LIMITED[measure].unit
    (budget,) = budgets_of({**filters, measure: _ANY.get(unit, 0)})
    taken = [take(analysis, (budget,)).amounts[budget] for analysis in analyses]
    untold = next((one for one in taken if not isinstance(one, Amount)), None)
    if untold is not None:
        return Line({}, f"{budget.subject}: {untold.why}", written=False)
    amounts = [one for one in taken if isinstance(one, Amount)]
    missing = next((one.missing for one in amounts if one.missing), "")
    if missing:
        return Line({}, f"{budget.subject}: {missing}", written=False)
    values = [one.value for one in amounts]
    limit, room = _limit(budget, values)
    shown = format_amount(max(values), unit)
    if len(values) > 1 and min(values) < max(values):
        shown = f"{format_amount(min(values), unit)} to {shown}"
    extra: dict[str, object] = {"runs": DEFAULT_RUNS} if LIMITED[measure].how == "time" else {}
    varies = LIMITED[measure].how == "time" or measure == "findings"
    return Line({**filters, **extra, measure: limit}, f"found {shown}; margin: {room}", written=True, varies=varies)


def _limit(budget: Budget, values: Sequence[float]) -> tuple[object, str]:
    """The limit as TOML has it, and the room in words."""
    top = max(values)
    if budget.unit == "share":
        limit = min(math.ceil(100 * (top * (1 + _SHARE_PART) + _SHARE_ROOM)), 99)
        room = f"{format_share(_SHARE_PART, 1)}, and {format_share(_SHARE_ROOM, 1)} of the time"
        return f"{limit} %", room
    part = _ROOM.get(budget.measure, 0.0)
    spread = top - min(values)
    amount = top * (1 + part) + (spread if not part else 0.0)
    if budget.measure == "opportunities":
        amount = max(amount, top + _LEAST_OPPORTUNITY_NS)
        room = f"{format_share(part, 1)}, and {format_amount(_LEAST_OPPORTUNITY_NS, 'ns')} at least"
    elif part:
        room = format_share(part, 1)
    else:
        room = (
            f"{format_amount(spread, budget.unit)}, the difference between the captures"
            if spread
            else "none, it is an exact count"
        )
    return _written[budget.unit](amount) if budget.unit in _written else math.ceil(amount), room


def _bytes(amount: float) -> object:
    """A size as people write it, where that is exactly the amount."""
    whole = math.ceil(amount)
    shown = format_bytes(whole)
    return shown if whole and parse_bytes(shown) == whole else whole


def _ns(amount: float) -> object:
    """A duration, rounded up to three digits at least."""
    return f"{math.ceil(amount / 1e6)} ms" if amount >= 1e8 else f"{math.ceil(amount / 1e3)} us"


_written: dict[Unit, Callable[[float], object]] = {"bytes": _bytes, "ns": _ns}


def _comment(text: str) -> str:
    """A text as a comment of TOML: one line, whatever names are in it."""
    return printable(text)


def _toml(value: object) -> str:
    """A value of TOML; texts as basic strings, which are those of JSON but for what no name may hold anyway."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
    return str(value)
