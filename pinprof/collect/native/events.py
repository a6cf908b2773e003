"""Which events are opened: a list to which other parts of a recording may add their own.

    cpu-clock/freq=F/       where CPU time goes; an hrtimer, so it works in every virtual machine
    page-faults/period=P/   which code touches memory first, with the address; blind to faults inside pins
    context-switches/period=1/  each time a thread leaves a processor, with its stack, and when it comes back
    sched-waking/period=1/  each time a thread is woken: by whom, with that one's stack; where the kernel allows
    the same, bare          only when a thread leaves a processor and comes back, while it does so too often
    dummy                   never samples: which process maps, names and starts what, from before the program on

Each event has its own sample type. All carry SAMPLE_IDENTIFIER, the id of their event in the first word of a sample and
the last of every other record, so that events of different types share a ring and a file.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.native import perf_event as pe
from pinprof.collect.native.perf_event import EventAttr
from pinprof.collect.native.tracefs import Tracepoints
from pinprof.data import perf_format as perf
from pinprof.data.gpu_functions import MEMORY

CLOCK_MONOTONIC = 1

IDENTITY = perf.SAMPLE_IDENTIFIER | perf.SAMPLE_IP | perf.SAMPLE_TID | perf.SAMPLE_TIME | perf.SAMPLE_CPU
"""What every event records of a sample; also whose trailer (thread, time, CPU, id) other records carry."""
STACK = perf.SAMPLE_CALLCHAIN

CALL_ENTER, CALL_LEAVE = "call-enter", "call-leave"
"""Each with `/KIND` behind it."""
_CALLS_AT_ONCE = 200
"""Calls on one processor that wake the reader, who judges what they cost: a millisecond's worth, or two."""

_COMMON = pe.SAMPLE_ID_ALL | pe.USE_CLOCKID | pe.EXCLUDE_GUEST | pe.EXCLUDE_HV


@dataclass(frozen=True)
class EventSpec:
    """One event of a recording, opened once for each CPU."""

    name: str
    """As reports show it."""
    attr: EventAttr
    always_on: bool = False
    """It counts from the moment it is opened; else between `enable` and `disable`."""
    deep: bool = False
    """The event of time once more, with more of each stack: one of the two is on."""
    bare: bool = False
    """The event of switches once more, without samples: one of the two is on."""
    optional: bool = False
    """The recording goes on without it when the kernel refuses it; the name is noted then."""
    batched: bool = False
    """Its samples go on with sizes of a batch (batches.py)."""
    crowds: bool = False
    """It may come so often that others find no room beside it: it goes into rings of its own."""
    path: str = ""
    """A file whose name's address the kernel wants in `config1` (the uprobe PMU)."""

    @property
    def first(self) -> bool:
        """Whether it is no other event once more: the file describes it, and the others' samples are its own."""
        return not (self.deep or self.bare)

    def kernel_attr(self) -> tuple[EventAttr, object]:
        """The attribute to open it with, and what has to stay alive meanwhile."""
        if not self.path:
            return self.attr, None
        name = ctypes.create_string_buffer(os.fsencode(self.path))
        return replace(self.attr, config1=ctypes.addressof(name)), name

    def having(self, **fields: int) -> EventSpec:
        """The same event with some fields of its attribute changed."""
        return replace(self, attr=replace(self.attr, **fields))

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> EventSpec:
        """From the collector's orders, as `asdict` gives it."""
        return cls(**{**raw, "attr": EventAttr(**raw["attr"])})


def event(name: str, kind: int, config: int, period: int, *, kernel: bool, also: int = 0, flags: int = 0) -> EventSpec:
    """An event that samples once in `period` on CLOCK_MONOTONIC; `also` are fields of a sample beside its identity.

    `kernel` False leaves everything of the kernel out.
    A fixed period must not come with SAMPLE_PERIOD: the kernel then samples every single occurrence of a software
    event (perf_swevent_event, kernel/events/core.c).
    """
    flags |= _COMMON | (0 if kernel else pe.EXCLUDE_KERNEL | pe.EXCLUDE_CALLCHAIN_KERNEL)
    counters = perf.FORMAT_ID | perf.FORMAT_LOST
    return EventSpec(name, EventAttr(kind, config, IDENTITY | also, period, flags, counters, clockid=CLOCK_MONOTONIC))


def standard(*, frequency: int, fault_period: int, off_cpu: bool, kernel: bool) -> list[EventSpec]:
    """The events of every recording, the one whose records lead the file first."""

    def software(name: str, config: int, period: int, fields: int = 0, flags: int = 0) -> EventSpec:
        return event(name, perf.TYPE_SOFTWARE, config, period, kernel=kernel, also=STACK | fields, flags=flags)

    clock, faults = f"cpu-clock/freq={frequency}/", f"page-faults/period={fault_period}/"
    specs = [
        software(clock, pe.SW_CPU_CLOCK, frequency, perf.SAMPLE_ADDR | perf.SAMPLE_PERIOD, pe.FREQ),
        software(faults, pe.SW_PAGE_FAULTS, fault_period, perf.SAMPLE_ADDR),
    ]
    if off_cpu:
        specs.append(software("context-switches/period=1/", pe.SW_CONTEXT_SWITCHES, 1, flags=pe.CONTEXT_SWITCH))
    return [*specs, mappings()]


def versions(specs: Sequence[EventSpec], *, pausable: bool) -> list[EventSpec]:
    """The standard events once more: that of time with longer stacks; where sampling may pause, that of switches, which
    says only when threads leave a processor and come back.
    """
    waits = [spec for spec in specs if spec.attr.flags & pe.CONTEXT_SWITCH and pausable]
    return [replace(specs[0], deep=True), *(replace(_without_samples(spec), bare=True) for spec in waits)]


def _without_samples(spec: EventSpec) -> EventSpec:
    return spec.having(config=pe.SW_DUMMY, sample_type=spec.attr.sample_type & ~STACK)


WAKEUPS = "sched-waking/period=1/"


def wakeups(point: int) -> EventSpec:
    """A thread of the program being woken, in the waker's context: whom, and the waker's stack in its program.

    The kernel delivers it to the waker's events and to those of the woken thread (perf_tp_event), so a wake-up within
    the program comes twice; what another process wakes comes once, without that one's call chain.
    """
    fields, exclude = perf.SAMPLE_RAW | STACK, pe.EXCLUDE_CALLCHAIN_KERNEL
    spec = event(WAKEUPS, perf.TYPE_TRACEPOINT, point, 1, kernel=True, also=fields, flags=exclude)
    return replace(spec, optional=True)


def call_events(kinds: Mapping[str, Tracepoints]) -> list[EventSpec]:
    """For each kind of watched functions: entered, with arguments and the program's stack; and returned, with the
    result. What grants and frees memory is all needed: copies and others, which are frequent, don't share its rings.
    """
    specs = []
    for kind, points in kinds.items():
        for name, point, fields, flags, wakeup in (
            (CALL_ENTER, points.enter, STACK, pe.EXCLUDE_CALLCHAIN_KERNEL, _CALLS_AT_ONCE),
            (CALL_LEAVE, points.leave, 0, 0, 0),
        ):
            also = perf.SAMPLE_RAW | fields
            spec = event(f"{name}/{kind}", perf.TYPE_TRACEPOINT, point, 1, kernel=True, also=also, flags=flags)
            batched = points.batched and name == CALL_ENTER
            specs.append(replace(spec.having(wakeup=wakeup), batched=batched, crowds=kind != MEMORY))
    return specs


def owner() -> EventSpec:
    """What never has a record: the owner of a ring whose other events may be closed."""
    return event("ring", perf.TYPE_SOFTWARE, pe.SW_DUMMY, 1, kernel=False, flags=pe.DISABLED)


def mappings(*, data: bool = False) -> EventSpec:
    """Which process maps, names and starts what; with `data` memory without code as well."""
    flags = pe.MMAP | pe.MMAP2 | pe.COMM | pe.COMM_EXEC | pe.TASK | pe.BUILD_ID | (pe.MMAP_DATA if data else 0)
    return replace(event("dummy", perf.TYPE_SOFTWARE, pe.SW_DUMMY, 1, kernel=False, flags=flags), always_on=True)


def for_target(specs: Sequence[EventSpec], *, inherit: bool) -> list[EventSpec]:
    """The same events as they are opened: off until told, in children as well or not.

    Without numbers of their own they wake the reader when their ring is half full (ring_buffer_init); calls do so after
    a number of samples (perf_output_sample).
    """
    more = pe.INHERIT if inherit else 0
    return [spec.having(flags=spec.attr.flags | more | (0 if spec.always_on else pe.DISABLED)) for spec in specs]


_LATER = ((perf.FORMAT_LOST, 0), (0, pe.BUILD_ID))
"""(bits of read_format, flags) by the kernels that know them, the newest first: 6.0, 5.12."""


def for_older_kernels(specs: Sequence[EventSpec]) -> list[list[EventSpec]]:
    """The same events without what ever older kernels refuse, newest first and whole ones to begin with."""
    batches = [list(specs)]
    for read_bits, flag_bits in _LATER:
        known = [(spec, spec.attr.read_format & ~read_bits, spec.attr.flags & ~flag_bits) for spec in batches[-1]]
        batches.append([spec.having(read_format=read_format, flags=flags) for spec, read_format, flags in known])
    return batches
