"""Tests that need uprobes, or a kernel that says where pages lie: one mark for all of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from pinprof.collect.native import tracefs
from pinprof.collect.placement import Placement


def _missing() -> str:
    """Why calls cannot be traced here; empty when they can."""
    if tracefs.kernel_crashed():
        return "the kernel has crashed since it was started: no probes"
    if shutil.which("cc") is None:
        return "cc is not installed"
    code = "from pinprof.collect.native import tracefs\nwith tracefs.probes([]): pass"
    trial = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if trial.returncode == 0:
        return ""
    return f"tracefs cannot be used: {trial.stderr.strip().splitlines()[-1:]}"


_REASON = _missing()
needs_probes = pytest.mark.skipif(bool(_REASON), reason=_REASON or "uprobes work")
needs_pages = pytest.mark.skipif(
    not Placement()._nodes(os.getpid(), [0]), reason="move_pages(2) does not say where pages lie"
)
