"""One process that runs Python: the stack of each of its threads, now.

A look is one system call for everything that was where it lies now at the look before: the threads, the pieces of
memory that their frames lie in, and the frames that lie elsewhere (of generators, and those by which C calls Python).
What has moved is read after it. The program runs on meanwhile, so frames are of within some microseconds; what is no
frame any more is told by its code object.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from pinprof.collect.python_frames.code import Code, bytecode_copy, identity, read_code
from pinprof.collect.python_frames.layout import Layout
from pinprof.collect.python_frames.memory import MOST_PLACES, Gather, Gone, read, word
from pinprof.collect.python_frames.names import NAMED_BY_INTERPRETER, thread_name

NO_STACK = -1
UNKNOWN = -2
"""A look that did not succeed: the thread's frames changed too much meanwhile."""

MOST_FRAMES = 1024
_MOST_THREADS = 4096
_WINDOW = 1024
"""Bytes read beyond what the frames took before: room for some more."""
_MOST_WINDOW = 64 << 10
_LISTED_S = 0.1
"""Between two walks along the list of threads, if it does not say itself that it has changed."""
_SHIM = 3
"""`owner` of the frame by which C calls Python, from there on."""
_FRAME_BYTES = 80
_MOST_ASKED = 3


@dataclass
class Tables:
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
    address: int
    tid: int
    chunk: int = 0
    window: int = 0
    places: list[int] = field(default_factory=list)
    """Frames outside the chunk, innermost first."""
    cframe: int = 0
    at: int = 0
    """Where in the buffer this thread's part begins."""
    seen: bytes = b""
    stack: int = UNKNOWN
    outermost: int = 0
    """The frame that its function lies in."""
    asked: int = 0
    """How often for its name."""


class Interpreter:
    """A process and its threads; `Gone` when it has ended or become another program."""

    def __init__(self, pid: int, layout: Layout, runtime: int) -> None:
        self.pid = pid
        self.seen_ns = 0
        """When the last look was."""
        self._layout, self._runtime = layout, runtime
        self._threads: list[_Thread] = []
        self._heads: list[int] = []
        """Where the first thread of each interpreter is noted."""
        self._listed = 0.0
        self._gather = Gather(pid, [])
        self._codes: dict[int, Code] = {}
        self._keys: dict[tuple[int, ...], int] = {}
        self._tables = Tables()
        self._thread_bytes = max(layout.chunk + 16, layout.frame + 8, layout.native_id + 8)
        fields = sorted([(layout.code, "Q"), (layout.previous, "Q"), (layout.instruction, "Q"), (layout.owner, "B")])
        self._frame = struct.Struct(_padded(fields))
        self._order = [[layout.code, layout.previous, layout.instruction, layout.owner].index(at) for at, _ in fields]
        copies = layout.bytecode_copy
        self._copy = struct.Struct(f"<{copies}xi") if copies else None
        self.list_threads()

    @property
    def running(self) -> bool:
        """Whether it has begun."""
        return bool(self._threads)

    def names(self) -> dict[int, str]:
        """Thread id → name, of threads that were not asked for theirs before."""
        found: dict[int, str] = {}
        if self._layout.version >= NAMED_BY_INTERPRETER:
            return found
        for thread in self._threads:
            if thread.tid != self.pid and thread.outermost and thread.asked < _MOST_ASKED:
                thread.asked += 1
                with contextlib.suppress(LookupError, ValueError):
                    found[thread.tid] = thread_name(self.pid, self._layout, thread.outermost)
                    thread.asked = _MOST_ASKED
        return found

    def list_threads(self) -> None:
        """Walk along the interpreters and their threads."""
        layout, pid = self._layout, self.pid
        known = {(thread.address, thread.tid): thread for thread in self._threads}
        self._threads, self._heads = [], []
        try:
            interpreter = word(pid, self._runtime + layout.interpreters)
            while interpreter and len(self._heads) < 64:
                self._heads.append(interpreter + layout.threads)
                address = word(pid, self._heads[-1])
                while address and len(self._threads) < _MOST_THREADS:
                    raw = read(pid, address, self._thread_bytes)
                    tid = struct.unpack_from("<Q", raw, layout.native_id)[0]
                    if 0 < tid < 1 << 31:
                        self._threads.append(known.get((address, tid)) or _Thread(address, tid))
                    address = struct.unpack_from("<Q", raw, layout.next_thread)[0]
                interpreter = word(pid, interpreter + layout.next_interpreter)
        except LookupError:
            # It has just begun, ends, or a thread left while we came by.
            pass
        self._listed = time.monotonic()
        self._arrange()

    def look(self, tables: Tables) -> Iterator[tuple[int, int]]:
        """(thread id, stack) of every thread; UNKNOWN where it could not be seen."""
        if tables is not self._tables:
            self._tables = tables
            self._keys.clear()
            for thread in self._threads:
                thread.seen = b""
        begun = time.monotonic_ns()
        if not self._gather.read():
            # A thread or its memory has gone, or the process has become another.
            self.list_threads()
            begun = time.monotonic_ns()
            if not self._gather.read():
                if not self._heads:
                    raise Gone("no interpreter")
                return
        self.seen_ns = (begun + time.monotonic_ns()) // 2
        moved = self._changed()
        for thread in self._threads:
            before = thread.chunk, thread.window, thread.cframe, thread.places
            try:
                number = self._stack_of(thread)
            except (LookupError, ValueError):
                number, thread.seen = UNKNOWN, b""
            moved |= before != (thread.chunk, thread.window, thread.cframe, thread.places)
            yield thread.tid, number
        if time.monotonic() - self._listed > _LISTED_S:
            self.list_threads()
        elif moved:
            self._arrange()

    def _changed(self) -> bool:
        """Whether threads came; they are in the next look then."""
        first = {thread.address for thread in self._threads}
        count = len(self._heads)
        heads = struct.unpack_from(f"<{count}Q", self._gather.buffer) if count else ()
        if any(head and head not in first for head in heads):
            self._listed = 0.0
        return False

    def _arrange(self) -> None:
        """The places to read in the next look."""
        places = [(head, 8) for head in self._heads]
        at = 8 * len(places)
        for thread in self._threads:
            mine = [(thread.address, self._thread_bytes)]
            if self._layout.frame_in_cframe is not None:
                mine.append((thread.cframe or thread.address, 16))
            if thread.window:
                mine.append((thread.chunk, thread.window))
            mine += [(place, _FRAME_BYTES) for place in thread.places]
            if len(places) + len(mine) > MOST_PLACES:
                self._threads = self._threads[: self._threads.index(thread)]
                break
            thread.at, thread.seen = at, b""
            places += mine
            at += sum(length for _, length in mine)
        self._gather = Gather(self.pid, places)

    def _stack_of(self, thread: _Thread) -> int:
        layout, buffer = self._layout, self._gather.buffer
        end = thread.at + self._thread_bytes
        chunk, top = struct.unpack_from("<QQ", buffer, thread.at + layout.chunk)
        (frame,) = struct.unpack_from("<Q", buffer, thread.at + layout.frame)
        if layout.frame_in_cframe is not None:
            cframe, inside = frame, layout.frame_in_cframe
            if cframe == thread.cframe:
                (frame,) = struct.unpack_from("<Q", buffer, end + inside)
            else:
                frame = word(self.pid, cframe + inside) if cframe else 0
                thread.cframe = cframe
            end += 16
        if not frame:
            return NO_STACK
        window, places = thread.window, thread.places
        known, whole = thread.chunk, end + window + _FRAME_BYTES * len(places)
        now = bytes(buffer[thread.at : whole])
        if now == thread.seen:
            return thread.stack
        key, elsewhere, thread.outermost = self._walk(frame, known, end, window, places)
        thread.chunk = chunk
        wanted = min(max(top - chunk, 0) + _WINDOW, _MOST_WINDOW) & -256
        if chunk != known or not window // 2 <= wanted <= window + _WINDOW:
            thread.window = wanted if chunk else 0
        thread.places = elsewhere[:64]
        stack = self._keys.get(key)
        if stack is None:
            stack = self._keys[key] = self._tables.stack(self._named(key))
        # Nothing of it lay where this look did not read.
        thread.seen = now if elsewhere == places else b""
        thread.stack = stack
        return stack

    def _walk(
        self, frame: int, chunk: int, at: int, window: int, places: list[int]
    ) -> tuple[tuple[int, ...], list[int], int]:
        """(code, instruction, code, instruction …), innermost first; the frames outside the chunk; the outermost."""
        buffer, unpack, order = self._gather.buffer, self._frame.unpack_from, self._order
        size, behind = self._frame.size, at + window
        key: list[int] = []
        elsewhere: list[int] = []
        row = [0, 0, 0, 0]
        last = 0
        for _ in range(MOST_FRAMES):
            if not frame:
                return tuple(key), elsewhere, last
            offset = frame - chunk
            if 0 <= offset <= window - size:
                source, place = buffer, at + offset
            else:
                source, place = self._outside(frame, places, behind)
                elsewhere.append(frame)
            for target, value in zip(order, unpack(source, place), strict=True):
                row[target] = value
            here = frame
            code, frame, instruction, owner = row
            if owner < _SHIM and code:
                last = here
                code &= -8
                if self._copy is not None and (number := self._copy.unpack_from(source, place)[0]):
                    start = bytecode_copy(self.pid, self._layout, code, number)
                    instruction += code + self._layout.bytecode - start
                key += (code, instruction)
        raise ValueError("frames without end")

    def _outside(self, frame: int, places: list[int], behind: int) -> tuple[bytearray | bytes, int]:
        if frame in places:
            return self._gather.buffer, behind + _FRAME_BYTES * places.index(frame)
        return read(self.pid, frame, _FRAME_BYTES), 0

    def _named(self, key: tuple[int, ...]) -> list[tuple[str, str, int]]:
        """Function, file and line of each frame, outermost first."""
        frames = []
        for place in range(len(key) - 2, -1, -2):
            address, instruction = key[place], key[place + 1]
            code = self._codes.get(address)
            if code is None or identity(self.pid, self._layout, address) != code.identity:
                code = self._codes[address] = read_code(self.pid, self._layout, address)
            frames.append((code.function, code.file, code.line((instruction - code.bytecode) >> 1)))
        return frames


def _padded(fields: list[tuple[int, str]]) -> str:
    """A format of `struct` for fields at these offsets."""
    text, at = "<", 0
    for offset, kind in fields:
        text += f"{offset - at}x{kind}"
        at = offset + struct.calcsize(f"<{kind}")
    return text
