"""pinprof: where host-memory time goes between CPU and GPU.

`pinprof.record(name)`, `pinprof.open(path)`, `pinprof.open_fleet(folder)` and `pinprof.phase(name)` are explained in
docs/python.md.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Fleet", "Recording", "Result", "__version__", "open", "open_fleet", "phase", "record"]


def __getattr__(name: str) -> Any:
    """What a program asks for is imported when it asks: the command line starts without it."""
    if name in ("record", "Recording", "Result"):
        from pinprof import api

        return getattr(api, name)
    if name == "open":
        from pinprof.api import open_result

        return open_result
    if name in ("open_fleet", "Fleet"):
        from pinprof.fleet import access

        return getattr(access, name)
    if name == "phase":
        from pinprof.scenario import phase

        return phase
    raise AttributeError(f"module 'pinprof' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext pinprof` in a notebook."""
    from pinprof import jupyter

    jupyter.load(shell)
