"""The stacks of the samples that the agent took: native callers, Python's functions, and what the kernel did."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pinprof.data.model import INFERRED_KERNEL, KERNEL, USER, Bool, Dso, Int64, UInt64
from pinprof.data.system_calls import kernel_functions
from pinprof.read.assembly import KERNEL_IMAGE, StackBuilder
from pinprof.read.inside import used
from pinprof.read.inside.fault_kinds import ENTERED, SHARED
from pinprof.read.inside.sites import at_place, named_frames
from pinprof.read.inside.texts import NativeFrame
from pinprof.read.inside.used import Used
from pinprof.read.python.frames import is_machinery
from pinprof.read.symbols.resolver import Resolver

NOT_IN_KERNEL, OTHERWISE, BY_FAULT, BY_SIGNAL, FIRST_CALL = range(5)
"""`SamplePlace.kernel`; from the last one on, by the number of the kernel's call."""
_UNKNOWN = ("[unknown kernel]",)
_SIGNALS = ("bad_area_access_error", "handle_signal")
"""What serves a fault of memory that may not be touched so."""
_MOSTLY = {
    "munmap": "unmap_region",
    "brk": "unmap_region",
    "madvise": "zap_page_range_single",
    "execve": "exec_mmap",
}
_OF_PIPE = {"read": ("pipe_read",), "write": ("pipe_write",)}
_OF_SHARED = {"unlink": "shmem_evict_inode", "unlinkat": "shmem_evict_inode", "close": "shmem_evict_inode"}
"""Calls whose time is nearly all in one thing; the second ones in processes that fill shared memory."""
_PINS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ioctl", "io_uring_register"), ("pin_user_pages", "faultin_page")),
    **dict.fromkeys(("mlock", "mlock2", "mlockall"), ("__mm_populate",)),
}
"""Through what calls make pages that they do not copy to."""
SYNCS = ("msync", "fsync", "fdatasync", "sync_file_range")
"""Calls that write files back,"""
_WRITES_BACK = ("folio_wait_writeback",)
"""and wait for that."""
TOUCH = (
    *_PINS, "read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg", "getrandom",
    "write", "pwrite64", "writev", "sendto", "sendmsg", "process_vm_readv",
)  # fmt: skip
"""Calls that touch the program's memory, so that faults since the sample before may be theirs."""
_FORK = re.compile(r"(_|__libc_|__)?[fF]ork(@.*)?")


class SamplePlace(NamedTuple):
    """Where a sample counts."""

    chain: int
    frame: NativeFrame
    kernel: int
    faults: bool
    """Whether the call of the kernel took page faults there."""
    pipe: bool
    """Whether it is one of a pipe."""
    waits: bool
    """Whether the thread waited in it."""


class UsedStacks:
    """The stacks of a process's samples."""

    def __init__(self, pid: int, each: Used, resolver: Resolver, builder: StackBuilder, machine: str = "") -> None:
        """`machine`: what processor it is of. The resolver is asked for all places."""
        self._used, self._builder = each, builder
        self._kernel = kernel_functions(machine)
        numbers = list(each.chains)
        lengths = [len(each.chains[number].native) for number in numbers]
        callers = np.array([place for number in numbers for place in each.chains[number].native], np.uint64)
        # A chain is as old as the first sample that has it.
        first = dict(zip(each.chain[::-1].tolist(), each.ticks[::-1].tolist(), strict=True))
        ages = np.repeat(np.array([first.get(number, 2**62) for number in numbers], np.uint64), lengths)
        # Where a call returns to, the place before it is meant; of an instruction the place itself.
        called = self._places(callers, ages)
        ends = np.cumsum(lengths).tolist()
        self._callers = {
            number: called[end - length : end] for number, length, end in zip(numbers, lengths, ends, strict=True)
        }
        self.leaves = [NativeFrame(file, place + 1) for file, place in self._places(each.address, each.ticks)]
        """Per sample its instruction."""
        self._everywhere = {*self.leaves, *(frame for chain in self._callers.values() for frame in chain)}
        self._names = named_frames(self._everywhere, pid, resolver)

    def _places(self, addresses: UInt64, ticks: UInt64) -> list[NativeFrame]:
        found = self._used.modules
        frames = []
        modules = used.module_of(found, addresses, ticks).tolist()
        for address, number in zip(addresses.tolist(), modules, strict=True):
            module = found[number] if number >= 0 else None
            in_file = module is not None and module.path[:1] in ("/", "[")
            frames.append(
                NativeFrame(module.path, address - module.begin + module.offset)
                if module is not None and in_file
                else NativeFrame("", address)
            )
        return frames

    def calls(self, *names: str) -> Bool:
        """Which of the samples came from these calls of the kernel."""
        numbers = [number for number, name in self._kernel.items() if name.partition("_sys_")[2] in names]
        return np.isin(self._used.call, numbers)

    @property
    def forks(self) -> bool:
        """Whether the process was seen to fork."""
        calls = self.calls("clone", "fork").tolist()
        leaves = {leaf for leaf, forks in zip(self.leaves, calls, strict=True) if forks}
        return any(_FORK.fullmatch(function.name) for leaf in leaves for function in self._names.get(leaf, ()))

    def nodes(self, places: Sequence[SamplePlace], faults: Mapping[int, tuple[str, ...]]) -> Int64:
        """The innermost node of each stack; `faults`: what serves those of each chain."""
        shares = any(SHARED in each for each in faults.values())
        native = {frame: self._native(frame) for frame in self._everywhere}
        outer = {number: self._outer(number, native) for number in {place.chain for place in places}}
        chains = [
            [
                *outer[place.chain],
                *(frame for frame, _ in native[place.frame]),
                *self._served(place, faults.get(place.chain, ENTERED), shares),
            ]
            for place in places
        ]
        return self._builder.stacks(chains).astype(np.int64)

    def _native(self, frame: NativeFrame) -> list[tuple[int, bool]]:
        """The functions at a place, outermost first, and which of them are the interpreter's machinery."""
        dso, functions = at_place(frame, self._names)
        return [
            (
                self._builder.frame(function.name, dso, USER, function.file, function.line),
                is_machinery(function.name, dso.name),
            )
            for function in functions
        ]

    def _outer(self, number: int, native: Mapping[NativeFrame, list[tuple[int, bool]]]) -> list[int]:
        """The callers of a chain, outermost first: native code was called by Python."""
        chain = self._used.chains.get(number)
        if chain is None:
            return []
        named = [(self._used.codes.get(code, ("", "")), line) for code, line in reversed(chain.python)]
        frames = [
            self._builder.frame(name, Dso(file, "", "python"), USER, line=line) for (name, file), line in named if name
        ]
        for frame in reversed(self._callers[number]):
            frames += [made for made, machinery in native[frame] if not (machinery and chain.python)]
        return frames

    def _served(self, place: SamplePlace, served: tuple[str, ...], shares: bool) -> list[int]:
        """The frames of what the kernel did; `served`: by faults; `shares`: in a process that fills shared memory.

        A call of the kernel was seen to be made; all that it led to is inferred.
        """
        kernel = place.kernel
        if kernel == NOT_IN_KERNEL:
            return []
        seen, inferred = {BY_FAULT: ((), served), BY_SIGNAL: (ENTERED[:1], _SIGNALS)}.get(kernel, (_UNKNOWN, ()))
        if kernel >= FIRST_CALL and (name := self._kernel.get(kernel - FIRST_CALL)):
            call = name.partition("_sys_")[2]
            seen, through = (name,), _OF_PIPE.get(call, ()) if place.pipe else ()
            inside = _MOSTLY.get(call) or (_OF_SHARED.get(call) if shares else None)
            inferred = (*_PINS.get(call, ()), *served) if place.faults else (inside,) if inside else ()
            inferred = _WRITES_BACK if place.waits and call in SYNCS else (*through, *inferred)
        return [
            self._builder.frame(name, dso, KERNEL)
            for names, dso in ((seen, KERNEL_IMAGE), (inferred, INFERRED_KERNEL))
            for name in names
        ]
