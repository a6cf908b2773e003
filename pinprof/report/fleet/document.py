"""The public JSON of `pinprof fleet --format json`, documented in docs/fleet.md.

Schema history: 1 — first version.
"""

from __future__ import annotations

import math
from typing import Any

from pinprof.fleet.results import Answer, Member, Outlier
from pinprof.report.names import without_home
from pinprof.report.section import picked

SCHEMA = 1


def to_json(answer: Answer) -> dict[str, Any]:
    """The whole answer."""
    document = {
        "schema": SCHEMA,
        **picked(answer, "headline captures compared copies tests"),
        "untested": list(answer.untested),
        "programs": [{"program": name, "captures": count, "per": unit} for name, count, unit in answer.programs],
        "outliers": [_outlier(one) for one in answer.outliers],
        "opportunities": [
            picked(
                one,
                "program place cure advice title captures cost_ns saving_ns saving_low_ns saving_high_ns whole_ns"
                " example",
            )
            for one in answer.savings
        ],
        "changes": [picked(one, "program at before after ratio p") for one in answer.changes],
        "causes": [
            picked(one, "cause total_ns captures low quarter median three_quarters high most most_at")
            for one in answer.spreads
        ],
        "unreadable": [{"capture": one.path, "reason": one.reason} for one in answer.unreadable],
        "members": [_member(one) for one in answer.members if one.state == "read"],
    }
    return dict(without_home(document))


def _outlier(one: Outlier) -> dict[str, Any]:
    return {
        "capture": one.capture or None,
        **picked(one, "dimension"),
        "group": one.group or None,
        **picked(one, "measure unit value expected work p captures"),
        "programs": list(one.programs),
        "because": [picked(cause, "what value expected") for cause in one.because],
        "alike": [{"dimension": name, "group": value} for name, value in one.alike],
    }


def _member(one: Member) -> dict[str, Any]:
    return {
        "capture": one.path,
        **picked(one, "program started work_ns expected_ns answer"),
        "facts": dict(one.facts),
        "causes": {name: share for name, share in one.causes if math.isfinite(share)},
    }
