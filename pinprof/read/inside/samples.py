"""CPU time as the agent's sampler saw it → samples: each with its callers, Python's with lines, and its part in
the kernel.

The kernel is seen from outside. What it did for a sample is concluded: behind a system call it did that call; elsewhere
it served page faults, if the thread had any since the sample before. So a stack goes on into the kernel by the function
that serves this, and no further. Faults count where their thread was next seen in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pinprof.base.numbering import Numbering
from pinprof.base.units import format_counted
from pinprof.data.model import OFF_CPU, READY, Bool, Capture, Event, Int64, Losses, SampleTable
from pinprof.data.rate_book import RateBook
from pinprof.read import machine_rates
from pinprof.read.assembly import StackBuilder
from pinprof.read.by_thread import threads
from pinprof.read.inside import fault_kinds
from pinprof.read.inside.fault_kinds import Does
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import Withdrew
from pinprof.read.inside.texts import NativeFrame
from pinprof.read.inside.untimed import with_untimed
from pinprof.read.inside.used import DENIED, NO_CALL, Used
from pinprof.read.inside.used_stacks import (
    BY_FAULT,
    BY_SIGNAL,
    FIRST_CALL,
    NOT_IN_KERNEL,
    OTHERWISE,
    SYNCS,
    TOUCH,
    SamplePlace,
    UsedStacks,
)
from pinprof.read.symbols.resolver import Resolver

_CPU, _FAULTS = (
    Event("cpu-timer", "ns", None, None, inferred=True),
    Event("page-faults", "faults", None, None, inferred=True),
)

_BUFFER_BYTES = 64 << 20
"""As large a buffer as fits no cache: what a page of it costs, a page costs."""
_MOST_PERIODS = 1000
"""That one sample stands for, as samples of their own."""
_CPU_TIME, _FAULT_COUNT, _DELAYS = range(3)
"""The events: the last one is of time in which others kept a thread from running, and of waits."""
_WITHDREW = {
    Withdrew.HANDLED: ("ended early in", "the program handles its signal"),
    Withdrew.HELD_BACK: ("left out", "ThreadSanitizer holds signals back. Build the program without it"),
}
_FREES = ("munmap", "brk", "madvise")
"""Calls that give memory back."""


def with_samples(capture: Capture, files: Sequence[InsideFile], resolver: Resolver, rates: Path | None) -> Capture:
    """The capture with the CPU time of all processes; as it is where that was not sampled, or is known better.

    `rates`: a file that says what faults cost on the machine.
    """
    if len(capture.samples):
        return capture
    machine = str(capture.manifest.host.get("arch", ""))
    sampled = list(with_untimed(files, machine))
    if not sampled:
        return replace(capture, losses=replace(capture.losses, unsampled=tuple(_unsampled(files))))
    book = RateBook.of(machine_rates.with_rates(capture, rates))
    cost = book.cost("fault.4k", _BUFFER_BYTES)
    page_ns = cost.ns if cost else 0.0
    builder = StackBuilder()
    parents = {file.parent for file in files if file.parent}
    parts = [
        _rows(
            pids,
            each,
            UsedStacks(file.pid, each, resolver, builder, machine),
            forks=file.parent > 0 or file.token in parents,
            page_ns=page_ns,
        )
        for file, each, pids in sampled
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    samples = SampleTable.of(len(columns["weight"]), cpu=-1, **columns)
    samples = samples.take(np.argsort(samples.time_ns, kind="stable"))
    times = capture.manifest.outcome.get("recorded_ns")
    if isinstance(times, Sequence) and len(times) == 2:  # the timers know of no end
        samples = samples.within(*times)
    period_ns = min(each.period_ns for _, each, _ in sampled)
    losses = Losses(
        truncated_chains=sum(each.torn for _, each, _ in sampled),
        missing_stacks=int((samples.stack < 0).sum()),
        notes=(
            *capture.losses.notes,
            f"Timers inside the program sampled its CPU time every {period_ns / 1e6:.0f} ms.",
        ),
        unsampled=tuple(_unsampled(files)),
        damage=capture.losses.damage,
    )
    return replace(
        capture,
        events=(_CPU, _FAULTS, OFF_CPU),
        samples=samples,
        stacks=builder.table(),
        threads=_forked(sampled)
        | {(file.pid, tid): name for file, each, _ in sampled for tid, name in each.names.items()},
        losses=losses,
    )


def _forked(sampled: Sequence[tuple[InsideFile, Used, Int64]]) -> dict[tuple[int, int], str]:
    """The first threads of forked processes, which are called as what forked them as long as they are nothing else."""
    return {
        (child, child): each.names.get(file.pid, "")
        for file, each, _ in sampled
        for child in file.forks.records["address"].tolist()
    }


def _unsampled(files: Sequence[InsideFile]) -> Iterator[str]:
    for why, (what, because) in _WITHDREW.items():
        if count := sum(file.withdrew is why for file in files):
            yield f"The sampler {what} {format_counted(count, 'process', 'processes')}, because {because}."


def _rows(pids: Int64, each: Used, stacks: UsedStacks, *, forks: bool, page_ns: float) -> dict[str, Int64]:
    """The samples of a process, and of those that it forked (`pids`): in the program, in the kernel, faults, times in
    which others ran, and waits.
    """
    kernel = np.where(each.call >= 0, each.call + FIRST_CALL, OTHERWISE)
    kernel[(each.call == NO_CALL) & (each.faults > 0)] = BY_FAULT
    kernel[each.call == DENIED] = BY_SIGNAL
    # A call that touches memory takes faults itself: as many as there were, at the price of one page each.
    inside = np.where(stacks.calls(*TOUCH), np.minimum(each.faults * page_ns, each.system_ns), 0).astype(np.int64)
    spent = np.where(kernel == BY_FAULT, each.system_ns, inside)
    busy = each.system_ns > each.user_ns
    seen = busy & (spent > 0)
    frees, syncs = (bool((stacks.calls(*names) & busy).any()) for names in (_FREES, SYNCS))
    served = fault_kinds.served_by(each, seen, spent, Does(forks or stacks.forks, frees, syncs))
    faults = _faults(each, seen)
    rest = each.system_ns - inside
    # Of each: event, weight, what the kernel did, and whether that was faults of a call.
    outside, counted = np.full(len(kernel), NOT_IN_KERNEL), np.where(inside > 0, kernel, BY_FAULT)
    parts = (
        (_CPU_TIME, each.user_ns, outside, False),
        (_CPU_TIME, rest, kernel, False),
        (_CPU_TIME, inside, kernel, True),
        (_FAULT_COUNT, faults, counted, True),
        (_DELAYS, each.delayed_ns, outside, False),
        (_DELAYS, each.waited_ns, kernel, False),
    )
    rows = [np.flatnonzero(weight > 0) for _, weight, _, _ in parts]
    row = np.concatenate(rows)
    event = np.repeat([part[0] for part in parts], [len(mine) for mine in rows])
    weight = np.concatenate([part[1][mine] for part, mine in zip(parts, rows, strict=True)])
    did = np.concatenate([part[2][mine] for part, mine in zip(parts, rows, strict=True)])
    within = np.repeat([part[3] for part in parts], [len(mine) for mine in rows])
    waits = (event == _DELAYS) & (did != NOT_IN_KERNEL)
    leaves = Numbering[NativeFrame]()
    numbers = np.array([leaves.number(leaf) for leaf in stacks.leaves], np.int64)
    keys, which = np.unique(
        np.stack([each.chain[row], numbers[row], did, within, each.pipe[row], waits]), axis=1, return_inverse=True
    )
    places = [
        SamplePlace(chain, leaves.items[leaf], entered, bool(own), bool(pipe), bool(waited))
        for chain, leaf, entered, own, pipe, waited in keys.T.tolist()
    ]
    columns = {
        "time_ns": each.time_ns[row] - np.where(event == _DELAYS, weight, 0),
        "pid": pids[row],
        "tid": each.tid[row].astype(np.int64),
        "event": event,
        "weight": weight,
        "stack": stacks.nodes(places, served)[which.reshape(-1)],
        "ip": each.address[row],
        "wait": np.where((event == _DELAYS) & ~waits, READY, 0),
    }
    return _by_period(columns, each.period_ns)


def _by_period(columns: dict[str, Int64], period_ns: int) -> dict[str, Int64]:
    """The samples, one for each period: a thread that stays in the kernel for several is seen only when it leaves."""
    on_cpu = columns["event"] == _CPU_TIME
    parts = np.where(on_cpu, np.clip(columns["weight"] // period_ns, 1, _MOST_PERIODS), 1)
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    each = {name: np.repeat(column, parts) for name, column in columns.items()}
    whole, of = each["weight"], np.repeat(parts, parts)
    each["weight"] = whole // of + (number < whole % of)
    each["time_ns"] = each["time_ns"] - number * (whole // of) * (of > 1)
    return each


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
