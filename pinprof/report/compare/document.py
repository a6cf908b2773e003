"""The public JSON of `pinprof diff --format json`, documented in docs/diff.md.

Schema history: 1 — first version.
"""

from __future__ import annotations

import math
from typing import Any

from pinprof.compare.results import ComparedStacks, Difference, Row, Side
from pinprof.compare.stacks import unmatched
from pinprof.report.compare.figures import paths
from pinprof.report.names import without_home
from pinprof.report.section import picked

SCHEMA = 1


def to_json(difference: Difference) -> dict[str, Any]:
    """The whole difference; figures per unit of work, where their row does not say `run`."""
    document = {
        "schema": SCHEMA,
        "headline": difference.headline,
        "tested": difference.tested,
        "work": picked(difference.work, "name how"),
        "before": _side(difference.before),
        "after": _side(difference.after),
        "shares": difference.shares,
        "surroundings": [picked(one, "what before after effect refuses") for one in difference.surroundings],
        "rows": [_row(row) for row in difference.rows],
        "opportunities": [
            picked(
                one,
                "fate title place cure phase before_cost_ns after_cost_ns before_saving_ns after_saving_ns before_runs"
                " after_runs",
            )
            for one in difference.opportunities
        ],
        "events": [_event(stacks) for stacks in difference.stacks],
        "notes": list(difference.notes),
    }
    return dict(without_home(document))


def _side(side: Side) -> dict[str, Any]:
    return picked(side, "name runs command units duration_ns") | {"recordings": paths(side)}


def _row(row: Row) -> dict[str, Any]:
    tested = row.estimate is not None and not row.untested
    low, high = row.estimate.ratio_interval() if row.estimate and tested and row.state == "both" else (None, None)
    return {
        **picked(row, "family name was unit per exact state"),
        "before": row.mean_before,
        "after": row.mean_after,
        "before_runs": list(row.before),
        "after_runs": list(row.after),
        "before_samples": row.samples[0],
        "after_samples": row.samples[1],
        "change": row.change,
        "ratio": None if row.ratio is None else {"low": low, "value": row.ratio, "high": high},
        "significant": row.significant,
        "p": row.chance,
        "detectable": None if row.detectable is None or math.isinf(row.detectable) else row.detectable,
        "more_runs": None if row.more_runs is None else picked(row.more_runs, "runs change"),
        "untested": row.untested,
    }


def _event(stacks: ComparedStacks) -> dict[str, Any]:
    apart = unmatched(stacks)
    return {
        **picked(stacks, "event unit"),
        "before": float(stacks.before.sum()),
        "after": float(stacks.after.sum()),
        "before_samples": int(stacks.before_samples.sum()),
        "after_samples": int(stacks.after_samples.sum()),
        "before_unmatched": apart["only"][0],
        "after_unmatched": apart["only"][1],
        "before_renamed": apart["renamed"][0],
        "after_renamed": apart["renamed"][1],
    }
