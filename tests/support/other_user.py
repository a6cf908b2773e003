"""Another user, who may run this Python or one like it."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.situation import SITUATION

NOBODY = 65534
AS_NOBODY = (*SITUATION, f"user={NOBODY}", "--")
"""Begins a command of that user."""
_AS_INSTALLED = Path(__file__).parent / "as_installed"
_ASK = "import os, sys, numpy, pinprof.cli.record, pinprof.workloads; sys.exit(not os.access(sys.executable, os.X_OK))"


@cache
def _found() -> tuple[str, str]:
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    packages = [entry for entry in sys.path if entry.endswith("-packages") or entry in given]
    path = os.pathsep.join([str(_AS_INSTALLED), *packages])
    for interpreter in (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}"):
        asked = [*AS_NOBODY, interpreter, "-c", _ASK]
        if subprocess.run(asked, capture_output=True, env={"PYTHONPATH": path}, check=False).returncode == 0:
            return interpreter, path
    return "", ""


def reachable_python() -> tuple[str, str]:
    """A Python that anybody may run with this one's packages, and the path to them."""
    found = _found()
    if not found[0]:
        pytest.skip("no Python here that another user may run")
    return found
