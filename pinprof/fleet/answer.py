"""What a fleet shows, from its tables: outliers, savings, distributions, change over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pinprof.base.units import format_count, format_counted, format_ns, format_share
from pinprof.fleet.database import undamaged
from pinprof.fleet.outliers import FEWEST_IN_GROUP, Facts, outliers_of
from pinprof.fleet.panel import FEWEST, Panel, panel_of
from pinprof.fleet.results import CAPTURE, Answer, Because, CauseSpread, FleetSaving, Member, Outlier
from pinprof.fleet.trends import FEWEST as FEWEST_IN_SERIES
from pinprof.fleet.trends import series_of

MOST_SAVINGS = 20
_MOST_LINES = 3
_MOST_CAUSES = 4


def answer_of(connection: Any) -> Answer:
    """The answer of the fleet whose views a connection has (`database.connect`); CaptureError where it is damaged."""
    with undamaged():
        return _answer_of(connection)


def _answer_of(connection: Any) -> Answer:
    panel = panel_of(connection)
    facts = _facts(connection)
    found = outliers_of(panel, facts)
    outliers = tuple(_with_lines(connection, panel, found.outliers))
    members = _members(connection, panel, facts)
    answer = Answer(
        headline="",
        captures=len(members),
        compared=len(panel.capture),
        unreadable=tuple(member for member in members if member.state != "read"),
        copies=int(_one(connection, "SELECT count(*) FROM places WHERE copy_of <> ''")),
        programs=_programs(connection, panel),
        outliers=outliers,
        tests=found.tests,
        untested=tuple(_untested(connection, panel, facts)),
        savings=_savings(connection),
        spreads=_spreads(panel),
        series=series_of(panel),
        members=members,
    )
    return replace(answer, headline=_headline(answer))


def _one(connection: Any, sql: str) -> Any:
    return connection.execute(sql).fetchone()[0]


def _facts(connection: Any) -> Facts:
    facts: dict[str, dict[str, str]] = {}
    for capture, dimension, value in connection.execute("SELECT capture, dimension, value FROM facts").fetchall():
        facts.setdefault(capture, {})[dimension] = value
    return facts


def _programs(connection: Any, panel: Panel) -> tuple[tuple[str, int, str], ...]:
    units = dict(zip(panel.programs, panel.unit, strict=True))
    rows = connection.execute(
        "SELECT coalesce(program, ''), count(*) FROM captures WHERE state = 'read' GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    return tuple((name, count, units.get(name, "")) for name, count in rows)


def _untested(connection: Any, panel: Panel, facts: Facts) -> list[str]:
    """What the tests leave out."""
    lines = []
    few = connection.execute(
        f"SELECT program FROM captures WHERE state = 'read' GROUP BY program HAVING count(*) < {FEWEST} ORDER BY 1"
    ).fetchall()
    if few:
        names = ", ".join(row[0] or "(no name)" for row in few[:5]) + (", …" if len(few) > 5 else "")
        lines.append(
            f"{format_counted(len(few), 'program has', 'programs have')} fewer than {FEWEST} captures, too few for a "
            f"comparison: {names}."
        )
    partial = int(
        _one(connection, "SELECT count(*) FROM captures WHERE state = 'read' AND outcome NOT IN ('complete', '')")
    )
    if partial:
        lines.append(f"{format_counted(partial, 'capture is', 'captures are')} of incomplete or failed runs.")
    timeless = int(_one(connection, "SELECT count(*) FROM captures WHERE state = 'read' AND coalesce(work_ns, 0) = 0"))
    if timeless:
        lines.append(f"{format_counted(timeless, 'capture samples', 'captures sample')} no time.")
    known = {name for mine in facts.values() for name in mine}
    missing = [name for name in ("host", "rank", "NUMA node") if name not in known]
    if missing:
        label = {"NUMA node": "numa=0", "host": "host=$(hostname)", "rank": "rank=0"}[missing[0]]
        lines.append(f"No capture has a label for {' or '.join(missing)}. Add one when recording: --label {label}.")
    if panel.capture and len(panel.capture) < 2 * FEWEST_IN_GROUP:
        lines.append(f"A group needs {FEWEST_IN_GROUP} captures, and as many outside it.")
    if len(panel.capture) < FEWEST_IN_SERIES:
        lines.append(f"Changes over time need {FEWEST_IN_SERIES} comparable captures.")
    return lines


def _with_lines(connection: Any, panel: Panel, outliers: Sequence[Outlier]) -> list[Outlier]:
    """The outliers; those of one capture with the lines that take more there than in the others of its program."""
    alone = [outlier for outlier in outliers if outlier.dimension == CAPTURE]
    if not alone:
        return list(outliers)
    row = {path: number for number, path in enumerate(panel.path)}
    names = [panel.capture[row[outlier.capture]] for outlier in alone]
    sums = connection.execute(
        "SELECT program, cause, file, line, function, sum(weight)::DOUBLE FROM costs JOIN captures USING (capture) "
        "WHERE measure = 'wall' AND phase = 'work' AND program IN (SELECT unnest(?)) AND state = 'read' GROUP BY ALL",
        [sorted({outlier.programs[0] for outlier in alone})],
    ).fetchall()
    total = {tuple(entry[:5]): entry[5] for entry in sums}
    work = {name: float(panel.count[panel.program == at].sum()) for at, name in enumerate(panel.programs)}
    own: dict[str, list[Any]] = {}
    for entry in connection.execute(
        "SELECT capture, cause, file, line, function, sum(weight)::DOUBLE FROM costs WHERE measure = 'wall' "
        "AND phase = 'work' AND capture IN (SELECT unnest(?)) GROUP BY ALL",
        [names],
    ).fetchall():
        own.setdefault(entry[0], []).append(entry)
    explained = {}
    for outlier, name in zip(alone, names, strict=True):
        count, program = float(panel.count[row[outlier.capture]]), outlier.programs[0]
        lines = []
        for _, cause, file, line, function, ns in own.get(name, []):
            others = (total.get((program, cause, file, line, function), ns) - ns) / max(work[program] - count, 1e-9)
            place = (f"{file}:{line}" if line else file) or function
            lines.append(Because(f"{cause} at {place}" if place else cause, ns / count, others))
        lines.sort(key=lambda one: -abs(one.value - one.expected))
        explained[outlier.capture] = replace(outlier, because=(*lines[:_MOST_LINES],))
    return [explained.get(outlier.capture, outlier) if outlier.capture else outlier for outlier in outliers]


def _savings(connection: Any) -> tuple[FleetSaving, ...]:
    # Of equals the same one every time, in whatever order captures were mapped.
    best = "ORDER BY saving_ns DESC, path, title, advice"
    rows = connection.execute(
        f"SELECT coalesce(program, ''), place, cure, first(advice {best}), first(title {best}), "
        "count(DISTINCT capture), sum(cost_ns), sum(saving_ns), sum(saving_low_ns), sum(saving_high_ns), "
        f"any_value(whole), first(path {best}) FROM opportunities JOIN captures USING (capture) JOIN "
        "(SELECT program, sum(critical_ns) AS whole FROM captures WHERE state = 'read' GROUP BY program) "
        "USING (program) GROUP BY program, place, cure "
        f"ORDER BY sum(saving_ns) DESC, program, place, cure LIMIT {MOST_SAVINGS}"
    ).fetchall()
    return tuple(
        FleetSaving(
            program=row[0],
            place=row[1],
            cure=row[2],
            advice=row[3],
            title=row[4],
            captures=row[5],
            cost_ns=int(row[6]),
            saving_ns=int(row[7]),
            saving_low_ns=int(row[8]),
            saving_high_ns=int(row[9]),
            whole_ns=int(row[10] or 0),
            example=row[11],
        )
        for row in rows
    )


def _spreads(panel: Panel) -> tuple[CauseSpread, ...]:
    """Of every cause of the work, in captures that can be compared."""
    found = []
    for at, cause in enumerate(panel.measures[1:], 1):
        share = panel.value[:, at] / panel.value[:, 0]
        if not (share >= 0.01).any():
            continue
        low, quarter, median, three, high = np.quantile(share, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
        most = int(share.argmax())
        total = int((panel.value[:, at] * panel.count).sum())
        found.append(
            CauseSpread(
                cause, total, int((share >= 0.01).sum()), low, quarter, median, three, high, float(share[most]),
                panel.path[most],
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: -one.total_ns))


def _members(connection: Any, panel: Panel, facts: Facts) -> tuple[Member, ...]:
    row = {capture: number for number, capture in enumerate(panel.capture)}
    causes: dict[str, list[tuple[str, float]]] = {}
    for capture, cause, share in connection.execute(
        "SELECT capture, cause, sum(weight) / any_value(work_ns) AS share FROM costs JOIN captures USING (capture) "
        "WHERE measure = 'wall' AND phase = 'work' AND work_ns > 0 GROUP BY capture, cause "
        f"QUALIFY row_number() OVER (PARTITION BY capture ORDER BY share DESC, cause) <= {_MOST_CAUSES} "
        "ORDER BY capture, share DESC, cause"
    ).fetchall():
        causes.setdefault(capture, []).append((cause, float(share)))
    members = []
    for capture, path, program, state, reason, started, work_ns, answer in connection.execute(
        "SELECT capture, path, program, coalesce(state, ''), reason, started_utc, work_ns, answer FROM captures "
        "ORDER BY path"
    ).fetchall():
        at = row.get(capture)
        expected = float(panel.work[at] * panel.count[at]) if at is not None else None
        members.append(
            Member(
                path, program or "", state, reason or "", started or "", work_ns, expected, answer or "",
                facts.get(capture, {}), tuple(causes.get(capture, ())),
            )
        )  # fmt: skip
    return tuple(members)


def _headline(answer: Answer) -> str:
    """The clearest group, how many captures are alone in differing, and what would save most, in two sentences."""
    groups = [one for one in answer.outliers if one.dimension != CAPTURE]
    alone = len(answer.outliers) - len(groups)
    slow = [one for one in groups if one.slower]
    parts = [f"{group_words(one)} {effect_words(one)}" for one in slow[:2]]
    if alone:
        parts.append(f"{format_counted(alone, 'capture stands', 'captures stand')} out alone")
    if not parts:
        captures = format_counted(answer.captures, "capture", "captures")
        parts = [f"no outliers among {captures}" if answer.compared else f"{captures}, none of them comparable"]
    first = "; ".join(parts) + "."
    if not answer.savings or not answer.savings[0].saving_ns:
        return _capital(first)
    best = answer.savings[0]
    where = f" at {best.place}" if best.place else ""
    share = f", {format_share(best.saving_ns, best.whole_ns)} of {best.program}" if best.whole_ns else ""
    return (
        f"{_capital(first)} {best.cure}{where} would save the most: {format_ns(best.saving_ns)} in "
        f"{format_counted(best.captures, 'capture', 'captures')}{share}."
    )


def group_words(one: Outlier) -> str:
    """`driver 570.86`."""
    return f"{one.dimension} {one.group}"


def effect_words(one: Outlier) -> str:
    """`makes 50 captures 31 % slower (fault.anon)`."""
    way = "slower" if one.slower else "faster"
    cause = f" ({one.because[0].what})" if one.because else ""
    return f"makes {format_count(one.captures)} captures {format_share(abs(one.ratio - 1), 1)} {way}{cause}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
