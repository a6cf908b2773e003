"""What small files say, such as those of /proc and /sys."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str | None:
    """The content of a small file without its newline; None when it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The integer in a small file; None when there is none."""
    try:
        return int(text(path) or "")
    except ValueError:
        return None
