"""pinprof: find host-memory costs in CUDA and PyTorch programs, and what to change.

docs/python.md explains `pinprof.record(name)`, `pinprof.steps(…)`, `pinprof.open(path)`, `pinprof.open_fleet(folder)`
and `pinprof.phase(name)`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinprof.api import Recorded, Recording, record
    from pinprof.api import open_result as open  # noqa: A004 - pinprof.open
    from pinprof.base.errors import PinprofError
    from pinprof.fleet.access import Fleet, open_fleet
    from pinprof.result import Result
    from pinprof.scenario.ranges import phase
    from pinprof.training import RecordedSteps, steps

__version__ = "0.1.0"
__all__ = [
    "Fleet",
    "PinprofError",
    "Recorded",
    "RecordedSteps",
    "Recording",
    "Result",
    "__version__",
    "open",
    "open_fleet",
    "phase",
    "record",
    "steps",
]

if not TYPE_CHECKING:
    _PLACES = {
        "Fleet": "fleet.access",
        "PinprofError": "base.errors",
        "Recorded": "api",
        "Recording": "api",
        "Result": "result",
        "RecordedSteps": "training",
        "open": "api",
        "open_fleet": "fleet.access",
        "phase": "scenario",
        "record": "api",
        "steps": "training",
    }

    def __getattr__(name: str) -> Any:
        """A name is imported when a program asks for it: the command line starts without all of them."""
        if name not in _PLACES:
            raise AttributeError(f"module 'pinprof' has no attribute {name!r}")
        module = importlib.import_module(f"pinprof.{_PLACES[name]}")
        return getattr(module, "open_result" if name == "open" else name)


def load_ipython_extension(shell: Any) -> None:
    """Load the notebook magic: `%load_ext pinprof`."""
    from pinprof import jupyter

    jupyter.load(shell)
