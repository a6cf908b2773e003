"""An Nsight Systems export → Capture: `.sqlite` files and parquetdir folders, schema of 2020.3 and later.

Times are nanoseconds since the session began, so they are no clock that another tool's recording shares; `Activity`
has the UTC time of their origin. Kept are the processes that nsys traced; what a report holds beside them (environment,
process list, output, host and user name) is never read: see `schema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import distinct, pack, pairs_of
from pinprof.base.errors import CaptureError
from pinprof.data.activity import Activity, OpKind, SchedTable
from pinprof.data.manifest import Manifest
from pinprof.data.model import Capture, ClockSync, RangeTable
from pinprof.read.nsys import schema
from pinprof.read.nsys.activity import read_cuda, read_faults, read_memory, read_os_calls, read_sched
from pinprof.read.nsys.numbers import number
from pinprof.read.nsys.nvtx import read_nvtx
from pinprof.read.nsys.samples import CpuSamples, read_samples
from pinprof.read.nsys.source import EXPORT_AGAIN, MAGIC, OpenedExport, open_source
from pinprof.read.nsys.tables import ExportTables
from pinprof.read.reader import Certainty, Reader, ReadOptions
from pinprof.read.symbols.resolver import Resolver
from pinprof.streams.store import new_manifest

_PROCESS_TREE = "ProcessTree"
"""Scope of CPU samples: the program and its children. Otherwise samples of unrelated processes may be among them."""


def certainty(path: Path, head: bytes) -> Certainty:
    """Certain of a parquetdir folder, by its tables. A file that is SQLite is likely an export; `read` tells."""
    if path.is_dir() and any((path / f"{table}.parquet").is_file() for table in schema.KNOWN_TABLES):
        return Certainty.CERTAIN
    return Certainty.LIKELY if head.startswith(MAGIC) else Certainty.NO


def read(path: Path, options: ReadOptions, resolver: Resolver | None = None) -> Capture:
    """The capture in an export; CaptureError when it is none, or half of one, FormatError when it is cut short.

    `resolver` names the kernel's addresses; without one, the kallsyms of the options does.
    """
    with open_source(path, options.progress) as source:
        _check_tables(source)
        return _read(source, options, resolver or Resolver(kallsyms=options.kallsyms, symfs=options.symfs))


def _read(source: OpenedExport, options: ReadOptions, resolver: Resolver) -> Capture:
    tables = ExportTables(source)
    facts = source.facts(schema.CAPTURE_FACTS, schema.CAPTURE_KEYS)
    calls, gpu_ops = read_cuda(tables)
    faults, memory, os_calls, sched = (
        read_faults(tables),
        read_memory(tables),
        read_os_calls(tables),
        read_sched(tables),
    )
    session = tables.read(schema.SESSION)["duration"]
    for table in (calls, gpu_ops):
        table.unload()
    ends = (calls.end_ns, gpu_ops.end_ns, faults.time_ns, memory.time_ns, os_calls.end_ns, sched.time_ns, session)
    end_ns = max(int(column.max(initial=0)) for column in ends)
    ranges, marks, given_names = read_nvtx(tables, end_ns)
    spoke = tables.read(schema.DIAGNOSTICS)["pid"]
    traced = distinct(*(table.pid for table in (calls, gpu_ops, faults, memory, os_calls, ranges, marks)), spoke)
    traced = traced[traced > 0]
    ours = traced if len(traced) and facts.get(schema.SAMPLING_SCOPE) != _PROCESS_TREE else None
    cpu = read_samples(tables, facts, ours, resolver)
    sched = _of_processes(tables, sched, distinct(traced, cpu.samples.pid))
    version, schema_version = _versions(source)
    start = tables.read(schema.SESSION_START)
    activity = Activity(
        source=f"Nsight Systems {version or '(version not recorded)'}, schema {schema_version or 'before 2.9'}",
        calls=calls,
        gpu_ops=gpu_ops,
        faults=faults,
        memory=memory,
        os_calls=os_calls,
        sched=sched,
        marks=marks,
        recorded=_recorded(source, facts),
        start_utc_ns=_first(start["utc"]),
        start_system_ns=_first(start["system"]),
    )
    activity.unload()
    threads = _thread_names(tables, given_names, (cpu.samples, calls, os_calls, ranges, marks, sched))
    return Capture(
        path=source.path,
        manifest=_manifest(tables, facts, version, schema_version, activity, end_ns),
        events=cpu.events,
        samples=cpu.samples,
        stacks=cpu.stacks,
        ranges=ranges,
        threads=threads,
        clock=ClockSync("nsys session", 0, 0),
        losses=replace(
            cpu.losses,
            unknown_records=tables.bad_rows,
            notes=(*tables.notes, *_notes(activity, ranges, cpu, schema_version, options), *cpu.losses.notes),
        ),
        activity=activity,
        # Of the kernel nsys keeps at most the innermost address.
        kernel_chains=False,
    )


def _check_tables(source: OpenedExport) -> None:
    """CaptureError unless there is something that nsys exports for every session, events or not."""
    known = schema.KNOWN_TABLES & source.tables.keys()
    if any(table.startswith("rocpd_") for table in source.tables):
        raise CaptureError(
            f"{source.path} is a database of rocprofv3 (rocpd), not an Nsight Systems export.",
            "Convert it: `rocpd convert -i FILE --output-format pftrace`, then Perfetto's `traceconv json`.",
            "not-nsys",
        )
    if known <= {schema.STRINGS[0]} and len(source.tables) > len(known):
        raise CaptureError(
            f"{source.path} is not an Nsight Systems export: it has none of the tables.",
            "Give a .sqlite that `nsys export --type sqlite` wrote.",
            "not-nsys",
        )
    if not known & (schema.EVENT_TABLES | schema.SESSION_TABLES):
        raise CaptureError(
            f"{source.path} is the start of an incomplete export: it has {len(source.tables)} tables and no events.",
            f"nsys writes such a file when the report is newer than nsys. {EXPORT_AGAIN}",
            "nsys-stub",
        )


def _versions(source: OpenedExport) -> tuple[str, str]:
    """Version of the exporting nsys and of the schema; empty where the export does not say."""
    facts: dict[str, str] = {}
    for table in schema.EXPORT_FACTS:
        facts |= source.facts(table, schema.EXPORT_KEYS)
    version, schema_version = (facts.get(key, "") for key in schema.EXPORT_KEYS)
    return version, schema_version


def _recorded(source: OpenedExport, facts: Mapping[str, str]) -> frozenset[str]:
    """Traces that were on: the session's settings say so, or the export has their tables."""
    tables = source.tables.keys()
    by_table = {
        trace
        for trace, schemas in schema.EVENTS.items()
        if any(name in tables for table in schemas for name in table.names)
    }
    return frozenset(by_table | {trace for key, trace in schema.TRACED.items() if facts.get(key) == "true"})


def _of_processes(tables: ExportTables, sched: SchedTable, pids: NDArray[Any]) -> SchedTable:
    ours = np.isin(sched.pid, pids)
    if others := len(sched) - int(np.count_nonzero(ours)):
        tables.notes.append(f"{others} context switches of other processes were left out.")
        return sched.take(ours)
    return sched


def _thread_names(
    tables: ExportTables, given: Mapping[tuple[int, int], str], seen: Iterable[Any]
) -> dict[tuple[int, int], str]:
    """Names of the threads that something was recorded of; those that the program gave by NVTX win."""
    there = distinct(*(pack(table.pid, table.tid) for table in seen))
    raw = tables.read(schema.THREADS)
    rows = np.flatnonzero(np.isin(pack(raw["pid"], raw["tid"]), there))
    index, names = tables.names(raw["name"][rows])
    named = zip(raw["pid"][rows].tolist(), raw["tid"][rows].tolist(), index.tolist(), strict=True)
    threads = {(pid, tid): names[name] for pid, tid, name in named if name >= 0}
    seen_threads = set(pairs_of(there))
    return threads | {thread: name for thread, name in given.items() if thread in seen_threads}


def _manifest(
    tables: ExportTables, facts: Mapping[str, str], version: str, schema_version: str, activity: Activity, end_ns: int
) -> Manifest:
    outcome: dict[str, Any] = {"state": "complete", "duration_ns": end_ns}
    if activity.start_utc_ns and 0 < activity.start_utc_ns < 2**62:
        outcome["started_utc"] = datetime.fromtimestamp(activity.start_utc_ns // 10**9, UTC).isoformat()
    return new_manifest(
        command=_command(facts),
        host=_host(tables),
        collectors=({"name": "nsys", "version": version, "schema": schema_version},),
        outcome=outcome,
    )


def _command(facts: Mapping[str, str]) -> tuple[str, ...]:
    keys = (schema.COMMAND_KEY, *(schema.ARGUMENT_KEY.format(number) for number in range(schema.MAX_ARGUMENTS)))
    return tuple(facts[key] for key in keys if key in facts)


def _host(tables: ExportTables) -> dict[str, Any]:
    """Machine facts, named as `collect.host.facts` names them; no host name."""
    facts = tables.source.facts(schema.SYSTEM_FACTS, schema.SYSTEM_KEYS)
    host: dict[str, Any] = {key: facts[name] for name, key in schema.SYSTEM_KEYS.items() if facts.get(name)}
    for key in ("cpus", "perf_event_paranoid"):
        if key in host:
            value = number(host[key])
            host[key] = host[key] if value is None else value
    if host.get("driver") == "0":
        del host["driver"]
    if (cuda := number(host.get("cuda", ""))) is not None:
        host["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    if gpus := _gpus(tables):
        host["gpus"] = gpus
    return host


def _gpus(tables: ExportTables) -> list[dict[str, Any]]:
    """One entry for each GPU of the machine: name, bus, chip, memory, bandwidth, multiprocessors, capability."""
    raw = tables.read(schema.GPUS)
    table = tables.physical(schema.GPUS)
    gpus: list[dict[str, Any]] = [{"id": number} for number in raw["id"].tolist()]
    if table is None:
        return gpus
    for key, column in schema.GPU_TEXTS.items():
        if column in tables.source.tables[table]:
            index, texts = tables.source.texts(table, column)
            for gpu, place in zip(gpus, index.tolist(), strict=True):
                if place >= 0 and texts[place]:
                    gpu[key] = texts[place]
    for row, gpu in enumerate(gpus):
        numbers = {
            key: int(raw[key][row]) for key in ("memory_bytes", "bandwidth", "multiprocessors", "major", "minor")
        }
        major, minor = numbers.pop("major"), numbers.pop("minor")
        gpu |= {key: value for key, value in numbers.items() if value > 0}
        if major > 0:
            gpu["compute_capability"] = f"{major}.{max(minor, 0)}"
    return gpus


def _notes(
    activity: Activity, ranges: RangeTable, cpu: CpuSamples, schema_version: str, options: ReadOptions
) -> list[str]:
    notes = []
    parts = (activity.calls, activity.gpu_ops, activity.faults, activity.memory, activity.os_calls, activity.sched)
    if not any(len(part) for part in (*parts, activity.marks, ranges, cpu.samples)):
        notes.append("The report has no events: the program ended before the recording began, or was not traced.")
    if _schema_number(schema_version) > schema.NEWEST:
        newest = ".".join(map(str, schema.NEWEST))
        notes.append(f"The export has schema {schema_version}; this pinprof knows {newest}, so it ignores newer data.")
    if "gpu_faults" not in activity.recorded and np.any(activity.gpu_ops.kind == OpKind.MIGRATION):
        notes.append(
            "GPU page faults were not recorded (nsys profile --cuda-um-gpu-page-faults=true records them): "
            "unified memory is judged only by the causes of its migrations."
        )
    if options.ranges is not None:
        notes.append("The ranges file was not used, because its clock is not that of the report.")
    return notes


def _schema_number(version: str) -> tuple[int, ...]:
    """(major, minor) of `3.20.3`; (0,) for anything else."""
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) < 9 for part in parts) else (0,)


def _first(column: NDArray[np.int64]) -> int | None:
    return int(column[0]) if len(column) and column[0] != schema.MISSING else None


READER = Reader("Nsight Systems export", certainty, read)
