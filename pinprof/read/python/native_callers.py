"""The native functions between the interpreter and a CUDA call: calls with equal ones may come from one line."""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.data.gpu_functions import of_vendor
from pinprof.data.model import StackTable

_MOST = 12
"""Native callers next to CUDA that tell calls apart."""

Callers = tuple[tuple[str, str], ...]
"""Native functions with their libraries, innermost first."""


def callers_of(native: StackTable, node: int, loops: Sequence[bool]) -> Callers:
    """The native functions that led to a CUDA call, up to the interpreter, or as far as the stack is known."""
    frames = native.frames
    callers: list[tuple[str, str]] = []
    for above in native.chain(node):
        frame = int(native.frame[above])
        name, library = frames.function[frame], frames.dsos[int(frames.dso[frame])].name
        if loops[frame] or name.startswith("py::") or library == "[unknown]":
            break
        if of_vendor(name, library):
            callers.clear()
            continue
        callers.append((name, library))
        if len(callers) == _MOST:
            break
    return tuple(callers)
