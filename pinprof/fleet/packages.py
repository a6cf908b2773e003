"""The packages of the extra `pinprof[fleet]`, imported where they are needed, and what to say where one is missing."""

from __future__ import annotations

import importlib
from typing import Any

from pinprof.base.errors import ToolMissing

INSTALL = "Install it: pip install 'pinprof[fleet]'."


def package(name: str, what: str) -> Any:
    """The module `name`; ToolMissing with the command that installs it, where `what` needs it and it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = (error.name or name).partition(".")[0]
        raise ToolMissing(f"{what} needs the Python package {missing}.", INSTALL, "fleet-extra") from error


def has(name: str) -> bool:
    """Whether a module can be imported."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
