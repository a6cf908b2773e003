"""Recording processes of pinprof's own code: forked where that costs nothing, else started as Python programs.

A new Python takes a tenth of a second of CPU time to import what it runs; `pinprof record` has most of it in
memory. So it forks, as long as it has one thread. A program that records itself may have threads, a context of the GPU
and gigabytes of memory: it starts Python anew.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pinprof.collect.collector import Waiter
from pinprof.collect.recorder import Recorder

_PR_SET_NAME = 15
_READY_TIMEOUT_S = 60.0
_SELF = Path("/proc/self")


def may_fork() -> bool:
    """Whether this process has one thread: what others hold locked would stay so in a child."""
    return sum(1 for _ in (_SELF / "task").iterdir()) == 1


def started(module: str, name: str, arguments: Sequence[str], log: Path, *, fork: bool) -> Recorder:
    """`python -m MODULE ARGUMENTS`, or a fork that does the same: `main(arguments)` of its `__main__`.

    `name` is what `ps` shows of a fork (15 bytes). OSError where no process can be started. A new Python has its
    standard library alone (-S), which is why `main` may import nothing else.
    """
    if fork and may_fork():
        return Recorder.forked(lambda: _run(module, name, arguments), log)
    # -P: not what lies in the current directory.
    argv = [sys.executable, "-P", "-S", "-m", module, *arguments]
    return Recorder(argv, collector_environment(), log)


def said(log: Path) -> str:
    """What such processes printed so far."""
    with contextlib.suppress(OSError):
        return log.read_text("utf-8", "replace")
    return ""


def await_word(word: str, recorder: Recorder, log: Path, waiter: Waiter) -> None:
    """Wait until a process has printed a word, until it ends, or for a minute: no more is lost than its start."""
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < _READY_TIMEOUT_S and recorder.wait_status is None:
        if word in said(log):
            break
        # On a busy machine it takes long, and the longer, the more of it goes to looks.
        waiter.wait_ready(max(0.01, 0.05 * waited))


def collector_environment() -> dict[str, str]:
    """Ours, without what changes how Python starts; the package is found where this process found it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PYTHONPATH": str(Path(__file__).parents[2])}


def _run(module: str, name: str, arguments: Sequence[str]) -> int:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)
    main: Callable[[Sequence[str]], int] = importlib.import_module(f"{module}.__main__").main
    return main(arguments)
