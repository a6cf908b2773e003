"""`pinprof record --demo`: a copy of a small program with a known problem, to record, to read and to change."""

from __future__ import annotations

import sys
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import UsageError, unwritable

NAME = "pinprof-demo.py"
ABOUT = f"Recording {NAME}, a small program that makes new arrays in each step; this takes some seconds."
NEXT = f"Next: read {NAME}, or record your own program: pinprof record -- python train.py"


def command() -> tuple[str, ...]:
    """What runs the copy in the current directory, which is made unless it exists: somebody may have changed it."""
    copy = Path(NAME)
    source = Path(__file__).with_name("demo_program.py").read_text("utf-8")
    if copy.is_dir():
        raise UsageError(f"{NAME} is a directory.", "Run this in another directory.", "output")
    if not copy.exists():
        try:
            files.written(copy, source)
        except OSError as error:
            raise unwritable(copy, error, "Run this in a directory that you can write to.") from error
    return (sys.executable, NAME)
