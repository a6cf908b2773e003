"""perf.data → Capture, without perf.

Weights: an event that samples time (cpu-clock, task-clock) weighs nanoseconds, one that samples page faults weighs
faults: the period in the sample, or the fixed period of the event, for each sample that it stands for. Every other
event (cycles, tracepoints, …) weighs its period likewise, in unit `events`; where it samples at a frequency and records
no periods, each sample weighs 1, in unit `samples`. Sampled context switches with their switch records become the event
`off-cpu`, whose samples weigh the time until their thread ran again (off_cpu.py).

A sample without a call chain has its own address as the only frame: that still says the side of the kernel's boundary,
the object, and perhaps the function.

Recordings with copied stacks (`--call-graph dwarf`) or branch records (`--call-graph lbr`) hold no user call chains:
only perf can make them, so these are read through `perf script` (capture.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from pinprof.base.columns import (
    ascending,
    distinct,
    distinct_pairs,
    in_order,
    is_uniform,
    packed,
    pairs_of,
    put_together,
    slices,
    taken,
    uniform,
)
from pinprof.base.errors import FormatError, readable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_counted, format_ns
from pinprof.data import perf_format as perf
from pinprof.data.manifest import Manifest
from pinprof.data.model import (
    OFF_CPU,
    READY,
    Bool,
    Capture,
    ClockSync,
    Event,
    ExitTable,
    Int16,
    Int32,
    Int64,
    Losses,
    RangeTable,
    SampleTable,
    UInt8,
    Unit,
)
from pinprof.read.assembly import summable
from pinprof.read.perf import counters, fault_mappings, wakeups
from pinprof.read.perf import records as rec
from pinprof.read.perf.chains import Chains
from pinprof.read.perf.header import EventSource, Header
from pinprof.read.perf.mappings import SpaceTable, TaskRecord
from pinprof.read.perf.off_cpu import waits
from pinprof.read.perf.passes import Raw, read_records
from pinprof.read.perf.pauses import filled
from pinprof.read.perf.processes import IDLE_PID, is_system_wide, is_timer, profiled_command, program_tree
from pinprof.read.perf.samples import MAX_WEIGHT, RawSamples
from pinprof.read.perf.stacks import ResolvedStacks, build_stacks
from pinprof.read.reader import Progress, untold
from pinprof.read.symbols.resolver import Resolver
from pinprof.read.thread_names import changed_names, kernel_names
from pinprof.streams.store import new_manifest

CLOCK_MONOTONIC = 1
_CLOCK_NAMES = {0: "realtime", CLOCK_MONOTONIC: "monotonic", 4: "monotonic-raw", 7: "boottime", 11: "tai"}

_UNALIGNED = (
    "Sample times count in the clock {}, not CLOCK_MONOTONIC, so ranges can't be aligned with them. Record with "
    "`perf record -k CLOCK_MONOTONIC`."
)


LEAST_OF_MACHINE = 0.05
"""The share of the samples of all programs: a command that has less was not what a whole machine was recorded for."""


@dataclass(frozen=True)
class PerfRecording:
    """A perf.data file read into columns, before symbols."""

    path: Path
    header: Header
    raw: Raw

    @property
    def needs_perf(self) -> bool:
        """Whether only perf can make the call chains of this file."""
        return any(source.attr.needs_unwinding for source in self.header.sources)

    @property
    def damage(self) -> tuple[str, ...]:
        """Sentences about what of the file is missing or unreadable."""
        corrupt = self.raw.corrupt_bytes
        unread = [f"{format_bytes(corrupt)} of the file hold no whole record."] if corrupt else []
        return (*self.header.damage, *(unread if not self.header.damage else ()))

    @property
    def holds_stacks(self) -> bool:
        """Whether samples have copies of the program's stack, overwritten or not."""
        return any(source.attr.sample_type & perf.SAMPLE_STACK_USER for source in self.header.sources)


def load(path: Path, progress: Progress = untold, *, as_recorded: bool = False, placed: bool = False) -> PerfRecording:
    """Read the records of a perf.data file (`read_records`).

    CaptureError if it cannot be opened, FormatError if it is none.
    """
    with readable(path), path.open("rb", buffering=0) as file:
        header, raw = read_records(file, path, progress, as_recorded=as_recorded, placed=placed)
    recording = PerfRecording(path, header, raw)
    if not header.sources:
        raise FormatError(
            str(path),
            expected="at least one event",
            found="none",
            offset=header.data_offset,
            remedy="The file ends before its first event. Record again.",
            slug="perf-data-format",
        )
    return recording


def to_capture(recording: PerfRecording, resolver: Resolver, manifest: Manifest | None, ranges: RangeTable) -> Capture:
    """The capture that a recording and its symbols make; `manifest` None makes one from the feature headers."""
    header = recording.header
    raw, counted, of_counters = counters.weighed(recording.raw, header.sources)
    facts = manifest or synthesized_manifest(header)
    raw, paused_ns, of_pauses = _without_pauses(raw, header.sources, facts)
    tasks, spaces = raw.tasks, raw.spaces
    recorded, woken = wakeups.apart(raw, header.sources)
    samples, left_out, notes = _of_program(recorded, tasks, spaces, header, facts, ranges)
    off_cpu = _off_cpu_sources(raw, header.sources)
    if off_cpu:
        samples = samples.take(_may_wait(samples, spaces, off_cpu))
    woken = woken.of_program(samples, spaces, system_wide=is_system_wide(header.features.command) is True)
    chain = np.append(samples.chain, woken.samples.chain) if len(woken.samples) else samples.chain
    samples.unload()
    stacks = stacks_of(chain, raw, resolver)
    samples.unload()
    nodes, wakers = np.split(stacks.node, [len(samples)])
    events, event = _events(header.sources, samples.source, off_cpu, counted)
    weights = _weights(header.sources, samples)
    clock, wait, switching_ns = samples.clock, None, 0
    if off_cpu:
        clock, weights = clock.copy(), weights.copy()
        wait = _weigh_waits(clock, weights, samples, off_cpu, raw)
        switching_ns = int((clock - samples.clock).sum())
    weights, cut = summable(weights)
    sampled = pairs_of(distinct_pairs(samples.pid, samples.tid))
    threads, inherited = kernel_names(tasks, sampled)
    order, mapped = in_order(clock), _mapped(samples, raw)
    sync = clock_of(header.sources)
    notes = [*header.notes, *notes, *of_counters, *of_pauses, *cut]
    if sync.source != "monotonic":
        notes.append(_UNALIGNED.format(sync.source))
    if not any(source.attr.sample_type & perf.SAMPLE_CALLCHAIN for source in header.sources):
        notes.append("The recording has no call chains. Record with `perf record -g`.")
    if not raw.timed:
        notes.append("The samples have no times, so ranges can't be separated.")
    return Capture(
        path=str(recording.path),
        manifest=facts,
        events=events,
        samples=SampleTable(
            time_ns=taken(clock, order) if raw.timed else np.zeros_like(clock),
            pid=taken(samples.pid, order),
            tid=taken(samples.tid, order),
            cpu=taken(samples.cpu, order),
            event=taken(packed(event), order),
            weight=taken(packed(weights), order),
            stack=taken(nodes, order),
            ip=taken(samples.ip, order),
            address=taken(samples.addr, order),
            wait=None if wait is None else wait[order],
            mapped=None if mapped is None else mapped[order],
        ),
        stacks=stacks.table,
        ranges=ranges,
        threads=threads,
        inherited=inherited,
        wakeups=woken.table(wakers) if raw.timed else None,
        exits=_exits(raw.exits, sampled) if raw.timed else ExitTable.empty(),
        strangers=woken.strangers(tasks),
        renamed=changed_names(tasks, sampled) if raw.timed else {},
        clock=sync,
        losses=Losses(
            lost_samples=raw.lost_samples,
            unknown_records=raw.unknown_records,
            truncated_chains=_truncated(header.sources, samples, raw.chains),
            corrupt_bytes=raw.corrupt_bytes,
            unresolved_frames=stacks.unresolved,
            missing_stacks=int(samples.unchained.sum()),
            other_processes=left_out,
            switching_ns=switching_ns,
            paused_ns=paused_ns,
            notes=tuple(notes),
            unsampled=() if manifest else _uninherited(recording, sampled),
            damage=recording.damage,
        ),
        utc_offset_ns=header.features.utc_offset_ns,
    )


def _mapped(samples: RawSamples, raw: Raw) -> UInt8 | None:
    """What the samples' data addresses lie in; None where nothing says it: mappings may be among lost records."""
    if not raw.areas or not raw.timed or raw.losses:
        return None
    changes = fault_mappings.by_time(raw.areas, raw.tasks)
    return fault_mappings.mapped_at(samples.clock, samples.pid, samples.addr, changes)


def _uninherited(recording: PerfRecording, sampled: Collection[tuple[int, int]]) -> tuple[str, ...]:
    """Says that perf recorded none of the threads and processes which those that it recorded started."""
    header = recording.header
    events = [source.attr for source in header.sources if not source.attr.is_dummy]
    if is_system_wide(header.features.command) is not False or any(attr.inherits for attr in events):
        return ()
    started = {
        (record.pid, record.tid)
        for _, record in recording.raw.tasks
        if isinstance(record, rec.ForkRecord) and record.clones
    }
    if not started - set(sampled):
        return ()
    what = format_counted(len(started - set(sampled)), "thread or process", "threads and processes")
    why = "its counters were not inherited: record without --no-inherit and without a group that it reads (`:S`)"
    return (f"perf did not record {what} that the program started, because {why}.",)


def _exits(exits: Mapping[tuple[int, int], int], sampled: Collection[tuple[int, int]]) -> ExitTable:
    """When the threads ended that samples are of."""
    known = sorted((exits[pair], *pair) for pair in sampled if 0 < exits.get(pair, 0) < 1 << 63)
    time, pid, tid = zip(*known, strict=True) if known else ((), (), ())
    return ExitTable.of(len(known), time_ns=time, pid=pid, tid=tid)


def stacks_of(chain: Int32, raw: Raw, resolver: Resolver) -> ResolvedStacks:
    """The stacks of some of a recording's samples, by their chains."""
    return build_stacks(raw.chains, chain, raw.spaces, resolver)


def synthesized_manifest(header: Header) -> Manifest:
    """A manifest from what perf's feature headers say; the recording host's name is not among it."""
    features = header.features
    facts = dict(features.facts)
    collector: dict[str, Any] = {"name": "perf", "version": facts.pop("perf_version", ""), "options": {}}
    collector["command"] = list(features.command)
    return new_manifest(
        command=profiled_command(features.command),
        host=facts,
        collectors=(collector,),
        outcome={"state": "interrupted" if header.data_size is None and header.notes else "complete"},
    )


def _of_program(
    samples: RawSamples,
    tasks: Iterable[tuple[int, TaskRecord]],
    spaces: SpaceTable,
    header: Header,
    manifest: Manifest,
    ranges: RangeTable,
) -> tuple[RawSamples, int, list[str]]:
    """The samples of the recorded program, its descendants and the kernel; how many others; notes.

    A recording of a program alone holds nothing else, so only system-wide ones are sifted; and of these not those in
    which the program only says how long to record, as `sleep` does.
    """
    pids = distinct(samples.pid).tolist()
    system_wide = is_system_wide(header.features.command)
    if system_wide is None:
        system_wide = IDLE_PID in pids
    if not system_wide:
        return samples, 0, []
    known = _known_pids(manifest, ranges) & set(pids)
    tree = program_tree(tasks, known, manifest.command)
    mapped = np.array([pid for pid in pids if pid > 0 and spaces.has_mappings(pid)], np.int32)
    if tree and not known:
        own, others = (int(np.isin(samples.pid, each).sum()) for each in (np.array([*tree], np.int32), mapped))
        if is_timer(manifest.command) or own < LEAST_OF_MACHINE * others:
            what = (
                f"{PurePath(manifest.command[0]).name}, whose end ends it, has {own:,} of its {len(samples):,} samples"
            )
            return samples, 0, [f"The recording is of the whole machine: {what}. So it shows every process."]
    if not tree:
        return samples, 0, ["The recording is system-wide and does not name a program, so it shows every process."]
    foreign = {*mapped.tolist()} - tree
    kept = [pid for pid in pids if pid in tree or pid == IDLE_PID or (pid > 0 and pid not in foreign)]
    rows = np.isin(samples.pid, np.array(kept, np.int32))
    if rows.all():
        return samples, 0, []
    return samples.take(rows), int((~rows).sum()), []


def _truncated(sources: list[EventSource], samples: RawSamples, chains: Chains) -> int:
    """How many callchains are as long as their event permits."""
    limit = np.array([source.attr.sample_max_stack or rec.MAX_STACK for source in sources], np.int32)
    length = np.append(chains.length, 0)
    parts = slices(len(samples))
    return sum(int((length[samples.chain[part]] >= limit[samples.source[part]]).sum()) for part in parts)


def _known_pids(manifest: Manifest, ranges: RangeTable) -> set[int]:
    """Pids that are the program's for certain: its collector's, and those that marked ranges."""
    named = [part.get("pid") for part in (manifest.outcome, *manifest.collectors)]
    return {pid for pid in (*named, *ascending(ranges.pid).tolist()) if isinstance(pid, int) and pid > IDLE_PID}


def _off_cpu_sources(raw: Raw, sources: list[EventSource]) -> list[int]:
    """The events whose samples are switch-outs that switch records can end."""
    if not len(raw.switches) or not raw.timed:
        return []
    return [index for index, entry in enumerate(sources) if entry.attr.is_context_switches]


def _without_pauses(raw: Raw, sources: list[EventSource], manifest: Manifest) -> tuple[Raw, int, list[str]]:
    """The recording with what pauses of sampling hide, how long these were, and notes."""
    clocks = [at for at, entry in enumerate(sources) if _unit(entry.attr) == "ns"]
    waits = _off_cpu_sources(raw, sources)
    joined_ns = max((part.get("thinned", {}).get("joined_ns", 0) for part in manifest.collectors), default=0)
    found = filled(raw.samples, raw.switches, raw.pauses, raw.exits, clocks=clocks, waits=waits, joined_ns=joined_ns)
    payload = raw.payload
    if len(payload) and found.paused_ns:
        payload = payload[found.kept]
        none = np.zeros((len(found.samples) - len(payload), payload.shape[1]), np.uint64)
        payload = np.concatenate([payload, none])
    ran = format_ns(found.unsampled_ns)
    notes = [f"Threads of which there is no sample ran {ran} while sampling was paused."] if found.unsampled_ns else []
    return replace(raw, samples=found.samples, switches=found.switches, payload=payload), found.paused_ns, notes


def _may_wait(samples: RawSamples, spaces: SpaceTable, off_cpu: list[int]) -> Bool:
    """All samples but switch-outs of kernel threads and idle loops, which wait most of the time, and of dead threads:
    the last one, seen by a system-wide recording alone, has no thread any more.
    """
    switched = np.isin(samples.source, off_cpu)
    pids = ascending(samples.pid[switched]).tolist()
    waiting = [pid for pid in pids if pid > IDLE_PID and spaces.has_mappings(pid)]
    return ~switched | (np.isin(samples.pid, np.array(waiting, np.int32)) & (samples.tid > 0))


def _weigh_waits(clock: Int64, weights: Int64, samples: RawSamples, off_cpu: list[int], raw: Raw) -> UInt8:
    """Give each switch-out the moment of leaving and the time until its thread ran again; per sample READY where it
    could have run on.
    """
    row = np.flatnonzero(np.isin(samples.source, off_cpu))
    last = max(int(raw.switches.time_ns.max()), int(raw.samples.clock.max(initial=0)))
    waited = waits(samples.clock[row], samples.pid[row], samples.tid[row], raw.switches, raw.exits, last)
    clock[row] = waited.begin_ns
    weights[row] = waited.end_ns - waited.begin_ns
    wait = np.zeros(len(weights), np.uint8)
    wait[row] = np.where(waited.ready, READY, 0)
    return wait


def _events(
    sources: list[EventSource], source: Int32, off_cpu: Collection[int] = (), counted: Collection[int] = ()
) -> tuple[tuple[Event, ...], Int16]:
    """The events that can have samples, and per sample its index among them; time off the CPU comes last."""
    shown = [
        index for index, entry in enumerate(sources) if not entry.attr.is_dummy and entry.name not in wakeups.ALONE
    ]
    shown.sort(key=lambda index: index in off_cpu)
    place = np.zeros(max(len(sources), 1), np.int16)
    place[shown] = np.arange(len(shown))
    named = (OFF_CPU if index in off_cpu else _event(sources[index], counted=index in counted) for index in shown)
    return tuple(named), place[source]


def _event(source: EventSource, *, counted: bool) -> Event:
    attr = source.attr
    name, unit = source.name or attr.default_name(), _unit(attr)
    if perf.counts_time(name):
        unit, counted = "ns", True
    return Event(
        name=name,
        unit=unit,
        period=None if attr.freq or counted else attr.period_or_freq,
        freq_hz=attr.period_or_freq if attr.freq else None,
        counted=counted,
        kernel_left_out=attr.user_only,
    )


def _unit(attr: rec.Attr) -> Unit:
    if attr.type == perf.TYPE_SOFTWARE and attr.config in rec.CLOCKS:
        return "ns"
    if attr.type == perf.TYPE_SOFTWARE and attr.config in rec.FAULTS:
        return "faults"
    weighed = attr.sample_type & perf.SAMPLE_PERIOD or attr.read_at_samples
    return "events" if weighed or not attr.freq else "samples"


def _weights(sources: list[EventSource], samples: RawSamples) -> Int64:
    """Per sample its weight in its event's unit; see the top of this module."""
    if len(samples) > 1 and all(is_uniform(column) for column in (samples.period, samples.source, samples.left_out)):
        return uniform(_weights_of(sources, samples.take(slice(1)))[0], len(samples), np.int64)
    parts = (_weights_of(sources, samples.take(part)) for part in slices(len(samples)))
    return put_together(parts, len(samples), np.int64)


def _weights_of(sources: list[EventSource], samples: RawSamples) -> Int64:
    """The same of a few samples."""
    weights = samples.period.copy()
    for index, source in enumerate(sources):
        attr = source.attr
        fixed = None
        if _unit(attr) == "samples":
            fixed = 1
        elif attr.read_at_samples:
            pass
        elif not attr.sample_type & perf.SAMPLE_PERIOD:
            per_sample = 10**9 // max(attr.period_or_freq, 1) if _unit(attr) == "ns" else 1
            fixed = min(per_sample if attr.freq else max(attr.period_or_freq, 1), MAX_WEIGHT)
        if fixed is not None:
            mine = samples.source == index
            weights[mine] = np.minimum(fixed * (1.0 + samples.left_out[mine]), MAX_WEIGHT)
    return weights


def clock_of(sources: list[EventSource]) -> ClockSync:
    """The clock of the samples' times."""
    attr = sources[0].attr
    if not attr.use_clockid:
        return ClockSync("perf", 0, 0)
    return ClockSync(_CLOCK_NAMES.get(attr.clockid, f"clock-{attr.clockid}"), 0, 0)
