"""The events of one address space on their way into a file of the capture (uvm_events.py has its layout).

Entries go from the driver's queue into the file as they are, with one system call for each reading. The header is
written after them, so whatever ends the recorder, the file holds all that was read before. Where there is a budget and
so frequent migrations that noting them costs more than that, the address space is let go of: a queue and counters slow
migrations down whatever is enabled.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from pathlib import Path

from pinprof.base import files
from pinprof.collect.uvm import driver
from pinprof.collect.uvm.driver import Counters, DriverRefused, Queue
from pinprof.data.uvm_events import (
    CLOCK,
    CLOCK_AT,
    CLOCK_RAW_AT,
    COUNTERS,
    ENTRY_BYTES,
    EVENTS,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MOST_BYTES,
    TABLE_AT,
    UUID_BYTES,
    VERSION,
    State,
    UvmEvent,
)

KINDS = tuple(sorted(set(UvmEvent) - {UvmEvent.PAGE_SIZE_CHANGE}))
BUDGET = 0.03
"""The part of the program's time that events may cost, where it is kept."""
MIGRATION_S = 4e-6
"""What a migration takes longer while somebody listens: on an H200, 0.09 s with 9,200 of them became 0.13 s, whichever
kinds of events were enabled. A fault of the CPU waits until events are delivered, about 20 µs, which is not counted."""
PERIOD_S = 1.0
"""For how long a cost is summed up; how often the clocks are compared."""

_LETTERS = {"S8": "8s", "<u4": "I", "<u8": "Q"}
_PACKED = struct.Struct("<" + "".join(_LETTERS[kind] * count for _, kind, count in HEADER))


class FollowedSpace:
    """One address space, followed from now until `finish`."""

    def __init__(self, pid: int, uvm: int, folder: Path, budget: float) -> None:
        """`uvm`: our copy of the program's descriptor, closed by whoever gave it after `finish`.

        `budget`: the part of the program's time that events may cost. Refused when it cannot be followed; OSError when
        there is not enough memory for its file.
        """
        self.pid, self._uvm, self._budget = pid, uvm, budget
        self.queue = Queue(uvm)
        self._counters: Counters | None = None
        try:
            self._opened = _clocks()
            self.queue.enable(KINDS)
            self._file = files.create(folder / f"{pid}-{self._opened[1]:x}.bin")
        except BaseException:
            self._let_go()
            raise
        with contextlib.suppress(DriverRefused):
            self._counters = Counters(uvm)
        self._state, self._stopped_ns = State.RUNNING, 0
        self._written = self._migrations = 0
        self._spent_s = 0.0
        self._processors = b""
        self._judged = time.monotonic(), 0, 0.0
        """When the period began, with the migrations and the CPU time until then."""
        os.lseek(self._file, HEADER_BYTES, os.SEEK_SET)
        self._save_header()

    @property
    def descriptor(self) -> int:
        """Readable when the queue is filling up; -1 when the address space was let go of."""
        return self.queue.descriptor if self._state == State.RUNNING else -1

    def read(self) -> None:
        """Take over what the driver has written; judge and compare, if it is time to."""
        if self._state != State.RUNNING:
            return
        begun = time.thread_time()
        self._drain()
        now = time.monotonic()
        over = now - self._judged[0] >= PERIOD_S
        if over:
            self._compare_clocks()
            self._note_processors()
        self._spent_s += time.thread_time() - begun
        self._judge(now)
        if over:
            self._judged = now, self._migrations, self._spent_s
        if self._state == State.RUNNING:
            self._save_header()

    def finish(self) -> None:
        """Take over the rest, and let go of the address space."""
        if self._state == State.RUNNING:
            self._note_processors()
            with contextlib.suppress(DriverRefused):
                driver.flush(self._uvm)
            self._drain()
            self._compare_clocks()
        self._stop(State.ENDED)
        os.close(self._file)

    def _drain(self) -> None:
        ring = self.queue.ring
        until = ring.announced()
        pieces = ring.pieces(until)
        if not pieces:
            return
        self.queue.flush()
        kinds = (bytes(piece[:: ENTRY_BYTES[self.queue.layout]]) for piece in pieces)
        self._migrations += sum(each.count(UvmEvent.MIGRATION) for each in kinds)
        appended = self._append(pieces)
        ring.release(until)
        if appended and self._written >= MOST_BYTES:
            self._stop(State.LIMIT)

    def _append(self, pieces: list[memoryview]) -> bool:
        """Write whole entries at the end; whether there was room."""
        left = [piece for piece in pieces if len(piece)]
        try:
            while left:
                done = os.writev(self._file, left)
                self._written += done
                while left and done >= len(left[0]):
                    done -= len(left.pop(0))
                if done:
                    left[0] = left[0][done:]
        except OSError:
            self._stop(State.NO_ROOM)
            return False
        return True

    def _judge(self, now: float) -> None:
        """Stop once events have cost more than a whole period may, be it longer since nothing was read for a while."""
        begun, migrations, spent_s = self._judged
        cost_s = (self._migrations - migrations) * MIGRATION_S + self._spent_s - spent_s
        if cost_s > self._budget * max(now - begun, PERIOD_S):
            self._stop(State.OVER_BUDGET)

    def _stop(self, state: State) -> None:
        """Let go of the address space, with its totals until now."""
        if self._state == State.RUNNING:
            self._state, self._stopped_ns = state, time.monotonic_ns()
            self._save_header()
            self._let_go()

    def _compare_clocks(self) -> None:
        """An entry that says what time it is on both clocks."""
        if self._state == State.RUNNING:
            raw, monotonic = _clocks()
            entry = bytearray(ENTRY_BYTES[self.queue.layout])
            entry[0] = CLOCK
            struct.pack_into("<Q", entry, CLOCK_RAW_AT, raw)
            struct.pack_into("<Q", entry, CLOCK_AT, monotonic)
            self._append([memoryview(entry)])

    def _note_processors(self) -> None:
        """Keep the processors that are known; one that the program has let go of stays."""
        with contextlib.suppress(DriverRefused):
            found = driver.processors(self._uvm, self.queue.layout)
            known = self._processors or bytes(len(found))
            places = [slice(at, at + UUID_BYTES) for at in range(0, len(found), UUID_BYTES)]
            merged = b"".join(found[place] if any(found[place]) else known[place] for place in places)
            if merged != self._processors and self._put(merged, TABLE_AT):
                self._processors = merged

    def _save_header(self) -> None:
        header = _PACKED.pack(
            MAGIC, VERSION, self.pid, self.queue.layout, self._state, self._opened[1], self._opened[0],
            self._stopped_ns, self._written, round(self._spent_s * 1e9), self._counters is not None,
            len(self._processors) // UUID_BYTES, *(self._counters.values() if self._counters else (0,) * COUNTERS),
            *self.queue.ring.dropped[:EVENTS],
        )  # fmt: skip
        self._put(header, 0)

    def _put(self, content: bytes, at: int) -> bool:
        try:
            return os.pwrite(self._file, content, at) == len(content)
        except OSError:
            self._stop(State.NO_ROOM)
            return False

    def _let_go(self) -> None:
        if self._counters:
            self._counters.close()
        self.queue.close()


def _clocks() -> tuple[int, int]:
    """The same moment on CLOCK_MONOTONIC_RAW and on CLOCK_MONOTONIC: of several looks the one that took least."""
    raw = time.CLOCK_MONOTONIC_RAW
    looks = [(time.clock_gettime_ns(raw), time.monotonic_ns(), time.clock_gettime_ns(raw)) for _ in range(5)]
    before, monotonic, after = min(looks, key=lambda look: look[2] - look[0])
    return (before + after) // 2, monotonic
