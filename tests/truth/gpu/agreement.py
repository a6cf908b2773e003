"""Table 1: what the agent, by CUPTI, and what nsys recorded of the GPU's work, of the same program in turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pinprof.read import ReadOptions, read
from tests.truth.gpu import runs
from tests.truth.gpu.runs import Program
from tests.truth.gpu.table import Table
from tests.truth.gpu.work import Work, of_activity, of_export

COLUMNS = ("program", "what", "nsys", "pinprof", "difference", "limit", "holds")
TIME_LIMIT, MIGRATION_LIMIT = 0.02, 0.03


def measure(programs: Sequence[Program], place: Path) -> Table:
    """Each program once under either."""
    table = Table("Agreement with nsys", COLUMNS)
    for program in programs:
        theirs = runs.run(runs.NSYS, program.command, place / "nsys", export=True)
        ours = runs.run(runs.WHOLE, program.command, place / "pinprof")
        problems = [f"{name}: {one.problem}" for name, one in (("nsys", theirs), ("pinprof", ours)) if one.problem]
        if not problems and (theirs.export is None or ours.capture is None):
            problems = ["a recording is missing"]
        if problems:
            table.notes.append(f"{program.name} was not compared: {'; '.join(problems)}.")
            continue
        assert theirs.export is not None
        assert ours.capture is not None
        capture = read(ours.capture, ReadOptions())
        compare(table, program.name, of_export(theirs.export), of_activity(capture.activity))
        table.notes.extend(f"{program.name}: {note}" for note in capture.losses.notes if "GPU" in note)
    return table


def compare(table: Table, program: str, theirs: Work, ours: Work) -> None:
    """Rows of one program: counts and bytes have to be equal, times and migrations within their limits."""
    for what, (nsys, pinprof, limit) in _figures(theirs, ours):
        difference = (pinprof - nsys) / nsys if nsys else float(pinprof != nsys)
        holds = abs(difference) <= limit
        shown = "equal" if pinprof == nsys else f"{difference:+.2%}" if nsys else "nsys has none"
        row = (program, what, f"{nsys:,}", f"{pinprof:,}", shown, f"{limit:.0%}" if limit else "exact")
        table.add(
            (*row, "yes" if holds else "**no**"),
            program=program, what=what, nsys=nsys, pinprof=pinprof, difference=difference, limit=limit, holds=holds,
        )  # fmt: skip


def _figures(theirs: Work, ours: Work) -> Iterator[tuple[str, tuple[int, int, float]]]:
    for way in sorted(theirs.copies.keys() | ours.copies.keys()):
        nsys, pinprof = theirs.copies.get(way, (0, 0)), ours.copies.get(way, (0, 0))
        yield f"copies {way}", (nsys[0], pinprof[0], 0.0)
        yield f"bytes {way}", (nsys[1], pinprof[1], 0.0)
    yield "kernels", (theirs.kernels, ours.kernels, 0.0)
    yield "time of kernels, ns", (theirs.kernel_ns, ours.kernel_ns, TIME_LIMIT)
    for way in sorted(theirs.migrations.keys() | ours.migrations.keys()):
        yield (
            f"bytes migrated {way}",
            (theirs.migrations.get(way, 0), ours.migrations.get(way, 0), MIGRATION_LIMIT),
        )
