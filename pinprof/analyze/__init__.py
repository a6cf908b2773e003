"""From a capture to an explanation: every sample gets one cause, every range its shares, every rule its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinprof.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from pinprof.analyze.attribution.attribute import GROUPS, Attribution
    from pinprof.analyze.attribution.categories import CATEGORIES, LEAF, LEVELS
    from pinprof.analyze.attribution.row import Category
    from pinprof.analyze.attribution.work import WORK_ATTRIBUTES
    from pinprof.analyze.results import EventResult, Finding, RangeResult
    from pinprof.analyze.run import Run
    from pinprof.analyze.selection import Selection
    from pinprof.analyze.whole import analyze

__all__ = [
    "CATEGORIES", "GROUPS", "LEAF", "LEVELS", "WORK_ATTRIBUTES", "Attribution", "Category", "EventResult",
    "Finding", "RangeResult", "Run", "Selection", "analyze",
]  # fmt: skip

if not TYPE_CHECKING:
    # Folding stacks needs none of this.
    __getattr__ = lazy_names(
        "pinprof.analyze",
        {
            "CATEGORIES": "attribution.categories",
            "GROUPS": "attribution.attribute",
            "LEAF": "attribution.categories",
            "LEVELS": "attribution.categories",
            "WORK_ATTRIBUTES": "attribution.work",
            "Attribution": "attribution.attribute",
            "Category": "attribution.row",
            "EventResult": "results",
            "Finding": "results",
            "RangeResult": "results",
            "Run": "run",
            "Selection": "selection",
            "analyze": "whole",
        },
    )
