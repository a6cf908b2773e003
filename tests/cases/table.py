"""Writes predictions against what was measured into reports/h200/measured/promised.md, from tests/data/cases.

usage: python -m tests.cases.table [--print]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cases.recorded import CASES, CONTROLS, Case, Control, at_fault, found, place, promised_s, work_s

PAGE = Path(__file__).parents[2] / "reports" / "h200" / "measured" / "promised.md"
BEGIN, END = "<!-- cases: python -m tests.cases.table -->\n", "<!-- end of cases -->\n"
CASE_HEADS = ("program", "measured: as is → cured", "saved", "predicted: low – likely – high", "off by", "first line",
              "cure", "comment")  # fmt: skip
CONTROL_HEADS = ("program", "measured: as is → with the advice", "promised", "of the work", "comment")


def case_row(case: Case) -> list[str]:
    """One program with a problem."""
    first, known = next(iter(found(case.name)), None), at_fault(case)
    low, likely, high = (
        sum(getattr(one.saving, field) for one in known) / 1e9 for field in ("low_ns", "likely_ns", "high_ns")
    )
    line = "none" if first is None else place(first) if place(first) in case.lines else f"**wrong**: {place(first)}"
    cures = ", ".join(dict.fromkeys(one.cure.id for one in known)) or "–"
    return [
        f"`{case.name}`", f"{case.as_is_s:.3g} → {case.cured_s:.3g} s", f"{case.saved_s:.3g} s",
        f"{low:.2f} – {likely:.2f} – {high:.2f} s" if known else "–",
        f"{likely / case.saved_s - 1:+.0%}" if known else "–", line, cures, case.comment,
    ]  # fmt: skip


def control_row(control: Control) -> list[str]:
    """One program without one."""
    promised, work = promised_s(control.name), work_s(control.name)
    measured = f"{control.as_is_s:.3g} → {control.cured_s:.3g} s" if control.cured_s else "–"
    share = f"{promised / work:.1%}" if work else "–"
    return [f"`{control.name}`", measured, f"{promised:.3f} s", share, control.comment]


def tables() -> str:
    """Both tables, in Markdown."""
    cases = _table(CASE_HEADS, [case_row(case) for case in CASES])
    return f"{cases}\n{_table(CONTROL_HEADS, [control_row(control) for control in CONTROLS])}"


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [" | ".join(heads), "---|" * (len(heads) - 1) + "---", *(" | ".join(row) for row in rows)]
    return "".join(f"| {line} |\n" for line in lines)


def main() -> None:
    """Print the tables, or write them into the page."""
    if "--print" in sys.argv:
        print(tables())
        return
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{tables()}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
