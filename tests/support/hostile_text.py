"""Text that would control a terminal or reorder what surrounds it, and whether some is left."""

from __future__ import annotations

from pinprof.base import terminal

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202edesrever\u2066\r\x08"


def shows(text: str) -> bool:
    """Whether a text has no character that controls a terminal or reorders what surrounds it."""
    return text == "\n".join(terminal.printable(line) for line in text.split("\n"))
