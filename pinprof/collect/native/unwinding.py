"""Complete user stacks: records pass through unwind.c on their way from the rings to the file.

The kernel copies the top of the thread's stack into each sample; the library replaces the copy by the return addresses
in it. No byte of a stack leaves this process.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Sequence

from pinprof.collect.native import perf_event as pe
from pinprof.collect.native.events import WAKEUPS, EventSpec
from pinprof.data import perf_format as perf

STACK_BYTES = 4096
"""How much of a stack is copied: dozens of frames. The kernel, which follows frame pointers, adds those beyond."""
DEEP_STACK_BYTES = 32 << 10
"""The same of samples of time, unless that proves not to be needed."""
_OF_A_RING = 32
"""The part of a ring that one sample takes at most."""
_JUDGED, _DEEP_SHARE = 50, 0.05
"""Samples by which that is decided, and the share that needs more from which on more is copied."""
_COUNTS = ("samples", "complete", "continued", "copied", "deep", "cut", "switches")
_Counts = ctypes.c_uint64 * len(_COUNTS)
WAIT_STACK_BYTES = 512
"""The same where a thread leaves a processor or wakes another: that can happen 100,000 times a second."""

_USER_REGISTERS = {
    "x86_64": 1 << 6 | 1 << 7 | 1 << 8,  # BP, SP, IP (arch/x86/include/uapi/asm/perf_regs.h)
    "aarch64": 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32,  # X29, LR, SP, PC (arch/arm64/include/uapi/asm/perf_regs.h)
}
_ABI_64 = 2
_COPY = perf.SAMPLE_REGS_USER | perf.SAMPLE_STACK_USER


class _Piece(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_uint64))


def supported() -> bool:
    """Whether the library knows this machine's registers."""
    return platform.machine() in _USER_REGISTERS


def with_copies(specs: Sequence[EventSpec], ring_bytes: int) -> list[EventSpec]:
    """The events with registers and the top of the stack in each sample that has a call chain."""
    registers = _USER_REGISTERS[platform.machine()]
    return [
        spec.having(
            sample_type=spec.attr.sample_type | _COPY,
            sample_regs_user=registers,
            sample_stack_user=_bytes_of(spec, ring_bytes),
        )
        if spec.attr.sample_type & perf.SAMPLE_CALLCHAIN
        else spec
        for spec in specs
    ]


def _bytes_of(spec: EventSpec, ring_bytes: int) -> int:
    if spec.deep:
        return max(min(DEEP_STACK_BYTES, ring_bytes // _OF_A_RING), STACK_BYTES)
    return WAIT_STACK_BYTES if _may_be_frequent(spec) else STACK_BYTES


def _may_be_frequent(spec: EventSpec) -> bool:
    return bool(spec.attr.flags & pe.CONTEXT_SWITCH) or spec.name == WAKEUPS


def copied_sample(
    spec: EventSpec,
    number: int,
    thread: tuple[int, int],
    time_ns: int,
    place: tuple[int, int, int],
    held: bytes,
    kernel: int = 0,
) -> bytes:
    """A sample as the kernel writes it, of a stack that was copied from outside, for `Unwinder.rewrite`.

    `number` is an id of the event, `thread` process and thread, `place` frame pointer, stack pointer and instruction;
    `kernel` is a function of the kernel that the thread is in, if that is known.
    """
    frame, stack, instruction = place
    values = {
        perf.SAMPLE_IDENTIFIER: number,
        perf.SAMPLE_IP: instruction,
        perf.SAMPLE_TID: thread[0] | thread[1] << 32,
        perf.SAMPLE_TIME: time_ns,
    }
    fixed = [values.get(field, 0) for field in perf.SAMPLE_WORDS if spec.attr.sample_type & field]
    # AArch64 has the link register between frame and stack pointer.
    has_link = spec.attr.sample_regs_user.bit_count() > len(place)
    registers = (frame, *((0,) if has_link else ()), stack, instruction)
    chain = (*((perf.CONTEXT_KERNEL, kernel) if kernel else ()), perf.CONTEXT_USER, instruction)
    body = struct.pack(f"<{len(fixed) + 1 + len(chain)}Q", *fixed, len(chain), *chain)
    body += struct.pack(f"<{len(registers) + 2}Q", _ABI_64, *registers, len(held)) + held
    return perf.record(perf.RECORD_SAMPLE, perf.MISC_USER, body + struct.pack("<Q", len(held)))


def as_written(spec: EventSpec) -> EventSpec:
    """The event as its samples lie in the file."""
    return spec.having(sample_type=spec.attr.sample_type & ~_COPY, sample_regs_user=0, sample_stack_user=0)


class Unwinder:
    """Rewrites records; `events` are pairs of an event as it was opened and the ids of its instances."""

    def __init__(self, library: str, events: Sequence[tuple[EventSpec, Sequence[int]]]) -> None:
        """OSError when the library cannot be loaded."""
        self._library = ctypes.CDLL(library)
        self._library.pinprof_unwind_new.restype = ctypes.c_void_p
        self._library.pinprof_unwind_rewrite.restype = ctypes.c_size_t
        pairs = [(number, spec.attr.sample_type) for spec, numbers in events for number in numbers]
        ids, kinds = ((ctypes.c_uint64 * len(pairs))(*column) for column in zip(*pairs, strict=True))
        self._state = ctypes.c_void_p(self._library.pinprof_unwind_new(ids, kinds, ctypes.c_size_t(len(pairs))))
        self._out, self._given = ctypes.create_string_buffer(1 << 20), (_Piece * 0)()

    def rewrite(self, *pieces: bytes | memoryview) -> memoryview:
        """Whole records without copies of stacks; valid until the next call. Two pieces may share a record.

        Pieces of a ring are read where they lie.
        """
        size = sum(map(len, pieces))
        if size > len(self._out):
            self._out = ctypes.create_string_buffer(2 * size)
        held = [(_first(piece), len(piece)) for piece in pieces if len(piece)]
        if len(held) > len(self._given):
            self._given = (_Piece * len(held))()
        for place, (first, count) in enumerate(held):
            self._given[place] = _Piece(ctypes.addressof(first), count)
        written = self._library.pinprof_unwind_rewrite(
            self._state, self._given, ctypes.c_size_t(len(held)), ctypes.byref(self._out)
        )
        return memoryview(self._out).cast("B")[:written]

    def counts(self) -> dict[str, int]:
        """Samples with a copied stack; those copied to the stack's end; those that the kernel's frames continue.

        Of samples of time: all; those that need more than `STACK_BYTES`; those whose copy ends before the stack. And
        how often a thread left a processor.
        """
        raw = _Counts()
        self._library.pinprof_unwind_counts(self._state, raw)
        return dict(zip(_COUNTS, raw, strict=True))


class Depth:
    """How much of a stack is copied with samples of time: much, until it proves not to be needed."""

    def __init__(self, unwinder: Unwinder) -> None:
        self.deep = True
        self._unwinder, self._before, self._settled = unwinder, unwinder.counts(), False

    def changes(self) -> bool:
        """Whether less, or again more, is to be copied from now on, by the samples since the last change."""
        counts = self._unwinder.counts()
        copied, deep = (counts[name] - self._before[name] for name in ("copied", "deep"))
        if self._settled or copied < _JUDGED or (deep > _DEEP_SHARE * copied) == self.deep:
            return False
        self.deep, self._before = not self.deep, counts
        self._settled = self.deep
        return True


def _first(piece: bytes | memoryview) -> ctypes.c_char:
    """The first of the bytes where they lie, or of a copy where they may not be changed; it keeps them all.

    An array of them would be a new type for each length, which Python does not forget at once.
    """
    shared = piece if isinstance(piece, memoryview) and not piece.readonly else bytearray(piece)
    return ctypes.c_char.from_buffer(shared)
