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
from collections.abc import Iterable, Iterator
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
_LONGEST_NS = 200_000
"""A look that takes longer does not count: this process was kept from running meanwhile, and when it was is unknown."""
_WORD = struct.Struct("<Q")
_ELSEWHERE = 4
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
    elsewhere: list[int] = field(default_factory=lambda: [0] * _ELSEWHERE)
    """Frames outside the chunk that each look reads too, innermost first."""
    cframe: int = 0
    at: int = 0
    """Where in the buffer this thread's part begins."""
    place: int = 0
    """Number of its first place in the gather."""
    seen: bytearray = field(default_factory=bytearray)
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
        self._gather = Gather(pid, [(runtime, 8)])
        self._codes: dict[int, Code] = {}
        self._keys: dict[tuple[int, ...], int] = {}
        self._tables = Tables()
        self._thread_bytes = max(layout.chunk + 16, layout.frame + 8, layout.native_id + 8)
        # In all versions they lie in this order.
        fields = (layout.code, "Q"), (layout.previous, "Q"), (layout.instruction, "Q"), (layout.owner, "B")
        self._frame = struct.Struct(_padded(fields))
        self._links = struct.Struct(_padded([(layout.frame, "Q"), (layout.chunk, "QQ")]))
        self._single = Gather(pid, [(0, _FRAME_BYTES)])
        copies = layout.bytecode_copy
        self._copy = struct.Struct(f"<{copies}xi") if copies else None
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
        for thread in self._threads:
            if thread.tid != self.pid and thread.outermost and thread.asked < _MOST_ASKED:
                thread.asked += 1
                with contextlib.suppress(LookupError, ValueError):
                    names[thread.tid] = thread_name(self.pid, self._layout, thread.outermost)
                    thread.asked = _MOST_ASKED
        return names

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
                thread.seen = bytearray()
        begun = time.monotonic_ns()
        if not self._gather.read():
            # A thread, a frame or a chunk has gone, or the process has become another.
            for thread in self._threads:
                thread.chunk = thread.window = 0
            self.list_threads()
            begun = time.monotonic_ns()
            if not self._gather.read():
                if not self._heads:
                    raise Gone("no interpreter")
                return
        ended = time.monotonic_ns()
        if ended - begun > _LONGEST_NS:
            return
        self.seen_ns = (begun + ended) // 2
        first = {thread.address for thread in self._threads}
        heads = struct.unpack_from(f"<{len(self._heads)}Q", self._gather.buffer)
        grown = False
        for thread in self._threads:
            window = thread.window
            try:
                number = self._stack_of(thread)
            except (LookupError, ValueError):
                number, thread.seen = UNKNOWN, bytearray()
            grown |= thread.window != window
            yield thread.tid, number
        if not first.issuperset(filter(None, heads)) or time.monotonic() - self._listed > _LISTED_S:
            self.list_threads()
        elif grown:
            self._arrange()

    def _arrange(self) -> None:
        """The places to read in the next look: of each thread it, its cframe, frames outside the chunk, and this."""
        places = [(head, 8) for head in self._heads]
        at = 8 * len(places)
        for thread in self._threads:
            if len(places) + _ELSEWHERE + 3 > MOST_PLACES:
                self._threads = self._threads[: self._threads.index(thread)]
                break
            thread.at, thread.place, thread.seen = at, len(places), bytearray()
            thread.cframe, thread.elsewhere = 0, [0] * _ELSEWHERE
            mine = [(thread.address, self._thread_bytes), (thread.address, 16)]
            mine += [(thread.address, _FRAME_BYTES)] * _ELSEWHERE
            if thread.window:
                mine.append((thread.chunk, thread.window))
            places += mine
            at += sum(length for _, length in mine)
        self._gather = Gather(self.pid, places)

    def _stack_of(self, thread: _Thread) -> int:
        buffer, gather = self._gather.buffer, self._gather
        frame, chunk, top = self._links.unpack_from(buffer, thread.at)
        if (inside := self._layout.frame_in_cframe) is not None:
            cframe = frame
            if cframe == thread.cframe:
                (frame,) = _WORD.unpack_from(buffer, thread.at + self._thread_bytes + inside)
            else:
                frame = word(self.pid, cframe + inside) if cframe else 0
                gather.move(thread.place + 1, cframe or thread.address)
                thread.cframe = cframe
        if not frame:
            return NO_STACK
        now = buffer[thread.at : thread.at + self._thread_bytes + 16 + _FRAME_BYTES * _ELSEWHERE + thread.window]
        if now == thread.seen:
            return thread.stack
        key, elsewhere, thread.outermost = self._walk(frame, thread)
        wanted = min(max(top - chunk, 0) + _WINDOW, _MOST_WINDOW) & -256 if chunk else 0
        if chunk != thread.chunk or not wanted - _WINDOW < thread.window < 2 * wanted + _WINDOW:
            thread.chunk, thread.window = chunk, wanted + _WINDOW // 2
        for place, address in enumerate(elsewhere[:_ELSEWHERE]):
            if thread.elsewhere[place] != address:
                gather.move(thread.place + 2 + place, address)
        stack = self._keys.get(key)
        if stack is None:
            stack = self._keys[key] = self._tables.stack(self._named(key))
        # Nothing of it lay where this look did not read.
        thread.seen = now if elsewhere == thread.elsewhere[: len(elsewhere)] else bytearray()
        thread.elsewhere[: len(elsewhere[:_ELSEWHERE])] = elsewhere[:_ELSEWHERE]
        thread.stack = stack
        return stack

    def _walk(self, frame: int, thread: _Thread) -> tuple[tuple[int, ...], list[int], int]:
        """(code, instruction, code, instruction …), innermost first; the frames outside the chunk; the outermost."""
        buffer, unpack = self._gather.buffer, self._frame.unpack_from
        at = thread.at + self._thread_bytes + 16
        chunk, last_inside = thread.chunk, thread.window - self._frame.size
        into_chunk = at + _FRAME_BYTES * _ELSEWHERE - chunk
        known, copy = thread.elsewhere, self._copy
        key: list[int] = []
        elsewhere: list[int] = []
        outermost = 0
        for _ in range(MOST_FRAMES):
            if not frame:
                return tuple(key), elsewhere, outermost
            source, place = buffer, frame + into_chunk
            if not 0 <= frame - chunk <= last_inside:
                elsewhere.append(frame)
                if frame in known:
                    place = at + _FRAME_BYTES * known.index(frame)
                else:
                    source, place = self._read_frame(frame), 0
            here = frame
            code, frame, instruction, owner = unpack(source, place)
            if owner < _SHIM and code:
                outermost, code = here, code & -8
                if copy is not None and (number := copy.unpack_from(source, place)[0]):
                    start = bytecode_copy(self.pid, self._layout, code, number)
                    instruction += code + self._layout.bytecode - start
                key += (code, instruction)
        raise ValueError("frames without end")

    def _read_frame(self, address: int) -> bytearray:
        self._single.move(0, address)
        if not self._single.read():
            raise LookupError(f"no frame at {address:#x}")
        return self._single.buffer

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


def _padded(fields: Iterable[tuple[int, str]]) -> str:
    """A format of `struct` for fields at these offsets."""
    text, at = "<", 0
    for offset, kind in fields:
        text += f"{offset - at}x{kind}"
        at = offset + struct.calcsize(f"<{kind}")
    return text
