"""The processes of a program that run Python: found soon after they begin, among those that run none."""

from __future__ import annotations

import contextlib
import os
import time

from pinprof.collect.proc import alive, contents, tree
from pinprof.collect.python_frames import layout
from pinprof.collect.python_frames.interpreter import Interpreter
from pinprof.collect.python_frames.memory import Gone

SOON_S, _SELDOM_S = 0.02, 0.5
"""Between two attempts to find an interpreter in a process: doubling from one to the other."""
_SHARE = 0.02
"""The part of the time that the search may take in the long run."""
_AT_ONCE_S = 0.2
"""The CPU time that it may take at once: the first look into an interpreter's file takes tens of milliseconds."""
_SETTLED_S = 0.1
"""Once it has been tried for so long, a process has become what it is."""
_OURS = b"\0pinprof.collect"
"""In the command line of pinprof's own helpers: children of a program that records itself."""


class Processes:
    """A program's processes, the program itself first; `interpreters` are those to look at."""

    def __init__(self, pid: int, pause_s: float = SOON_S) -> None:
        """`pause_s`: between two searches, SOON_S at least."""
        self._root, self._pause_s = pid, pause_s
        self.interpreters: dict[int, Interpreter] = {}
        self.beginning: dict[int, Interpreter] = {}
        """Processes that will run Python but do not yet."""
        self._searched = self._next = 0.0
        self._owed_s = 0.0
        """The CPU time that the search took and the time since then does not yet allow."""
        self._attempts: dict[int, tuple[float, float]] = {}
        """pid → (when to try next, how long to wait then)."""
        self.unknown: dict[int, str] = {}
        """pid → the name of its interpreter, which cannot be read."""
        self._unread: set[str] = set()
        """Such names of processes that have ended."""

    @property
    def unread(self) -> set[str]:
        """Names of interpreters that could not be read."""
        return self._unread | set(self.unknown.values())

    def update(self, crowd: float = 1) -> None:
        """Look for interpreters that began, if it is time to; the search may take `crowd` times less than usual."""
        for pid, interpreter in list(self.beginning.items()):
            try:
                interpreter.list_threads()
                self._sort(pid, interpreter)
            except Gone:
                self.beginning.pop(pid)
        begun, used = time.monotonic(), time.thread_time()
        if begun < self._next:
            return
        present = {pid for pid in tree(self._root) if alive(pid)}
        self._attempts = {pid: attempt for pid, attempt in self._attempts.items() if pid in present}
        self.beginning = {pid: interpreter for pid, interpreter in self.beginning.items() if pid in present}
        self._unread.update(self.unknown.pop(pid) for pid in self.unknown.keys() - present)
        for pid in present - self.interpreters.keys():
            # Where looks are rare, what is gone by the next search is not worth one, nor is a copy of its parent.
            due, pause = self._attempts.setdefault(pid, (begun + self._pause_s - SOON_S, SOON_S))
            if begun >= due:
                self._attempts[pid] = begun + pause, min(2 * pause, _SELDOM_S)
                self._try(pid)
        self._owed_s = max(self._owed_s - _SHARE / crowd * (begun - self._searched), 0.0) + time.thread_time() - used
        self._searched = begun
        self._next = begun + min(max(self._pause_s, (self._owed_s - _AT_ONCE_S / crowd) * crowd / _SHARE), _SELDOM_S)

    def gone(self, pid: int) -> None:
        """A process whose interpreter is gone: it has ended, or become another program."""
        self.interpreters.pop(pid, None)
        self.beginning.pop(pid, None)
        self._attempts.pop(pid, None)

    def _try(self, pid: int) -> None:
        command = contents(f"/proc/{pid}/cmdline")
        # Until the program is itself it is a copy of pinprof, our parent, and a Python of its own.
        if pid == self._root and pid != os.getppid() and command == contents(f"/proc/{os.getppid()}/cmdline"):
            self._attempts.pop(pid)
            return
        if _OURS in command:
            return
        place = layout.of_process(pid)
        if place is None:
            if self._attempts[pid][1] > _SETTLED_S and (name := layout.interpreter_name(pid)):
                self.unknown[pid] = name
            return
        # On a busy machine it may take long to load its library.
        self.unknown.pop(pid, None)
        with contextlib.suppress(Gone):
            self._sort(pid, Interpreter(pid, *place))

    def _sort(self, pid: int, interpreter: Interpreter) -> None:
        """Among those that run, or those that will."""
        if interpreter.running:
            self.interpreters[pid] = interpreter
            self.beginning.pop(pid, None)
            self._attempts.pop(pid, None)
        else:
            self.beginning[pid] = interpreter
