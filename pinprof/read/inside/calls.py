"""CUDA calls from the agent's files → `Activity`: each with its line, and both ends of every copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import ascending, numbered_pairs, pairs_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted
from pinprof.data.activity import NO_STREAM, UNRECORDED, Activity, Api, ApiCallTable, Caller, CopyKind, Location
from pinprof.data.gpu_functions import FUNCTIONS, Function
from pinprof.data.host_memory import LargeMemory
from pinprof.data.meeting_calls import MeetingCalls
from pinprof.data.model import NO_NODE, Bool, Capture, Int32, Int64, StackTable, UInt8, UInt64
from pinprof.read.assembly import StackBuilder
from pinprof.read.by_thread import outermost
from pinprof.read.directory import Reading
from pinprof.read.inside import file as inside_file
from pinprof.read.inside import samples, sums
from pinprof.read.inside.blocks import host_memory
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import Flag, Stop
from pinprof.read.inside.meetings import meeting_calls
from pinprof.read.inside.sites import NOWHERE, KnownSite, sites_of
from pinprof.read.perf import cuda_memory
from pinprof.read.perf.cuda_memory import Arguments
from pinprof.read.perf.cuda_processes import MappingKind, Process
from pinprof.read.symbols.resolver import Resolver
from pinprof.streams import store

SOURCE = "pinprof's agent in front of libcuda"
TRACED = frozenset({"cuda calls", "memory"})


@dataclass(frozen=True)
class InsideCalls:
    """What the files of a capture say, and what must be said about them."""

    activity: Activity
    notes: tuple[str, ...]
    stacks: StackTable | None = None
    """The callers'; the calls' `stack` points into it."""
    memory: LargeMemory | None = None
    """Large memory of the host; None where none was recorded."""
    meetings: MeetingCalls | None = None
    """Calls in which processes meet; None where there are none."""


def with_calls(capture: Capture, path: Path, reading: Reading) -> Capture:
    """The capture with the calls of processes that have the agent inside, in place of others of these processes."""
    files = [inside_file.load(each) for each in sorted(path.glob("*.bin"))]
    if not files:
        return capture
    known = [file for file in files if file is not None]
    capture = samples.with_samples(capture, known, reading.resolver, store.part(reading.directory, store.RATES))
    found = combine(known, reading.resolver, unreadable=files.count(None))
    capture = replace(capture.with_notes(*found.notes), host_memory=found.memory, meetings=found.meetings)
    if not found.activity.sited and (found.memory is not None or found.meetings is not None):
        return capture
    return replace(capture, activity=added(capture.activity, found), call_stacks=found.stacks)


def called_cuda(folder: Path) -> bool:
    """Whether a process with a file in a folder called CUDA's driver."""
    return any(file is not None and file.has_calls for file in map(inside_file.load, sorted(folder.glob("*.bin"))))


def combine(files: Sequence[InsideFile], resolver: Resolver, *, unreadable: int = 0) -> InsideCalls:
    """The calls of several processes, by start."""
    names: dict[str, int] = {}
    sites: dict[Caller, int] = {}
    stacks = StackBuilder()
    calls, memory, left_out = ApiCallTable.empty(), Activity("").memory, 0
    tables: list[ApiCallTable] = []
    known = [(file, sites_of(file, resolver, stacks)) for file in files]
    for file, made_by in known:
        if not file.has_calls:
            continue
        rows = sums.expanded(file)
        left_out += rows.left_out
        table, arguments, summed = _table(file, rows, made_by, names, sites)
        # All that CUDA grants has its address here, and any other memory is the program's own, from the beginning on.
        process = Process(whole=not file.had_cuda)
        process.mapped.put(0, 2**64 - 1, MappingKind.HOST)
        found = cuda_memory.with_memory(table, arguments, file.areas, (), {file.pid: process})
        shift = sum(len(each) for each in tables)
        made = _with_ends_of_sums(found.calls, summed)
        tables.append(replace(made, correlation_id=made.correlation_id + shift))
        memory = memory.joined(replace(found.usage, correlation_id=found.usage.correlation_id + shift))
    if tables:
        tables = [replace(table, names=(), sites=()) for table in tables]
        calls = replace(tables[0], names=tuple(names), sites=tuple(sites)).joined(*tables[1:])
        calls = calls.take(np.lexsort((-calls.end_ns, calls.start_ns)))
    lost = sum(file.lost for file in files) + left_out
    pids = frozenset(file.pid for file in files if file.has_calls)
    activity = Activity(
        SOURCE,
        calls=calls,
        memory=memory.take(np.argsort(memory.time_ns, kind="stable")),
        recorded=TRACED if pids else frozenset(),
        lost_calls=lost,
        lost_memory=any(file.lost for file in files),
        sited=pids,
        part=any(file.asked for file in files),
    )
    notes = _notes(files, unreadable, left_out)
    return InsideCalls(activity, notes, stacks.table(), host_memory(known), meeting_calls(known))


def added(activity: Activity | None, found: InsideCalls) -> Activity:
    """An activity in which the calls of some processes are those that were found."""
    if activity is None:
        return found.activity
    others = activity.calls.take(~np.isin(activity.calls.pid, list(found.activity.sited)))
    calls = _beside(found.activity.calls, others) if len(others) else found.activity.calls
    return replace(
        activity,
        source=f"{found.activity.source}; {activity.source}" if activity.source else found.activity.source,
        calls=calls,
        memory=found.activity.memory,
        recorded=activity.recorded | found.activity.recorded,
        sited=found.activity.sited,
        call_overhead=None,
        given_up=(),
        lost_calls=found.activity.lost_calls,
        lost_memory=found.activity.lost_memory,
        part=found.activity.part,
    )


def _beside(calls: ApiCallTable, others: ApiCallTable) -> ApiCallTable:
    """The calls of processes with the agent and of those without, by start."""
    names = {name: number for number, name in enumerate(calls.names)}
    sites = {site: number for number, site in enumerate(calls.sites)}
    called = np.array([names.setdefault(name, len(names)) for name in others.names] or [0], np.int32)
    caller = np.array([*(sites.setdefault(site, len(sites)) for site in others.sites), -1], np.int32)
    others = replace(
        others,
        name=called[others.name],
        site=caller[others.site] if others.site is not None else np.full(len(others), -1, np.int32),
        correlation_id=np.where(others.correlation_id > 0, others.correlation_id + len(calls), others.correlation_id),
        stack=np.full(len(others), NO_NODE, np.int32),
        minor_faults=np.full(len(others), -1, np.int32),
        major_faults=np.full(len(others), -1, np.int32),
        rough=np.zeros(len(others), np.bool_),
        device=np.full(len(others), -1, np.int32),
        names=(),
        sites=(),
    )
    both = replace(calls, names=tuple(names), sites=tuple(sites)).joined(others)
    return both.take(np.lexsort((-both.end_ns, both.start_ns)))


def _table(
    file: InsideFile, rows: sums.Expanded, known: dict[int, KnownSite], names: dict[str, int], sites: dict[Caller, int]
) -> tuple[ApiCallTable, Arguments, Bool]:
    """The outermost calls of a process, what else their arguments say, and which are of sums."""
    records, record = file.records, rows.record
    pid = np.full(len(record), file.pid, np.int32)
    # Where those of sums lie is not known so well that one could lie in another.
    outer, exact = np.arange(len(record)), np.flatnonzero(~rows.summed)
    begin_ns, end_ns = rows.begin_ns[exact], rows.end_ns[exact]
    outer[exact] = exact[outermost(begin_ns, end_ns, pid[exact], file.tid[record][exact])]
    kept = np.flatnonzero(outer == np.arange(len(outer)))
    folded = (np.bincount(outer, minlength=len(outer)) - 1)[kept]
    row = record[kept]
    called = records["function"][row].astype(np.int64)
    numbers = ascending(records["site"][row])
    made_by = [known.get(number, NOWHERE) for number in numbers.tolist()]
    site = np.searchsorted(numbers, records["site"][row])
    name, api = _named(file.names, called, made_by, site, names)
    roles = [FUNCTIONS.get(name, Function()) for name in file.names]
    summed = rows.summed[kept]

    def of(column: str, *places: str) -> UInt64:
        """The column where a function has such an argument, 0 elsewhere and in sums."""
        has = np.array([any(getattr(role, place) is not None for place in places) for role in roles] or [False])
        return np.where(has[called] & ~summed, records[column][row], np.uint64(0))

    grants = np.array([role.grants and role.properties is None for role in roles] or [False])[called]
    pointer = np.where(grants & ~summed, records["address"][row], of("address", "pointer"))
    location = np.where(of("extra", "properties") <= max(Location), of("extra", "properties"), Location.UNKNOWN)
    # Agents before this one told no GPU, and faults there.
    of_gpu = np.array([role.device is not None for role in roles] or [False], np.bool_)[called]
    of_gpu &= records["flags"][row] & Flag.FAULTED == 0
    stated = np.array(
        [CopyKind.UNKNOWN if role.copies is None else role.copies for role in roles] or [CopyKind.UNKNOWN], np.uint8
    )
    table = ApiCallTable(
        start_ns=rows.begin_ns[kept],
        end_ns=rows.end_ns[kept],
        name=name,
        pid=pid[kept],
        tid=file.tid[row],
        correlation_id=np.arange(1, len(row) + 1),
        status=records["result"][row].copy(),
        api=api,
        folded=folded.astype(np.int32),
        names=tuple(names),
        size_bytes=rows.size_bytes[kept],
        site=_of_sites([sites.setdefault(each.caller, len(sites)) if each.caller else -1 for each in made_by])[site],
        sites=tuple(sites),
        context_ns=np.zeros(len(row), np.int64),
        device=np.where(of_gpu & ~summed, records["extra"][row].astype(np.int32) - 1, np.int32(-1)),
        stream=np.where(summed, np.uint64(NO_STREAM), records["stream"][row]),
        stack=_of_sites([each.stack for each in made_by])[site],
        minor_faults=_faults(records[row], 0, 0xFFFFFF),
        major_faults=_faults(records[row], 24, 0xFF),
        rough=summed,
    )
    arguments = Arguments(
        pointer, of("address", "target"), of("source", "source"), stated[called], of("extra", "pieces"),
        location.astype(np.uint8),
    )  # fmt: skip
    return table, arguments, summed


def _faults(records: NDArray[np.void], shift: int, mask: int) -> Int32:
    """Where the agent looked at faults, how many there were, by their place in `extra`; -1 elsewhere."""
    count = records["extra"].astype(np.int64) >> shift & mask
    return np.where(records["flags"] & Flag.FAULTED > 0, count, -1).astype(np.int32)


def _of_sites(values: Sequence[int]) -> Int32:
    """A number for each site, one more for none."""
    return np.array([*values, -1], np.int32)


def _does_the_same(runtime: str, driver: str) -> bool:
    """Whether a call of the runtime is this call of the driver, and not one that sets something up for it."""
    one, other = FUNCTIONS.get(runtime), FUNCTIONS.get(driver)
    if one is None or other is None:
        return False
    if runtime.removeprefix("cuda") == driver.removeprefix("cu"):
        return True
    return one.purpose == other.purpose != "other" and one.memory == other.memory


def _named(
    functions: Sequence[str], called: Int64, made_by: Sequence[KnownSite], site: Int64, names: dict[str, int]
) -> tuple[Int32, UInt8]:
    """The name of each call and its `Api`: the runtime's function that made it, where that one does the same."""
    distinct, which = numbered_pairs(called, site)
    name, api = np.zeros(len(distinct), np.int32), np.zeros(len(distinct), np.uint8)
    for place, (number, at) in enumerate(pairs_of(distinct)):
        driver, runtime = functions[number], made_by[at].runtime
        same = _does_the_same(runtime, driver)
        name[place] = names.setdefault(runtime if same else driver, len(names))
        api[place] = Api.RUNTIME if same and runtime.startswith("cuda") else Api.DRIVER
    which = which.reshape(-1)
    return name[which], api[which]


def _with_ends_of_sums(calls: ApiCallTable, summed: Bool) -> ApiCallTable:
    """Summed copies lie where, and on the stream that, the last one like them did that was recorded by itself."""
    assert calls.copy_kind is not None
    assert calls.size_bytes is not None
    assert calls.site is not None
    copies = np.flatnonzero(calls.copy_kind != UNRECORDED)
    if not summed[copies].any():
        return calls
    size_class = np.frexp(np.maximum(calls.size_bytes[copies], 0).astype(np.float64))[1]
    alike = _numbered(calls.tid[copies], calls.site[copies], calls.name[copies], size_class)
    copies = copies[np.lexsort((calls.start_ns[copies], alike))]
    alike = np.sort(alike)
    known: Int64 = np.maximum.accumulate(np.where(summed[copies], -1, np.arange(len(copies))))
    usable = summed[copies] & (known >= 0) & (alike[known] == alike)
    to, like = copies[usable], copies[known[usable]]
    changed: dict[str, Any] = {}
    for name in ("copy_kind", "source_kind", "target_kind", "stream"):
        changed[name] = getattr(calls, name).copy()
        changed[name][to] = changed[name][like]
    return replace(calls, **changed)


def _numbered(*columns: NDArray[Any]) -> Int64:
    """The same number for rows that are the same in all columns."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        number = numbered_pairs(number, column)[1]
    return number


def _notes(files: Sequence[InsideFile], unreadable: int, left_out: int) -> tuple[str, ...]:
    """Sentences about what is missing."""
    notes = []
    if any(file.had_cuda for file in files if file.has_calls):
        notes.append(
            "CUDA was loaded before the recording began: what was pinned before is not known, and calls by functions "
            "that the program keeps outside of its libraries' data were not recorded."
        )
    if lost := sum(file.lost for file in files):
        what = format_counted(lost, "CUDA call was", "CUDA calls were")
        notes.append(f"{what} not recorded: the file was full, or a signal interrupted the agent.")
    for calls, what in ((True, "CUDA calls"), (False, "large blocks of memory")):
        stops = {file.stop for file in files if file.has_calls == calls}
        if Stop.NO_ROOM in stops:
            notes.append(f"Recording of {what} ended early for lack of space.")
        if Stop.LIMIT in stops:
            notes.append(f"Recording of {what} ended early: a process had more of them than its file holds.")
    if lost := sum(file.lost_blocks for file in files):
        what = format_counted(lost, "event of large memory was", "events of large memory were")
        notes.append(f"{what} not recorded: the file was full, or a signal interrupted the agent.")
    if left_out:
        what = format_counted(left_out, "CUDA call has", "CUDA calls have")
        notes.append(f"{what} no row of their own: their bytes and times are in those of calls like them.")
    if unsited := sum(file.unsited for file in files):
        what = format_counted(unsited, "call site", "call sites")
        notes.append(f"{what} without a line: a process has 65,535 with one at most.")
    if damaged := sum(file.damaged for file in files) + unreadable:
        notes.append(f"{format_counted(damaged, 'part', 'parts')} of the recording of CUDA calls left out as damaged.")
    return tuple(notes)
