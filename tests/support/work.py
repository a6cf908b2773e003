"""How much a function does, counted and not timed: the same number on every machine, however busy."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType


def calls(function: Callable[[], object]) -> int:
    """Calls of Python and built-in functions that one run of a function makes in this thread.

    Work inside numpy is one call however long its arrays are.
    """
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def peak_bytes(function: Callable[[], object]) -> int:
    """Bytes that Python and numpy hold at most at a time while a function runs, beyond what they held before."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
