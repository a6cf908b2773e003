"""From a capture to an explanation: every sample gets one cause, every range its shares, every rule its verdict."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    _PLACES = {
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
    }

    def __getattr__(name: str) -> Any:
        """A name is imported when it is asked for: who wants one module does without all of them."""
        if name not in _PLACES:
            raise AttributeError(f"module 'pinprof.analyze' has no attribute {name!r}")
        return getattr(importlib.import_module(f"pinprof.analyze.{_PLACES[name]}"), name)
