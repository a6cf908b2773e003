"""The design of a report's page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pinprof.report import styles
from pinprof.report.data import LEVEL_TITLES
from pinprof.report.gather import ReportData
from pinprof.report.names import printable
from pinprof.report.page.design import Design, causes_data, colour_rules
from pinprof.report.section import ForScripts

SHEETS = ("styles/page.css", "styles/opportunities.css", "styles/activity.css")


def _data(report: ReportData) -> ForScripts:
    return ForScripts(
        {
            "causes": causes_data(report.causes),
            "events": [
                {"name": printable(event.name), "unit": event.unit, "spans": event.event.spans}
                for event in report.events
            ],
            "threads": [
                printable(thread.title) for thread in report.threads or (report.flame.threads if report.flame else ())
            ],
            "title": re.sub(r"[^\w.-]+", "-", report.capture.path) or "pinprof",
            "instances": None,
        }
    )


def _context(report: ReportData) -> Mapping[str, Any]:
    return {
        "report": report,
        "causes": report.by_key(),
        "cause_index": {cause.key: index for index, cause in enumerate(report.causes)},
        "level_titles": LEVEL_TITLES,
        "styles": styles,
    }


DESIGN = Design(
    lambda report: printable(report.capture.path),
    SHEETS,
    "report.js",
    lambda report: colour_rules(report.causes),
    data=_data,
    context=_context,
    flame=True,
)
