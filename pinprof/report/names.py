"""Names from recorded programs as reports show them; `printable` is the filter that all output shares."""

from __future__ import annotations

from pinprof.terminal import printable

__all__ = ["NO_CALLCHAIN", "printable", "shortened"]

NO_CALLCHAIN = "[no callchain]"
"""Stands for the stack of samples recorded without one."""


def shortened(name: str, width: int) -> str:
    """`printable`, with the middle of a name longer than `width` characters left out."""
    text = printable(name)
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
