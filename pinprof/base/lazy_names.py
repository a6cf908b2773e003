"""Names of a package that are imported when somebody asks for them: who wants one module does without all others."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`; `places`: name → module below the package, or `MODULE:NAME` where it differs there."""

    def imported(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, there = places[name].partition(":")
        return getattr(importlib.import_module(f"{package}.{module}"), there or name)

    return imported
