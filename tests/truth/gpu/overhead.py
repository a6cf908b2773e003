"""Table 2: what each recorder costs a program, for a call and for all of it.

Recorders take turns, in another order each round, because the speed of a machine drifts. Figures are medians over the
rounds, and growth is that within one round. Beside it stands that of the fastest run over the fastest one, which no
stall of the machine disturbs. A GPU that has been idle for two seconds takes a tenth of a second longer to begin, and
a recorder starts before its program does: so each run waits until the GPU has been idle for so long.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.truth.gpu import runs
from tests.truth.gpu.runs import NONE, Program
from tests.truth.gpu.table import Table

COLUMNS = (
    "program", "recorder", "ns a call", "growth of a call", "outside calls, ms", "whole program, s", "growth",
    "least … most", "of the fastest", "runs",
)  # fmt: skip
SETTLE_S = 2.5
"""After which a GPU is idle."""
LIMIT = 0.05
"""By which the default may make any of these programs longer."""


def measure(
    programs: Sequence[Program],
    place: Path,
    rounds: int,
    recorders: Sequence[str] = runs.RECORDERS,
    settle_s: float = SETTLE_S,
) -> Table:
    """Each program under each recorder, so many times; one of them is `NONE`."""
    table = Table("Overhead", COLUMNS)
    for program in programs:
        results: dict[str, list[dict[str, Any]]] = {name: [] for name in recorders}
        failed: set[str] = set()
        for turn in range(rounds):
            first = turn % len(recorders)
            for recorder in (*recorders[first:], *recorders[:first]):
                time.sleep(settle_s)
                # What failed once is not waited for again.
                one = runs.Run() if recorder in failed else runs.run(recorder, program.command, place / "overhead")
                if recorder not in failed and "whole_ns" not in one.result:
                    why = one.problem or "the program did not say how long it took"
                    table.notes.append(f"{program.name} under {recorder}, round {turn + 1}: {why}.")
                    failed.add(recorder)
                results[recorder].append({} if recorder in failed else one.result)
        add(table, program.name, results)
    return table


def add(table: Table, program: str, results: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Rows of one program; results by recorder, one for each round, empty for a run that failed."""
    for recorder, rounds in results.items():
        worked = [one for one in rounds if one]
        if not worked:
            continue
        pairs = [(one, plain) for one, plain in zip(rounds, results[NONE], strict=True) if one and plain]
        whole = [one["whole_ns"] / plain["whole_ns"] - 1 for one, plain in pairs]
        calls = [_call_ns(one) / _call_ns(plain) - 1 for one, plain in pairs if _call_ns(plain)]
        call_ns, whole_ns = (statistics.median(of(one) for one in worked) for of in (_call_ns, _whole_ns))
        growth, call_growth = (statistics.median(values) if values else None for values in (whole, calls))
        outside_ns = statistics.median(_whole_ns(one) - one.get("calls_ns", 0) for one in worked)
        plain = [_whole_ns(one) for one in results[NONE] if one]
        fastest = min(map(_whole_ns, worked)) / min(plain) - 1 if plain else None
        table.add(
            (
                program, recorder, f"{call_ns:,.0f}", _shown(call_growth), f"{outside_ns / 1e6:,.0f}",
                f"{whole_ns / 1e9:.2f}", _shown(growth), f"{min(whole):+.1%} … {max(whole):+.1%}" if whole else "–",
                _shown(fastest), str(len(worked)),
            ),
            program=program, recorder=recorder, call_ns=call_ns, call_growth=call_growth, outside_ns=outside_ns,
            whole_ns=whole_ns, growth=growth, fastest=fastest, rounds=[dict(one) for one in rounds],
        )  # fmt: skip
        if recorder == runs.DEFAULT and growth is not None and growth > LIMIT:
            table.notes.append(f"{program} grows by {growth:.1%} under the default: more than {LIMIT:.0%}.")


def _whole_ns(one: Mapping[str, Any]) -> float:
    return float(one["whole_ns"])


def _call_ns(one: Mapping[str, Any]) -> float:
    return float(one.get("calls_ns", 0)) / max(float(one.get("calls", 0)), 1.0)


def _shown(growth: float | None) -> str:
    return "–" if growth is None else f"{growth:+.1%}"
