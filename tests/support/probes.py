"""Tests that need uprobes: one mark for all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from pinprof.collect.native import tracefs


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
