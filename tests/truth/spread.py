"""By how much the savings of a program differ that were measured at different times, without any recording.

usage: python -m tests.truth.spread

What a cure saves was measured several times for some programs, on machines of one kind: for the recordings of
tests/data/cases, and in reports/h200/measured/cases.md. No prediction can be closer than two measurements are.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np

from tests.cases.recorded import CASES

REPORT = Path(__file__).parents[2] / "reports" / "h200" / "measured" / "cases.md"
NINE_OF_TEN = 0.9
_ROW = re.compile(r"\| `(\w+)`[^|]*\| [\d.]+ → [\d.]+ s \| ([\d.]+) s \|")


def measured() -> dict[str, list[float]]:
    """Program → the savings that were measured, in seconds; those that were measured once are left out."""
    savings = {case.name: [case.saved_s] for case in CASES}
    for name, saved in _ROW.findall(REPORT.read_text("utf-8")):
        savings.setdefault(name, []).append(float(saved))
    return {name: found for name, found in savings.items() if len(found) > 1}


def ratios() -> list[float]:
    """Of every two measurements of a program the larger one as a multiple of the smaller one, ascending."""
    return sorted(max(pair) / min(pair) for found in measured().values() for pair in combinations(found, 2))


def factor() -> float:
    """The factor within which nine of ten of these pairs lie."""
    return float(np.quantile(ratios(), NINE_OF_TEN))


def main() -> None:
    """Print it, with what it is of."""
    found = ratios()
    print(f"{len(measured())} programs, {len(found)} pairs: median {np.median(found):.2f}, nine of ten {factor():.2f}")


if __name__ == "__main__":
    main()
