"""One process that runs Python: the stack of each of its threads, now.

The program runs on while frames.c reads its memory, a few microseconds a thread. The code object shows what has
stopped being a frame.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import islice
from typing import NamedTuple

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.python_frames.code import Code, are_still, bytecode_copy, identity, named_by, read_code
from pinprof.collect.python_frames.layout import InterpreterLayout
from pinprof.collect.python_frames.memory import Gone, read, word
from pinprof.collect.python_frames.names import NAMED_BY_INTERPRETER, thread_name
from pinprof.collect.python_frames.reader import (
    NO_STACK,
    UNKNOWN,
    UNNAMED,
    Places,
    Seen,
    SeenWindow,
    ThreadReader,
)  # fmt: skip

_MOST_THREADS, _MOST_INTERPRETERS = 4096, 64
_LISTED_S = 0.1
"""Between two walks along the list of threads, if it does not say itself that it has changed."""
_MOST_ASKED = 3
_MODULE, _MOST_MODULES = "<module>", 200
"""Code that is gone once it has run, so that another's may lie at its address at any time; a system call's worth."""
_TRAMPOLINE = "<interpreter trampoline>"
"""The frame by which 3.12 calls `__init__`."""


@dataclass
class SegmentTables:
    """Distinct frames and stacks of a segment, shared by all processes; numbers in the order of their appearance."""

    frames: dict[tuple[str, str, int], int] = field(default_factory=dict)
    stacks: dict[tuple[int, int], int] = field(default_factory=dict)
    """(caller's stack, frame)."""

    def stack(self, frames: list[tuple[str, str, int]]) -> int:
        """The number of a stack, outermost frame first."""
        number = NO_STACK
        for frame in frames:
            key = number, self.frames.setdefault(frame, len(self.frames))
            number = self.stacks.setdefault(key, len(self.stacks))
        return number


@dataclass
class _Thread:
    tid: int
    seen: Seen
    asked: int = 0
    """How often for its name."""


class InterpreterLook(NamedTuple):
    """What one look saw."""

    due_ns: int
    """When it was to be."""
    seen_ns: int
    """When it was."""
    stacks: list[tuple[int, int]]
    """(thread id, stack) of each thread; UNKNOWN where it could not be seen."""
    windows: dict[int, SeenWindow]
    """Thread id → when it saw that."""


class Interpreter:
    """A process and its threads; `Gone` when it has ended or become another program."""

    def __init__(self, pid: int, layout: InterpreterLayout, runtime: int) -> None:
        self.pid = pid
        self._layout, self._runtime = layout, runtime
        self._reader = ThreadReader(pid, layout)
        self._threads: dict[int, _Thread] = {}
        """By address."""
        self._listed = 0.0
        self._codes: dict[int, Code] = {}
        self._checked: set[int] = set()
        """Code that was known a moment ago to be what it was."""
        self._tables = SegmentTables()
        self._thread_bytes = max(layout.next_thread, layout.native_id) + 8
        self.list_threads()

    @property
    def running(self) -> bool:
        """Whether it has begun."""
        return bool(self._threads)

    def names(self) -> dict[int, str]:
        """Thread id → name, of threads that were not asked for theirs before."""
        names: dict[int, str] = {}
        if self._layout.version >= NAMED_BY_INTERPRETER:
            return names
        for thread in self._threads.values():
            if thread.tid != self.pid and thread.seen.outermost and thread.asked < _MOST_ASKED:
                thread.asked += 1
                with contextlib.suppress(LookupError, ValueError):
                    names[thread.tid] = thread_name(self.pid, self._layout, thread.seen.outermost)
                    thread.asked = _MOST_ASKED
        return names

    def list_threads(self) -> None:
        """Walk along the interpreters and their threads."""
        layout, pid = self._layout, self.pid
        known, self._threads = self._threads, {}
        heads: list[int] = []
        try:
            interpreter = word(pid, self._runtime + layout.interpreters)
            while interpreter and len(heads) < _MOST_INTERPRETERS:
                heads.append(interpreter + layout.threads)
                address = word(pid, heads[-1])
                while address and len(self._threads) < _MOST_THREADS:
                    raw = read(pid, address, self._thread_bytes)
                    tid = struct.unpack_from("<Q", raw, layout.native_id)[0]
                    if 0 < tid < 1 << 31:
                        before = known.get(address)
                        same = before is not None and before.tid == tid
                        self._threads[address] = before if before and same else _Thread(tid, Seen(address))
                    address = struct.unpack_from("<Q", raw, layout.next_thread)[0]
                interpreter = word(pid, interpreter + layout.next_interpreter)
        except LookupError:
            # It has just begun, ends, or a thread left while we came by.
            pass
        self._listed = time.monotonic()
        self._checked.clear()
        self._interpreters = len(heads)
        self._reader.follow(heads, [thread.seen for thread in self._threads.values()])

    def look(self, tables: SegmentTables) -> InterpreterLook:
        """Look at every thread once."""
        return self.looks(tables)[0][-1]

    def looks(
        self, tables: SegmentTables, due_ns: int = 0, until_ns: int = 0, gaps_ns: Sequence[int] = (0,)
    ) -> tuple[list[InterpreterLook], int]:
        """Look at every thread, and again until something is new; when the next look is due. As `ThreadReader.look`."""
        if tables is not self._tables:
            self._tables = tables
            self._reader.forget_names()
        looks, due_ns, all_there = self._reader.look(due_ns, until_ns, gaps_ns)
        threads, seen = list(self._threads.values()), []
        for look in looks:
            stacks, windows = [], {}
            for thread, (stack, *window) in zip(threads, look.samples, strict=True):
                # Only the last look has one.
                stacks.append((thread.tid, self._stack_of(thread.seen) if stack == UNNAMED else stack))
                windows[thread.tid] = SeenWindow(*window)
            seen.append(InterpreterLook(look.due_ns, look.seen_ns, stacks, windows))
        if not all_there or time.monotonic() - self._listed > _LISTED_S:
            self.list_threads()
            if not self._interpreters:
                raise Gone("no interpreter")
        return seen, due_ns

    def _stack_of(self, seen: Seen) -> int:
        """The number of the stack that a thread was seen in, from now on also for the reader."""
        places = seen.places
        try:
            self._check_modules(places)
            stack = self._tables.stack(self._named(places))
        except (LookupError, ValueError):
            return UNKNOWN
        modules = {address: code for address in places[::3] if (code := self._codes[address]).function == _MODULE}
        self._reader.name(seen, stack, *named_by(self._layout, modules))
        return stack

    def _check_modules(self, places: Places) -> None:
        """Forget modules' code in whose place there is another."""
        known = {
            address: code
            for address in places[::3]
            if (code := self._codes.get(address)) is not None and code.function == _MODULE
        }
        if known and not are_still(self.pid, self._layout, dict(islice(known.items(), _MOST_MODULES))):
            self._forget(known)

    def _forget(self, addresses: Iterable[int]) -> None:
        """No longer take code for what it was, nor the stacks that were named by it."""
        for address in addresses:
            del self._codes[address]
        self._reader.forget_names()

    def _named(self, places: Places) -> list[tuple[str, str, int]]:
        """Function, file and line of each frame, outermost first."""
        frames = []
        for place in range(len(places) - 3, -1, -3):
            address, instruction, copy = places[place : place + 3]
            code = self._codes.get(address)
            old = address not in self._checked
            if code is not None and old and identity(self.pid, self._layout, address) != code.identity:
                self._forget((address,))
                code = None
            if code is None:
                code = self._codes[address] = read_code(self.pid, self._layout, address)
            self._checked.add(address)
            if code.function == _TRAMPOLINE:
                continue
            start = bytecode_copy(self.pid, self._layout, address, copy) if copy else code.bytecode
            frames.append((code.function, code.file, code.line((instruction - start) >> 1)))
        return frames
