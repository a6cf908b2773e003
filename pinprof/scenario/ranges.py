"""`phase()`: an NVTX range of domain `pinprof` and, at the same instants, a line of ranges.jsonl.

One line for each closed range, children before their parents:

    {"name": "init", "domain": "pinprof", "start_ns": …, "end_ns": …, "pid": …, "tid": …, "depth": 1}

Times are CLOCK_MONOTONIC, `tid` is the kernel's thread id, `depth` counts the open phases around it in its thread.
Lines are kept in memory while any phase of the thread is open and written, in one write(2), after the outermost one
has closed: recording never disturbs what it times, and a process that is killed loses at most the phases under the
outermost one that was open. An exception closes its phases on the way out, so those are kept.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pinprof.base import files
from pinprof.base.terminal import say

DOMAIN = "pinprof"
RANGES_VARIABLE = "PINPROF_RANGES"
"""Environment variable: the file to append to; phases are NVTX ranges only when it is unset."""

_FLUSH_AT = 4096
"""Closed phases held under one open phase before they are written anyway, so that memory stays bounded."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.closed: list[tuple[str, int, int, int]] = []


_state = _ThreadState()
_failed = False


def _forget() -> None:
    """A forked child neither owns nor writes the phases that its parent has open."""
    global _state
    _state = _ThreadState()


os.register_at_fork(after_in_child=_forget)


class _NoDomain:
    """Stands for NVTX where the package nvtx is not installed; phases go to the file of ranges all the same."""

    def get_event_attributes(self, message: str) -> None:
        """Nothing, as no tool sees the event."""

    def push_range(self, attributes: None) -> None:
        """Open nothing."""

    def pop_range(self) -> None:
        """Close nothing."""


@functools.cache
def _nvtx_domain() -> Any:
    try:
        import nvtx
    except ModuleNotFoundError:
        return _NoDomain()
    return nvtx.get_domain(DOMAIN)


@functools.cache
def _nvtx_attributes(name: str) -> Any:
    return _nvtx_domain().get_event_attributes(message=name)


class OpenPhase:
    """One open range; see `phase`."""

    __slots__ = ("_closed", "_depth", "_pid", "_start_ns", "name")

    def __init__(self, name: str, closed: Callable[[str, int], None] | None = None) -> None:
        self.name = name
        self._closed = closed

    def __enter__(self) -> Self:
        self._pid = os.getpid()
        self._depth = _state.depth
        _state.depth += 1
        _nvtx_domain().push_range(_nvtx_attributes(self.name))
        self._start_ns = time.monotonic_ns()
        return self

    def __exit__(self, *_: object) -> None:
        end_ns = time.monotonic_ns()
        _nvtx_domain().pop_range()
        if os.getpid() != self._pid:
            return
        _state.depth = self._depth
        _state.closed.append((self.name, self._start_ns, end_ns, self._depth))
        if self._depth == 0 or len(_state.closed) >= _FLUSH_AT:
            flush()
        if self._closed is not None:
            self._closed(self.name, end_ns - self._start_ns)


def prepare() -> None:
    """Import what the first phase needs, so that it is not part of what is timed."""
    _nvtx_domain()


def phase(name: str) -> OpenPhase:
    """Mark a phase of the program as `name`: a context manager. Phases nest, and each thread has its own."""
    return OpenPhase(name)


class PhaseInto:
    """A phase from its construction to `end`; it and those inside it go into a file, whatever the environment says."""

    def __init__(self, name: str, path: Path) -> None:
        self._before = os.environ.get(RANGES_VARIABLE)
        os.environ[RANGES_VARIABLE] = str(path)
        self._phase = phase(name)
        self._phase.__enter__()

    def end(self) -> None:
        """Until here; the environment is as it was."""
        self._phase.__exit__()
        flush()
        if self._before is None:
            os.environ.pop(RANGES_VARIABLE, None)
        else:
            os.environ[RANGES_VARIABLE] = self._before


def flush() -> None:
    """Append this thread's closed phases to the file; one that cannot be written ends the recording of ranges only."""
    global _failed
    closed, _state.closed = _state.closed, []
    path = os.environ.get(RANGES_VARIABLE)
    if not path or _failed:
        return
    pid, tid = os.getpid(), threading.get_native_id()
    lines = []
    for name, start_ns, end_ns, depth in closed:
        times = {"start_ns": start_ns, "end_ns": end_ns}
        lines.append(json.dumps({"name": name, "domain": DOMAIN, **times, "pid": pid, "tid": tid, "depth": depth}))
    data = ("\n".join(lines) + "\n").encode()
    try:
        file = files.append(path)
        try:
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)
    except OSError as error:
        _failed = True
        say(f"pinprof: recording of ranges has stopped: {error.strerror}: {path}", error=True)
