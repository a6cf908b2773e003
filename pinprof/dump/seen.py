"""A capture of what was seen of threads: one sample for each stack, with Python's functions and the cause of each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.python_frames.interpreter import SegmentTables
from pinprof.data.model import (
    INFERRED_KERNEL,
    KERNEL,
    NO_NODE,
    OFF_CPU,
    USER,
    Capture,
    Dso,
    Event,
    Int32,
    SampleTable,
    StackTable,
)
from pinprof.dump.chains import ThreadSample
from pinprof.dump.system import INFERRED, MappedPlace, ThreadLook
from pinprof.dump.waits import Noted
from pinprof.read.assembly import UNRECORDED, StackBuilder, foreign_capture, kernel_dso
from pinprof.read.perf.addresses import address_chains
from pinprof.read.perf.chains import ChainGatherer
from pinprof.read.perf.mappings import AddressSpaces, Spells
from pinprof.read.perf.records import MapRecord
from pinprof.read.perf.stacks import build_stacks
from pinprof.read.python import frames as python_frames
from pinprof.read.python.stacks import NO_STACK, PythonStacks
from pinprof.read.symbols.resolver import Resolver

ON_CPU, WAITS = 0, 1
"""Events of the capture."""
_EVENTS = (Event("cpu-clock", "ns", None, None), OFF_CPU)
_KALLSYMS = Path("/proc/kallsyms")
UNSEEN = "[native code not seen]"
"""Stands below a Python stack of which nothing native was seen."""


@dataclass(frozen=True)
class SeenStack:
    """A stack of a thread."""

    sample: ThreadSample
    """Its chain may be empty."""
    waits: bool
    look: ThreadLook | None = None
    """The thread then, and …"""
    noted: Noted = Noted()
    """… what was read of what it waits for, where it waits."""
    kernel: tuple[tuple[str, str], ...] = ()
    """(function, module) of the kernel's frames, innermost first, where its chain does not have them."""
    python: tuple[int, int] = (NO_STACK, NO_STACK)
    """What Python's looks saw before and after."""

    @property
    def has_python(self) -> bool:
        """Whether both saw something."""
        return NO_STACK not in self.python


def captured(
    rows: Sequence[SeenStack],
    mapped: dict[int, Sequence[MappedPlace]],
    tables: SegmentTables,
    threads: dict[tuple[int, int], str],
) -> Capture:
    """One sample for each of `rows`, in their order; `mapped` by process, `tables` has the Python stacks."""
    native, node = _native([row.sample for row in rows], mapped)
    table, node = _with_kernel(native, node, rows)
    of_row = [(row.sample.time_ns, row.sample.pid, row.sample.tid, WAITS if row.waits else ON_CPU) for row in rows]
    columns = zip(*of_row, strict=True) if rows else ((),) * 4
    samples = SampleTable.of(
        len(rows), **dict(zip(("time_ns", "pid", "tid", "event"), columns, strict=True)), stack=node, weight=1, cpu=-1
    )
    capture = foreign_capture("dump", "dump", _EVENTS, samples, table, threads=threads)
    stacks = PythonStacks(frames=list(tables.frames), stacks=list(tables.stacks))
    seen = [_between(stacks, *row.python) if row.has_python else NO_STACK for row in rows]
    return python_frames.grafted(capture, stacks, np.array(seen, np.int32))


def _between(stacks: PythonStacks, before: int, after: int) -> int:
    """The stack that two looks saw, or the callers that they agree on."""
    return before if before == after else stacks.either(before, after)


def _native(samples: Sequence[ThreadSample], mapped: dict[int, Sequence[MappedPlace]]) -> tuple[StackTable, Int32]:
    """The stacks that addresses say, and each sample's node."""
    spaces = AddressSpaces(Spells())
    for pid, places in mapped.items():
        for place in places:
            if place.code:
                path = place.path or "//anon"
                spaces.apply(0, MapRecord(pid, place.start, place.end, place.offset, path, ""), {})
    table = spaces.table()
    length = np.array([len(sample.chain) for sample in samples], np.int64)
    words = np.array([word for sample in samples for word in sample.chain], np.uint64)
    entries, length, *_ = address_chains(words, np.cumsum(length) - length, length)
    pids = np.array([sample.pid for sample in samples], np.int32)
    version = table.version_of(pids, np.ones(len(samples), np.int64))
    gatherer = ChainGatherer()
    number = gatherer.numbers_of(entries, length.astype(np.int32), version, table)
    resolved = build_stacks(gatherer.result(), number, table, Resolver(kallsyms=_KALLSYMS, symfs=_files_of(mapped)))
    return resolved.table, resolved.node


def _files_of(pids: Iterable[int]) -> Path | None:
    """Where the files of processes are seen as they see them, unless that is here."""
    for pid in pids:
        try:
            theirs, ours = (os.stat(f"/proc/{one}/ns/mnt").st_ino for one in (pid, "self"))  # noqa: PTH116
        except OSError:
            continue
        if theirs != ours:
            return Path(f"/proc/{pid}/root")
    return None


def _with_kernel(table: StackTable, node: Int32, rows: Sequence[SeenStack]) -> tuple[StackTable, Int32]:
    """The table with the kernel's frames that are known by name, and each row's node in it."""
    builder, frames = StackBuilder(), table.frames
    number = [
        builder.frame(function, frames.dsos[dso], mode, source, line)
        for function, dso, mode, source, line in zip(
            frames.function, frames.dso.tolist(), frames.mode.tolist(), frames.source or [""] * len(frames),
            frames.lines, strict=True,
        )
    ]  # fmt: skip
    chains = []
    for inner, row in zip(node.tolist(), rows, strict=True):
        chain = [number[int(table.frame[at])] for at in table.chain(inner)][::-1] if inner != NO_NODE else []
        chain += [builder.frame(name, _module(name, module), KERNEL) for name, module in reversed(row.kernel)]
        if not chain and row.has_python:
            chain = [builder.frame(UNSEEN, UNRECORDED, USER)]
        chains.append(chain)
    made = builder.stacks(chains)
    return builder.table(), made


def _module(function: str, module: str) -> Dso:
    if module == INFERRED:
        return INFERRED_KERNEL
    return Dso(f"[{module}]", "", "module") if module else kernel_dso(function)
