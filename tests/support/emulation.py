"""Whether this system permits what scenarios do without a GPU, and a process that runs one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pinprof.workloads.backends.io_uring import Ring
from pinprof.workloads.backends.userfaultfd import Pager

from pinprof.base.errors import ScenarioError

MIB = 1 << 20


def permitted(mechanism: type[Ring] | type[Pager]) -> str:
    """Why this system forbids a mechanism; empty when it does not."""
    try:
        mechanism().close()
    except ScenarioError as error:
        return error.problem
    return ""


NO_IO_URING, NO_USERFAULTFD = permitted(Ring), permitted(Pager)


def need(name: str) -> None:
    reason = NO_USERFAULTFD if name == "uvm" else NO_IO_URING
    if reason:
        pytest.skip(reason)


def child(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pinprof.scenario", *arguments, "--backend", "host"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
