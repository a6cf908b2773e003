"""Table 3: other profilers beside pinprof: what torch.profiler gets inside, and nsys around."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.truth.gpu import runs
from tests.truth.gpu.runs import DEFAULT, NATIVE, NONE, WHOLE, Program
from tests.truth.gpu.table import Table
from tests.truth.gpu.work import Work, of_export

COLUMNS = ("profiler", "pinprof", "what", "alone", "beside pinprof", "whole")
MODES = (NATIVE, DEFAULT, WHOLE)


def measure(profiled: Program, traced: Program, place: Path) -> Table:
    """A program that profiles itself, under each way of recording; and another under nsys, with pinprof between."""
    table = Table("Other profilers", COLUMNS)
    alone = runs.run(NONE, profiled.command, place / "alone")
    if problem := alone.problem or ("" if alone.result.get("events") else "it counted no events"):
        table.notes.append(f"{profiled.name} alone: {problem}.")
    else:
        for mode in MODES:
            one = runs.run(mode, profiled.command, place / "beside")
            if one.problem:
                table.notes.append(f"{profiled.name} under {mode}: {one.problem}.")
            compare(table, "torch.profiler", mode, alone.result["events"], one.result.get("events") or {})
    around(table, traced, place)
    return table


def around(table: Table, program: Program, place: Path) -> None:
    """nsys with the program in it, and with pinprof in it that records the program."""
    alone = runs.run(runs.NSYS, program.command, place / "nsys-alone", export=True)
    if alone.export is None:
        table.notes.append(f"nsys and {program.name}: {alone.problem}.")
        return
    for mode in MODES:
        inside = place / "inside"
        inside.mkdir(parents=True, exist_ok=True)
        beside = runs.run(runs.NSYS, runs.under(mode, program.command, inside), place / "nsys-around", export=True)
        if beside.export is None:
            table.notes.append(f"nsys around pinprof ({mode}): {beside.problem}.")
            continue
        compare(table, "nsys", mode, events(of_export(alone.export)), events(of_export(beside.export)))


def events(work: Work) -> dict[str, int]:
    """What nsys counts, by kind."""
    return {"kernels": work.kernels, "copies": sum(count for count, _ in work.copies.values())}


def compare(table: Table, profiler: str, mode: str, alone: Mapping[str, Any], beside: Mapping[str, Any]) -> None:
    """A row for each kind of event."""
    for what in sorted(alone.keys() | beside.keys()):
        before, after = int(alone.get(what, 0)), int(beside.get(what, 0))
        row = (profiler, mode, what, f"{before:,}", f"{after:,}", "yes" if before == after else "**no**")
        table.add(row, profiler=profiler, mode=mode, what=what, alone=before, beside=after, whole=before == after)
