"""The words and figures of a difference that every output shares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from pinprof.base.units import format_counted, format_ns, format_share, format_weight
from pinprof.compare.results import ComparedStacks, Difference, Family, Fate, OpportunityChange, Row, Side
from pinprof.compare.stacks import unmatched

FAMILY_TITLES: Mapping[Family, str] = {
    "phase": "Phases",
    "range": "Ranges, measured",
    "call": "CUDA calls, measured",
    "cause": "Causes of the work",
    "line": "Lines of the work",
    "event": "Events",
}
FATE_TITLES: Mapping[Fate, str] = {"gone": "Gone", "new": "New", "stayed": "Still there"}
NOTHING_AROUND = "There are no known differences in the environment."
NO_SHARES = "Shares of the work are not compared, because the two sides recorded different parts of it."
MINUS = "−"
_LEAST_UNMATCHED = 0.01
"""Of an event's weight: less without a partner is not worth a line."""


def side_words(side: Side) -> str:
    """`base (5 runs)`."""
    return f"{side.name} ({format_counted(side.runs, 'run', 'runs')})"


def paths(side: Side) -> tuple[str, ...]:
    """The recordings' names, without directories: these hold the names of users."""
    return tuple(PurePath(path).name for path in side.paths)


def signed(row: Row) -> str:
    """`−1.36 s`, `+12 ms`."""
    return f"{_sign(row.change)}{format_weight(abs(row.change), row.unit)}"


def _sign(value: float) -> str:
    return MINUS if value < 0 else "+" if value > 0 else ""


def percent(row: Row) -> str:
    """`−77 %`; `new` and `gone` where only one side has it."""
    if row.state != "both":
        return row.state
    return f"{_sign(row.change)}{format_share(abs(row.change), row.mean_before)}"


def interval(row: Row) -> str:
    """The interval that holds the true change with 95 %, `−79 to −75 %`; empty without a test."""
    if row.estimate is None or row.state != "both" or row.untested:
        return ""
    low, high = (100 * (ratio - 1) for ratio in row.estimate.ratio_interval())
    places = 0 if max(abs(low), abs(high)) >= 9.95 else 1
    return f"{_number(low, places)} to {_number(high, places)} %"


def _number(value: float, places: int) -> str:
    shown = f"{abs(value):,.{places}f}"
    return shown if float(shown.replace(",", "")) == 0 else f"{_sign(value)}{shown}"


def found_from(row: Row) -> str:
    """The smallest change that would have been found, `3.1 %`; with one run of a side what at least is hidden."""
    if row.detectable is None:
        return "unknown"
    if row.detectable > 1:
        words = f"{1 + row.detectable:.1f} ×" if row.detectable < 100 else "–"
    else:
        words = format_share(row.detectable, 1)
    return f"> {words}" if row.untested else words


def more_runs(row: Row) -> str:
    """How many runs detect less, `38 runs of each side detect 5 %`; empty where that is not known or needed."""
    if row.more_runs is None:
        return ""
    runs = format_counted(row.more_runs.runs, "run", "runs")
    return f"About {runs} of each side detect {100 * row.more_runs.change:.0f} %"


def share_of_work(difference: Difference, row: Row) -> tuple[str, str] | None:
    """The row as a share of the work on both sides; None where that cannot be compared or means nothing."""
    whole = next((one for one in difference.rows if one.family == "phase" and one.name == "work"), None)
    if not difference.shares or whole is None or row.family not in ("cause", "line") or row.unit != "ns":
        return None
    return format_share(row.mean_before, whole.mean_before), format_share(row.mean_after, whole.mean_after)


def family_title(difference: Difference, family: Family) -> str:
    """`Causes of the work, per iteration`; without a unit where times are of a whole run."""
    units = {row.per for row in difference.family(family)} - {"run"}
    per = f", {'the work ' if family == 'phase' else ''}per {min(units)}" if units else ""
    return FAMILY_TITLES[family] + per


def row_name(row: Row) -> str:
    """Its name, with the one before where that is another."""
    return f"{row.name} (was {row.was})" if row.was else row.name


def opportunity_words(one: OpportunityChange) -> str:
    """What an opportunity costs on both sides."""
    before, after = format_ns(one.before_cost_ns), format_ns(one.after_cost_ns)
    if one.fate == "stayed":
        return f"costs {after}, {before} before"
    return f"cost {before}" if one.fate == "gone" else f"costs {after}, promises {format_ns(one.after_saving_ns)}"


def unmatched_words(stacks: ComparedStacks) -> str:
    """How much of an event's weight could not be laid side by side; empty where that is little."""
    apart, whole = unmatched(stacks), (float(stacks.before.sum()), float(stacks.after.sum()))
    words = [
        f"{format_share(part, of)} of the weight {side} is in functions that exist only {side}"
        for side, part, of in zip(("before", "after"), apart["only"], whole, strict=True)
        if part > _LEAST_UNMATCHED * of
    ]
    renamed = apart["renamed"][1]
    if renamed > _LEAST_UNMATCHED * whole[1]:
        words.append(f"{format_share(renamed, whole[1])} of the weight after is in functions with a new name")
    return f"Stacks of {stacks.event}: {', '.join(words)}." if words else ""
