"""Processor time as the agent's sampler saw it → samples: each with its callers, Python's with lines, and its part in
the kernel.

The kernel is seen from outside. What it did for a sample is concluded: behind a system call it did that call; elsewhere
it served page faults, if the thread had any since the sample before. So a stack goes on into the kernel by the function
that serves this, and no further. Faults count where their thread was next seen in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pinprof.base.numbering import Numbering
from pinprof.base.units import format_counted
from pinprof.data.model import OFF_CPU, READY, Bool, Capture, Event, Int64, Losses, SampleTable
from pinprof.read.assembly import StackBuilder
from pinprof.read.by_thread import threads
from pinprof.read.inside import fault_kinds
from pinprof.read.inside.fault_kinds import Does
from pinprof.read.inside.file import InsideFile, NativeFrame
from pinprof.read.inside.used import NO_CALL, WITHDRAWN, Used
from pinprof.read.inside.used_stacks import BY_FAULT, FIRST_CALL, NOT_IN_KERNEL, OTHERWISE, Place, UsedStacks
from pinprof.read.symbols.resolver import Resolver

_CPU, _FAULTS = (
    Event("cpu-timer", "ns", None, None, inferred=True),
    Event("page-faults", "faults", None, None, inferred=True),
)

_DELAYS = 2
"""The number of the event of time in which others kept a thread from running."""
_FREES = ("munmap", "brk", "madvise")
_SYNCS = ("msync", "fsync", "fdatasync", "sync_file_range")
"""Calls that give memory back, and that write mapped files back."""


def with_samples(capture: Capture, files: Sequence[InsideFile], resolver: Resolver) -> Capture:
    """The capture with the processor time of all processes; as it is where that was not sampled, or is known better."""
    sampled = [(file, file.used) for file in files if file.used is not None]
    if not sampled or len(capture.samples):
        return capture
    builder, machine = StackBuilder(), str(capture.manifest.host.get("arch", ""))
    parents = {file.parent for file in files if file.parent}
    parts = [
        _rows(
            file.pid,
            each,
            UsedStacks(file.pid, each, resolver, builder, machine),
            forks=file.parent > 0 or file.token in parents,
        )
        for file, each in sampled
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    samples = SampleTable.of(len(columns["weight"]), cpu=-1, **columns)
    samples = samples.take(np.argsort(samples.time_ns, kind="stable"))
    times = capture.manifest.outcome.get("recorded_ns")
    if isinstance(times, Sequence) and len(times) == 2:  # the timers know of no end
        samples = samples.within(*times)
    losses = Losses(
        truncated_chains=sum(each.torn for _, each in sampled),
        missing_stacks=int((samples.stack < 0).sum()),
        notes=(*capture.losses.notes, *_notes([each for _, each in sampled])),
        damage=capture.losses.damage,
    )
    return replace(
        capture,
        events=(_CPU, _FAULTS, OFF_CPU),
        samples=samples,
        stacks=builder.table(),
        threads={(file.pid, tid): name for file, each in sampled for tid, name in each.names.items()},
        losses=losses,
    )


def ask_symbols(file: InsideFile, resolver: Resolver) -> None:
    """Have the resolver know every address of a process's samples."""
    if file.used is not None:
        UsedStacks(file.pid, file.used, resolver, StackBuilder()).frames()


def _notes(sampled: Sequence[Used]) -> Iterator[str]:
    period = min(each.sampled % WITHDRAWN for each in sampled) / 1e6
    yield f"Timers inside the program sampled its CPU time every {period:.0f} ms."
    if withdrawn := sum(each.sampled >= WITHDRAWN for each in sampled):
        what = format_counted(withdrawn, "process", "processes")
        yield f"The sampler ended early in {what}, because the program handles its signal."


def _rows(pid: int, each: Used, stacks: UsedStacks, *, forks: bool) -> dict[str, Int64]:
    """The samples of a process: in the program, in the kernel, and faults."""
    kernel = np.where(each.call >= 0, each.call + FIRST_CALL, OTHERWISE)
    kernel[(each.call == NO_CALL) & (each.faults > 0)] = BY_FAULT
    in_user, in_kernel = np.flatnonzero(each.user_ns > 0), np.flatnonzero(each.system_ns > 0)
    seen = (kernel == BY_FAULT) & (each.system_ns > each.user_ns)
    busy = each.system_ns > each.user_ns
    frees, syncs = (bool((stacks.calls(*names) & busy).any()) for names in (_FREES, _SYNCS))
    served = fault_kinds.served_by(each, seen, Does(forks or stacks.forks, frees, syncs))
    faults = _faults(each, seen)
    faulted = np.flatnonzero(faults)
    delayed = np.flatnonzero(each.delayed_ns > 0)
    parts = (in_user, in_kernel, faulted, delayed)
    row = np.concatenate(parts)
    not_inside = [np.full(len(part), NOT_IN_KERNEL) for part in (in_user, delayed)]
    entered = np.concatenate([not_inside[0], kernel[in_kernel], np.full(len(faulted), BY_FAULT), not_inside[1]])
    event = np.repeat([0, 0, 1, _DELAYS], [len(part) for part in parts])
    weight = np.concatenate(
        [each.user_ns[in_user], each.system_ns[in_kernel], faults[faulted], each.delayed_ns[delayed]]
    )
    leaves = Numbering[NativeFrame]()
    numbers = np.array([leaves.number(leaf) for leaf in stacks.leaves], np.int64)
    keys, which = np.unique(np.stack([each.chain[row], numbers[row], entered]), axis=1, return_inverse=True)
    places = [Place(chain, leaves.items[leaf], served) for chain, leaf, served in keys.T.tolist()]
    return {
        "time_ns": each.time_ns[row] - np.where(event == _DELAYS, weight, 0),
        "pid": np.full(len(row), pid, np.int64),
        "tid": each.tid[row].astype(np.int64),
        "event": event,
        "weight": weight,
        "stack": stacks.nodes(places, served)[which.reshape(-1)],
        "ip": each.address[row],
        "wait": np.where(event == _DELAYS, READY, 0),
    }


def _faults(each: Used, seen: Bool) -> Int64:
    """Per sample its faults: where a thread was seen in some, they are all there."""
    faults = each.faults.copy()
    for mine in threads(np.zeros(len(each.tid), np.int32), each.tid):
        at = np.flatnonzero(seen[mine])
        if len(at):
            part = np.minimum(np.searchsorted(at, np.arange(len(mine))), len(at) - 1)
            faults[mine] = 0
            faults[mine[at]] = np.bincount(part, each.faults[mine], len(at)).astype(np.int64)
    return faults
