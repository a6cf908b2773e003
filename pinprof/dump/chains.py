"""Call chains of threads: of those that run by samples, of those that stand still by a copy of their stack.

The kernel says of a thread that sleeps where its stack begins (/proc/PID/task/TID/syscall). Its stack is copied while
the thread goes on sleeping, and becomes a sample like those that the kernel takes; the collector's library completes
both. So no thread is stopped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.native import events, perf_event, unwinding
from pinprof.collect.native.attached import unwinding_library
from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.existing import Listing
from pinprof.collect.native.opened import LEAST_RING_BYTES
from pinprof.collect.native.ring import Ring, map_rings, share
from pinprof.collect.python_frames.memory import gather
from pinprof.data import perf_format as perf
from pinprof.dump.system import MappedPlace

FREQUENCY, FAULT_PERIOD = 499, 16
"""Samples a second of a thread that runs, and page faults of which one is looked at."""
_RING_BYTES, _MOST_STACK, _WORD = 1 << 19, 48 << 10, 8
_OWN_ID = 1 << 63
"""The id of the event that copies of stacks are samples of."""
_MOST_GUESSES = 256
_CALL, _CALL_OPCODE, _LARGEST_FUNCTION = 5, 0xE8, 1 << 16
"""Bytes of a direct call on x86-64, the first of them; a function is not larger."""


def specs(*, kernel: bool) -> list[EventSpec]:
    """Time on processors and page faults, with the top of the stack; `kernel`: also what the kernel does."""
    clock, faults = events.standard(frequency=FREQUENCY, fault_period=FAULT_PERIOD, off_cpu=False, kernel=kernel)[:2]
    both = [replace(one.having(flags=one.attr.flags | perf_event.DISABLED), deep=True) for one in (clock, faults)]
    return unwinding.with_copies(both, _RING_BYTES) if unwinding.supported() else both


@dataclass(frozen=True)
class ThreadSample:
    """A thread's call chain at one moment."""

    pid: int
    tid: int
    time_ns: int
    """On CLOCK_MONOTONIC."""
    touched: int
    """The address of a page fault; 0 where it is none."""
    chain: tuple[int, ...]
    """Addresses with the kernel's marks, innermost first."""


class RunningThreads:
    """Threads that are sampled, until `close`."""

    def __init__(self, tids: Iterable[int], *, kernel: bool) -> None:
        """OSError where the kernel refuses it."""
        self.events: list[tuple[EventSpec, list[int]]] = [(spec, []) for spec in specs(kernel=kernel)]
        """With the ids of their instances."""
        self.records = b""
        """What they have written by the last `drain`."""
        self._files: list[list[int]] = []
        self._rings: list[Ring] = []
        try:
            for tid in tids:
                self._open(tid)
            self._rings = map_rings([files[0] for files in self._files], _RING_BYTES, LEAST_RING_BYTES)
            for files, ring in zip(self._files, self._rings, strict=True):
                share(files, ring)
                for file in files:
                    perf_event.enable(file)
        except BaseException:
            self.close()
            raise

    def drain(self) -> None:
        """Take what was written."""
        for ring in self._rings:
            self.records += b"".join(ring.pending())
            ring.release()

    def close(self) -> None:
        """Let go of the events."""
        for ring in self._rings:
            ring.close()
        for file in (file for files in self._files for file in files):
            os.close(file)
        self._files, self._rings = [], []

    def _open(self, tid: int) -> None:
        opened: list[tuple[list[int], int]] = []
        for spec, numbers in self.events:
            file = _opened(spec, tid)
            if file < 0:
                break
            opened.append((numbers, file))
        if len(opened) == len(self.events):
            self._files.append([file for _, file in opened])
            for numbers, file in opened:
                numbers.append(perf_event.event_id(file))
        else:
            for _, file in opened:
                os.close(file)


def _opened(spec: EventSpec, tid: int) -> int:
    """The event of a thread; -1 where that has ended."""
    for (attempt,) in events.for_older_kernels([spec]):
        try:
            return perf_event.open_event(attempt.attr, tid, -1)
        except ProcessLookupError:
            return -1
        except OSError as error:
            refusal = error
    raise refusal


class ChainCompleter:
    """Completes chains of samples and of copies, of processes as they are mapped now."""

    def __init__(self, pids: Sequence[int], running: Sequence[tuple[EventSpec, list[int]]]) -> None:
        """`running`: the events that samples are of, with their ids."""
        self._own = specs(kernel=False)[0]
        self._events = [(self._own, [_OWN_ID]), *((spec, numbers) for spec, numbers in running if numbers)]
        self._types = {number: spec.attr.sample_type for spec, numbers in self._events for number in numbers}
        library = unwinding_library()
        self._unwinder = unwinding.Unwinder(library, self._events) if library else None
        if self._unwinder:
            # A trailer of zeros: thread, time, CPU and id of no event.
            listing = Listing(bytes(8 * sum(self._own.attr.sample_type & bit > 0 for bit in perf.TRAILER_WORDS)))
            for pid in pids:
                self._unwinder.rewrite(listing.process(pid))

    def samples(self, records: bytes) -> list[ThreadSample]:
        """Those that the kernel took, by thread and time."""
        if not records:
            return []
        whole = bytes(self._unwinder.rewrite(records)) if self._unwinder else records
        return sorted(self._parsed(whole), key=lambda one: (one.pid, one.tid, one.time_ns))

    def copied(
        self, pid: int, tid: int, time_ns: int, place: Sequence[int], places: Sequence[MappedPlace]
    ) -> ThreadSample:
        """The chain of a thread that stands still, by where its stack begins and its instruction (`place`)."""
        stack, instruction = place
        held = _copy(pid, stack, places)
        plain = ThreadSample(pid, tid, time_ns, 0, (perf.CONTEXT_USER, instruction))
        if not self._unwinder or not held:
            return plain
        found, complete = self._completed(pid, tid, (0, stack, instruction), held)
        for guess in () if complete else _frame_pointers(pid, stack, held, places, found.chain[-1]):
            made, complete = self._completed(pid, tid, (guess, stack, instruction), held)
            if complete:
                found = made
                break
        return replace(found, time_ns=time_ns)

    def _completed(self, pid: int, tid: int, place: tuple[int, int, int], held: bytes) -> tuple[ThreadSample, bool]:
        """The sample of a copied stack, and whether its chain reaches the stack's end."""
        assert self._unwinder is not None
        record = unwinding.copied_sample(self._own, _OWN_ID, (pid, tid), 0, place, held)
        before = self._unwinder.counts()["complete"]
        (made,) = self._parsed(bytes(self._unwinder.rewrite(record)))
        return made, self._unwinder.counts()["complete"] > before

    def _parsed(self, raw: bytes) -> Iterator[ThreadSample]:
        """The samples in records without copies."""
        for kind, _, start, end in perf.records(raw):
            number = struct.unpack_from("<Q", raw, start + 8)[0] if kind == perf.RECORD_SAMPLE else 0
            if number not in self._types:
                continue
            words = dict(_words(raw, start + 8, self._types[number]))
            place = start + 8 + 8 * len(words)
            (count,) = struct.unpack_from("<Q", raw, place)
            chain = struct.unpack_from(f"<{min(count, (end - place) // 8 - 1)}Q", raw, place + 8)
            thread = words[perf.SAMPLE_TID]
            fault = perf.SAMPLE_PERIOD not in words
            touched = words.get(perf.SAMPLE_ADDR, 0) if fault else 0
            yield ThreadSample(thread & 0xFFFFFFFF, thread >> 32, words[perf.SAMPLE_TIME], touched, chain)


def _words(raw: bytes, place: int, sample_type: int) -> Iterator[tuple[int, int]]:
    """(field, value) of a sample's fields of one word."""
    for field in perf.SAMPLE_WORDS:
        if sample_type & field:
            yield field, struct.unpack_from("<Q", raw, place)[0]
            place += 8


def _copy(pid: int, stack: int, places: Sequence[MappedPlace]) -> bytes:
    """A stack from its innermost byte on, as much as one sample holds; empty where it is in no mapping.

    Gone where memory may not be read.
    """
    end = next((place.end for place in places if place.start <= stack < place.end), stack)
    size = min(end - stack, _MOST_STACK)
    held = gather(pid, [(stack, size)])
    return held if len(held) == size else b""


def _frame_pointers(pid: int, stack: int, held: bytes, places: Sequence[MappedPlace], lost_at: int) -> Iterator[int]:
    """Where the frame pointer may point, likely places first: the kernel does not say it of a thread that sleeps.

    There lie what was in its register before, and an address in code behind a call. Calls of the function at `lost_at`,
    whose frame it is, come first, then those that are near: what is left of older frames may lie between.
    """
    code = [(place.start, place.end) for place in places if place.code]
    words = struct.unpack_from(f"<{len(held) // _WORD}Q", held)
    found = [
        (stack + _WORD * row, caller)
        for row, caller in enumerate(words[1:])
        if any(start + _CALL < caller < end for start, end in code)
    ][:_MOST_GUESSES]
    if not found:
        return
    calls = gather(pid, [(caller - _CALL, _CALL) for _, caller in found])
    known = len(calls) == _CALL * len(found)

    def far(number: int) -> bool:
        opcode, distance = struct.unpack_from("<Bi", calls, _CALL * number) if known else (0, 0)
        return not (opcode == _CALL_OPCODE and 0 <= lost_at - found[number][1] - distance < _LARGEST_FUNCTION)

    yield from (found[number][0] for number in sorted(range(len(found)), key=lambda number: (far(number), number)))
