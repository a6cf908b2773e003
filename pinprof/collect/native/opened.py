"""The events of a recording, open on every CPU, and the rings that they write to."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from pathlib import Path

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.native import events as ev
from pinprof.collect.native import existing, perf_event, unwinding
from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.ring import Ring, map_rings, share
from pinprof.collect.proc import threads

LEAST_RING_BYTES = 32 << 10
"""Room for ninety call chains between two readings."""
_ONLINE = Path("/sys/devices/system/cpu/online")


class EventRefused(Exception):
    """The kernel does not let an event be opened, or its ring be mapped; `what` names the step."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"{what}: {error.strerror}")
        self.what = what
        self.number = error.errno or 0


@dataclass
class Opened:
    """The events, instance by instance."""

    specs: list[EventSpec]
    files: list[list[int]]
    """Per event its file descriptors, one per CPU and target."""
    rings: list[Ring]
    """One for each CPU; where some of the events crowd, another one for these."""
    notes: list[str]
    cpus: list[int]
    """Those that have rings."""
    processes: list[int] = field(default_factory=list)
    """Those that were there before and are recorded; empty where all of the machine's are."""
    left_out: list[int] = field(default_factory=list)
    """The program's other processes that were there before."""
    kept: list[int] = field(default_factory=list)
    """Events of this process for what others share that may be closed: rings, and tracepoints (probing.py)."""
    let_go_lost: dict[int, list[int]] = field(default_factory=dict)
    """What each instance of events that are closed by now has lost."""

    def lost_records(self, event: int) -> list[int]:
        """How many records of each instance found no room."""
        if event in self.let_go_lost:
            return self.let_go_lost[event]
        read_format = self.specs[event].attr.read_format
        return [perf_event.lost_records(file, read_format) for file in self.files[event]]

    def let_go(self, events: Sequence[int]) -> None:
        """Close events, and note what they lost; what they wrote stays in the rings."""
        for event in events:
            self.let_go_lost[event] = self.lost_records(event)
            files, self.files[event] = self.files[event], []
            _close(files)

    def close(self) -> None:
        """Let go of the rings and the events."""
        for ring in self.rings:
            ring.close()
        _close(chain(*self.files, self.kept))


def open_all(
    specs: Sequence[EventSpec],
    pid: int | None,
    cpus: Sequence[int],
    ring_bytes: int,
    *,
    copies: bool,
    children: bool = False,
) -> Opened:
    """Open every event on every CPU, with as much of it as this kernel knows; Refused when that cannot be.

    `pid` is None for all processes; `children`: those that it has started by now are recorded as well. `copies`: with
    the top of the stack in each sample that has a call chain.
    """
    _raise_file_limit()
    processes = [] if pid is None else existing.descendants(pid) if children else [pid]
    if len(processes) > 1:
        with contextlib.suppress(EventRefused):  # of so many there may be no room for all
            return _open_all(specs, processes, cpus, ring_bytes, copies=copies)
    opened = _open_all(specs, processes[:1], cpus, ring_bytes, copies=copies)
    opened.left_out = processes[1:]
    return opened


def _open_all(
    specs: Sequence[EventSpec],
    processes: list[int],
    cpus: Sequence[int],
    ring_bytes: int,
    *,
    copies: bool,
) -> Opened:
    """The same for these processes; for all where there are none."""
    targets = [thread for process in processes for thread in threads(process)] if processes else [-1]
    if not targets:
        raise EventRefused("the program", ProcessLookupError(errno.ESRCH, "it has ended before it began"))
    wanted = ev.for_target(specs, inherit=bool(processes))
    attempts = ev.for_older_kernels(wanted if copies else [spec for spec in wanted if spec.first])
    if copies:
        attempts = [*(unwinding.with_copies(attempt, ring_bytes) for attempt in attempts), *attempts]
    for attempt in attempts:
        try:
            opened = _open(attempt, targets, cpus, ring_bytes)
            opened.processes = processes
            return opened
        except EventRefused as error:
            if error.number != errno.EINVAL:
                raise
            refusal = error
    raise refusal


def _open(specs: Sequence[EventSpec], targets: Sequence[int], cpus: Sequence[int], ring_bytes: int) -> Opened:
    opened = Opened([], [], [], [], [])
    on_cpu, crowding = ({cpu: list[int]() for cpu in cpus} for _ in range(2))
    try:
        for spec in specs:
            place = crowding if spec.crowds else on_cpu
            try:
                files = list(instances(spec, targets, place))
            except OSError as error:
                if not spec.optional:
                    raise EventRefused(spec.name, error) from error
                opened.notes.append(f"{spec.name} was not recorded: {error.strerror}.")
                continue
            opened.specs.append(spec)
            opened.files.append(files)
        opened.cpus = [cpu for cpu, files in on_cpu.items() if files]
        firsts, owner = [on_cpu[cpu][0] for cpu in opened.cpus], ev.owner().attr
        if any(spec.crowds for spec in specs):
            for cpu in opened.cpus:
                opened.kept.append(perf_event.open_event(owner, os.getpid(), cpu))
        opened.rings = map_rings([*firsts, *opened.kept], ring_bytes, LEAST_RING_BYTES)
        shared = [*(on_cpu[cpu] for cpu in opened.cpus), *(crowding[cpu] for cpu in opened.cpus if opened.kept)]
        for files, ring in zip(shared, opened.rings, strict=True):
            share(files, ring)
    except (OSError, EventRefused) as error:
        _close(chain(*on_cpu.values(), *crowding.values(), opened.kept))
        if isinstance(error, EventRefused):
            raise
        raise EventRefused("the ring", error) from error
    return opened


def instances(spec: EventSpec, targets: Sequence[int], on_cpu: Mapping[int, list[int]]) -> Iterator[int]:
    """Open one event for every target on every CPU that is there, noting it in `on_cpu`."""
    mine: list[tuple[int, int]] = []
    attr, keep = spec.kernel_attr()
    try:
        for cpu in on_cpu:
            for target in targets:
                try:
                    mine.append((cpu, perf_event.open_event(attr, target, cpu)))
                except OSError as error:
                    # ENODEV: the CPU went offline just now. ESRCH: one of several threads ended just now.
                    if error.errno != errno.ENODEV and not (error.errno == errno.ESRCH and len(targets) > 1):
                        raise
    except OSError:
        _close(file for _, file in mine)
        raise
    del keep
    for cpu, file in mine:
        on_cpu[cpu].append(file)
        yield file


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)


def online_cpus() -> list[int]:
    """The CPUs that are online, by number."""
    try:
        text = _ONLINE.read_text()
    except OSError:
        return list(range(os.cpu_count() or 1))
    return parse_cpus(text)


def parse_cpus(text: str) -> list[int]:
    """`0-3,8` → 0, 1, 2, 3, 8 (Documentation/admin-guide/cputopology.rst)."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def _raise_file_limit() -> None:
    """As many open files as the system allows: each event is one on each CPU."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
