"""What every form of a trial's report says: its headline, and each cure's figures in words."""

from __future__ import annotations

import shlex

from pinprof.base import units
from pinprof.trial.result import CureResult, Ratio, TrialResult, Unit


def headline(result: TrialResult) -> str:
    """The answer in one sentence."""
    best = result.best
    if best is not None and best.side is not None and best.ratio is not None:
        before, after = amount(result.as_is.median, result.unit), amount(best.side.median, result.unit)
        return f"{capital(best.title)}: {what(result)} goes from {before} to {after}, {factor(best.ratio)}."
    if not result.cures:
        return "There is nothing to try: no saving in this program has a cure without code changes."
    measured = [cure for cure in result.cures if cure.state == "measured"]
    if not measured:
        return "No cure could be measured."
    alike = [cure.no_larger_than for cure in measured if cure.no_larger_than is not None]
    known = f": no difference above {percent(max(alike))}" if alike else ""
    worse = len(measured) - len(alike)
    dearer = f"; {units.format_counted(worse, 'cure makes it', 'cures make it')} larger" if worse else ""
    return f"No cure saves anything{known}{dearer}."


def what(result: TrialResult) -> str:
    """What was measured, as a subject."""
    kind, _, argument = result.measure.partition(":")
    names = {"wall": "wall time", "work": "the time of phase work", "memory": "peak memory"}
    return f"the time of range {argument}" if kind == "range" else names.get(kind, "the printed number")


def amount(value: float, unit: Unit) -> str:
    """A measured value with its unit."""
    if unit == "ns":
        return units.format_ns(value)
    return units.format_bytes(int(value)) if unit == "bytes" else f"{value:.4g}"


def factor(ratio: Ratio) -> str:
    """`2.4× less (2.3 to 2.5)`, `1.2× as much (1.1 to 1.3)`."""
    if ratio.median <= 1:
        low, middle, high = (1 / max(value, 1e-9) for value in (ratio.high, ratio.median, ratio.low))
        return f"{middle:.3g}× less ({low:.3g} to {high:.3g})"
    return f"{ratio.median:.3g}× as much ({ratio.low:.3g} to {ratio.high:.3g})"


def change(ratio: Ratio) -> str:
    """By how much it is less or more, with the interval: `−58 % (−60 to −57)`."""
    return f"{_signed(ratio.median - 1)} % ({_signed(ratio.low - 1)} to {_signed(ratio.high - 1)})"


def verdict(cure: CureResult) -> str:
    """What came out of one cure, in a few words."""
    if cure.state == "failed":
        return "fails"
    if cure.state == "left-out":
        return "not tried"
    if cure.ratio is None:
        return "too few rounds"
    if cure.no_larger_than is not None:
        return f"no difference above {percent(cure.no_larger_than)}"
    return "saves" if cure.gain > 1 else "costs more"


def prediction(cure: CureResult) -> str:
    """What was predicted, and whether it was off; empty without a prediction."""
    if cure.predicted_ratio is None:
        return ""
    return change(cure.predicted_ratio) + (", off" if cure.off else "")


def memory(cure: CureResult) -> str:
    """How much more memory it takes at its peak; empty where that was not measured."""
    if cure.memory_bytes is None:
        return ""
    return f"{'−' if cure.memory_bytes < 0 else '+'}{units.format_bytes(abs(cure.memory_bytes))}"


def basis(result: TrialResult) -> str:
    """How it was measured, in one sentence."""
    rounds = units.format_counted(result.rounds, "round", "rounds")
    told = f"{rounds} within {units.format_ns(result.duration_s * 1e9)}, in random order (seed {result.seed})"
    if not (count := len(result.measured)):
        return f"{told}."
    compared = units.format_counted(count, "cure", "cures")
    return f"{told}; the intervals of {compared} hold jointly with 95 % confidence."


def command_line(result: TrialResult) -> str:
    """The program as typed."""
    return shlex.join(result.command)


def percent(share: float) -> str:
    """`0.8 %`, `12 %`."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def capital(text: str) -> str:
    """With a capital first letter."""
    return text[:1].upper() + text[1:]


def _signed(share: float) -> str:
    value = 100 * share
    text = f"{abs(value):.1f}" if abs(value) < 9.95 else f"{abs(value):.0f}"
    return f"−{text}" if value < 0 else f"+{text}"
