"""pinprof: find host-memory costs in CUDA and PyTorch programs, and what to change.

docs/python.md explains `pinprof.record(name)`, `pinprof.steps(…)`, `pinprof.open(path)`, `pinprof.open_fleet(folder)`
and `pinprof.phase(name)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pinprof.base.lazy_names import lazy_names

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
    # The command line starts without all of them.
    __getattr__ = lazy_names(
        "pinprof",
        {
            "Fleet": "fleet.access",
            "PinprofError": "base.errors",
            "Recorded": "api",
            "Recording": "api",
            "Result": "result",
            "RecordedSteps": "training",
            "open": "api:open_result",
            "open_fleet": "fleet.access",
            "phase": "scenario",
            "record": "api",
            "steps": "training",
        },
    )


def load_ipython_extension(shell: Any) -> None:
    """Load the notebook magic: `%load_ext pinprof`."""
    from pinprof import jupyter

    jupyter.load(shell)
