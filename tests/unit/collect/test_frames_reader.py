"""frames.c: threads and frames in memory of our own making, and interpreters whose frames lie in changing places."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.collect.python_frames import layout as layouts
from pinprof.collect.python_frames.layout import InterpreterLayout
from pinprof.collect.python_frames.memory import Gone
from pinprof.collect.python_frames.reader import (
    ANOTHER,
    AS_BEFORE,
    NO_STACK,
    NOT_SEEN,
    UNKNOWN,
    UNNAMED,
    Seen,
    ThreadReader,
)  # fmt: skip

PAGE = 4096
IN_THREAD, GENERATOR, FRAME_OBJECT, OF_C = range(4)
"""`owner` of a frame."""
NEWEST = replace(layouts._3_12, version=(3, 13), frame_in_cframe=None)


class Memory:
    """Pages of this process with one thread at their beginning."""

    def __init__(self, layout: InterpreterLayout, pages: int = 64) -> None:
        self.layout = layout
        self._held = ctypes.create_string_buffer((pages + 1) * PAGE)
        self.start = -(-ctypes.addressof(self._held) // PAGE) * PAGE
        self.reader, self.seen = ThreadReader(os.getpid(), layout), Seen(self.start)
        self.reader.follow([], [self.seen])

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def word(self, address: int, value: int) -> None:
        self.write(address, struct.pack("<Q", value))

    def frame(self, place: int, code: int, previous: int, owner: int = IN_THREAD) -> int:
        """A frame `place` bytes after the start; its address."""
        address = self.start + place
        self.word(address + self.layout.code, code)
        self.word(address + self.layout.previous, previous)
        self.word(address + self.layout.instruction, code + 1)
        self.write(address + self.layout.owner, bytes([owner]))
        return address

    def innermost(self, frame: int) -> None:
        """Let the thread be there."""
        inside = self.layout.frame_in_cframe
        self.word(self.start + self.layout.frame, frame if inside is None else self.start + 1024)
        if inside is not None:
            self.word(self.start + 1024 + inside, frame)

    def look(self) -> list[int]:
        """The code of each frame, innermost first; a look that was kept from running counts for nothing."""
        for _ in range(1000):
            (look,), _, _ = self.reader.look()
            (self.sample,) = look.samples
            if self.seen.state != NOT_SEEN:
                break
        return list(self.seen.places[::3])


@pytest.mark.slow
@pytest.mark.parametrize("layout", [NEWEST, *layouts.FIXED.values()], ids=lambda layout: str(layout.version))
def test_frames_are_read_wherever_they_lie(layout: InterpreterLayout) -> None:
    memory = Memory(layout)
    caller = memory.frame(2 * PAGE, 0, 0, OF_C) if layout.version > (3, 11) else 0
    codes = [800 + 8 * number for number in range(60)]
    for number, code in enumerate(codes):  # each one across the end of a page
        caller = memory.frame((number + 3) * PAGE + PAGE - 8 * (number % 9 + 1), code, caller)
    memory.innermost(caller)
    assert memory.look() == codes[::-1]
    assert memory.seen.state == ANOTHER
    assert memory.look() == codes[::-1]
    assert memory.seen.state == AS_BEFORE


@pytest.mark.parametrize("layout", [NEWEST, *layouts.FIXED.values()], ids=lambda layout: str(layout.version))
def test_a_generator_that_has_just_yielded_is_not_taken_for_a_stack(layout: InterpreterLayout) -> None:
    memory = Memory(layout)
    outermost = memory.frame(2 * PAGE, 0, 0, OF_C) if layout.version > (3, 11) else 0
    function = memory.frame(3 * PAGE, 80, outermost)
    memory.innermost(memory.frame(9 * PAGE, 160, function, GENERATOR))
    assert memory.look() == [160, 80]
    memory.frame(9 * PAGE, 160, 0, GENERATOR)
    memory.look()
    assert memory.seen.state == NOT_SEEN
    memory.frame(9 * PAGE, 160, function, FRAME_OBJECT)
    memory.look()
    assert memory.seen.state == NOT_SEEN, "a function that has ended"
    memory.frame(9 * PAGE, 168, function, GENERATOR)
    assert memory.look() == [168, 80]
    assert memory.seen.state == ANOTHER


def test_a_stack_is_not_seen_where_memory_ends_or_frames_never_do() -> None:
    memory = Memory(NEWEST)
    first = memory.frame(2 * PAGE, 80, 0)
    memory.innermost(memory.frame(3 * PAGE, 160, first))
    for caller in (1 << 40, (1 << 64) - 8, memory.start + 3 * PAGE):
        memory.frame(2 * PAGE, 80, caller)
        assert memory.reader.look()[2]
        assert memory.seen.state == NOT_SEEN
    memory.frame(2 * PAGE, 80, 0, OF_C)
    assert memory.look() == [160]


@pytest.mark.parametrize("layout", [NEWEST, *layouts.FIXED.values()], ids=lambda layout: str(layout.version))
def test_a_look_knows_when_it_saw_a_thread(layout: InterpreterLayout) -> None:
    memory = Memory(layout)
    outermost = memory.frame(2 * PAGE, 0, 0, OF_C) if layout.version > (3, 11) else 0
    memory.innermost(memory.frame(3 * PAGE, 80, outermost))
    before = time.monotonic_ns()
    memory.look()
    _, since, begun, ended = memory.sample
    assert before < since < begun < ended < time.monotonic_ns(), "twice in one place"
    memory.look()
    assert memory.sample[1] > ended, "each look has its own"


def test_looks_go_on_until_something_is_new() -> None:
    memory = Memory(NEWEST)
    outermost = memory.frame(2 * PAGE, 0, 0, OF_C)
    inner = memory.frame(3 * PAGE, 80, outermost)
    names = memory.start + PAGE
    memory.write(names, b"module")
    gaps = [2_000_000] * 5

    def looked() -> list[int]:
        """The numbers that looks in a row found, of those that were not kept from running."""
        found: list[int] = []
        while not found:
            looks, due_ns, _ = memory.reader.look(7, 1 << 62, gaps)
            assert looks[0].due_ns == 7
            assert all(look.seen_ns >= look.due_ns for look in looks)
            assert due_ns >= looks[-1].seen_ns
            found = [look.samples[0][0] for look in looks if look.samples[0][0] != UNKNOWN]
        return found

    memory.innermost(inner)
    memory.look()
    memory.reader.forget_names()
    assert looked()[-1] == UNNAMED
    memory.reader.name(memory.seen, 5, [(names, 6)], b"module")
    assert set(looked()) == {5}
    assert len(memory.reader.look(7, 0, gaps)[0]) == 1, "the next one would be too late"
    memory.innermost(memory.frame(4 * PAGE, 160, outermost))
    assert looked()[-1] == UNNAMED
    memory.reader.name(memory.seen, 6, [], b"")
    assert set(looked()) == {6}
    memory.innermost(inner)
    assert set(looked()) == {5}, "it is known when it comes back"
    memory.innermost(memory.frame(4 * PAGE, 160, outermost))
    assert set(looked()) == {6}
    memory.write(names, b"MODULE")
    memory.innermost(inner)
    assert looked()[-1] == UNNAMED, "another module has come in its place"
    memory.innermost(outermost)
    assert set(looked()) == {NO_STACK}
    memory.reader.follow([names], [memory.seen])
    assert not memory.reader.look(7, 1 << 62, gaps)[2], "another thread has come first"


def test_a_thread_that_left_is_said_to_have() -> None:
    memory = Memory(NEWEST)
    gone = Seen(1 << 40)
    memory.reader.follow([], [gone, memory.seen])
    assert not memory.reader.look()[2]
    assert (gone.state, memory.seen.depth) == (NOT_SEEN, 0)


def test_no_process_is_an_error() -> None:
    reader = ThreadReader((1 << 22) + 1, NEWEST)
    reader.follow([], [Seen(4096)])
    with pytest.raises(Gone):
        reader.look()


@given(st.lists(st.tuples(st.integers(0, 3 * PAGE - 8), st.integers(0, 3 * PAGE)), max_size=200))
def test_any_memory_can_be_looked_at(words: list[tuple[int, int]]) -> None:
    memory = Memory(layouts._3_12, pages=3)
    for place, value in words:
        memory.word(memory.start + place, memory.start + value)
    memory.reader.look()
    assert memory.seen.state in (NOT_SEEN, ANOTHER, AS_BEFORE)
