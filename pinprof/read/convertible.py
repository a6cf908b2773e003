"""Formats that pinprof does not read: how their files begin, what they are called, and what makes of them one it reads.

Magic numbers: Austin (MOJ), hotspot (QPERFSTREAM), JFR (FLR), Nsight Compute (NVR), simpleperf (SIMPLEPERF), ART (SLOW,
`*version`), Parquet (PAR1), pickle, marshal, zip. JSON is known by keys near its start, text by its first line, OTLP's
and Perfetto's messages by what they carry first.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Convertible:
    """One format."""

    begins: bytes
    """How its files begin, a regular expression."""
    what: str
    """As in `It is …`."""
    remedy: str
    """How to get a recording that pinprof reads."""
    suffix: str = ""
    """A regular expression for the file's name; empty where the beginning is enough."""


_SPEEDSCOPE = "Open it at speedscope.app, and export it there: pinprof reads the file."
_PERFETTO = "Convert it with Perfetto's `traceconv json FILE trace.json`."
_ROCPROF = f"Record with `rocprofv3 --output-format pftrace`. {_PERFETTO}"
_BACKEND = "Ask the backend that receives it for a pprof profile, as Pyroscope and Parca export them."
_RECORD = "Record the program with `pinprof record`."
_SAMPLE = "Record with `py-spy record -f raw`, or with `pinprof record`."
_TORCH = "Export a trace of torch.profiler (`prof.export_chrome_trace`), or record with `pinprof record`."
_FOLD = "Convert it with `{} FILE > stacks.folded`."


def _keys(*names: str) -> bytes:
    """JSON objects with all of these keys near their start."""
    ahead = "".join(rf'(?=[\s\S]*"{name}"\s*:)' for name in names)
    return rf"\s*\{{{ahead}".encode()


_BINARY = (
    Convertible(rb"\0{8}\x03\0{7}[\0\1]\0{7}|\0{4}\x03\0{3}[\0\1]\0{3}|heap profile: |heap_v2/"
                rb"|--- (contention|growth|heapz)", "a profile in gperftools format",
                "Convert it with `pprof -proto PROGRAM FILE > profile.pb.gz`."),
    Convertible(rb"FLR\0", "a recording of Java Flight Recorder (JFR)",
                "Convert it with async-profiler's `jfrconv FILE profile.collapsed`."),
    Convertible(rb"SIMPLEPERF[\x01-\x20]\0", "a report of simpleperf in its own protobuf format",
                "Convert the perf.data of simpleperf instead: `pprof_proto_generator.py -i perf.data`."),
    Convertible(rb"SLOW[\x01-\x20\xf0-\xff]\0|\*version\s+\d+\s+(data-file-overflow|clock)=",
                "a method trace of Android's runtime (ART)",
                "Record with simpleperf, and convert that with its `pprof_proto_generator.py -i perf.data`."),
    Convertible(rb"NVR\0[\s\S]",
                "a report of Nsight Compute (.ncu-rep), which has counters of kernels and no times of the host",
                "Record the program with `nsys profile` or `pinprof record`."),
    Convertible(rb"PAR1[\0-\x1f\x80-\xff]", "an Apache Parquet file, as Pyroscope stores blocks of profiles",
                "Query Pyroscope for a pprof profile: `profilecli query profile --output=pprof=profile.pb`. Of an"
                " export of nsys give the folder."),
    Convertible(rb"memray\0", "a recording of memray, which has allocations and no times", _RECORD),
    Convertible(rb"MOJ[\x01-\x20]", "a recording of Austin in its binary format (MOJO)",
                "Convert it with `mojo2austin FILE stacks.folded`."),
    Convertible(rb"QPERFSTREAM\0", "what hotspot's perfparser makes of a perf.data", "Give the perf.data file."),
    Convertible(rb"PK\x03\x04|PK\x05\x06", "a zip archive", "Unpack it, and give the recording in it."),
    Convertible(rb"\x80[\x02-\x05][\s\S]{0,64}?(segments|device_traces|allocator_settings|external_annotations)",
                "a memory snapshot of PyTorch, which has allocations on the GPU and no times of the host",
                "View it at pytorch.org/memory_viz. For pinprof, export a trace of torch.profiler"
                " (`prof.export_chrome_trace`), or record with `pinprof record`."),
    Convertible(rb"[{\xfb][\xa9)(][\x03]", "statistics of Python's cProfile, which have no stacks", _SAMPLE),
    Convertible(rb"\x0a[\s\S]{1,12}?\x0a[\s\S]{1,6}?\x0a[\s\S]{1,3}(service|telemetry|host|process|os|container|k8s|profiler?)\.",
                "telemetry in OTLP, OpenTelemetry's protobuf format", _BACKEND),
    Convertible(rb"\x0a", "a trace in Perfetto's protobuf format", _PERFETTO, r".*\.(pftrace|perfetto-trace|perfetto)"),
)  # fmt: skip
"""What no other reader should be asked about."""

_SHAPES = (
    Convertible(_keys("resource(Profiles|Spans|Metrics|Logs)"), "telemetry in OTLP, OpenTelemetry's JSON format",
                _BACKEND),
    Convertible(_keys("dhatFileVersion"), "a profile of DHAT, which counts heap blocks and has no times",
                "View it with Valgrind's dh_view.html. For pinprof, record the program with `pinprof record`."),
    Convertible(_keys("rocprofiler-sdk-tool"), "a result of rocprofv3 in JSON", _ROCPROF),
    Convertible(_keys("meta", "(threads|libs|processes|preprocessedProfileVersion|categories)"),
                "a profile in Gecko's format, as Firefox and samply write it", _SPEEDSCOPE),
    Convertible(_keys("(elapsed_time_sec|max_footprint_mb|growth_rate|alloc_samples)"),
                "a profile of scalene, which has lines and no stacks", _SAMPLE),
    Convertible(_keys("version", "mode", "interval", "(frames|gc_samples|missed_samples)"), "a profile of stackprof",
                f"{_SPEEDSCOPE} Or `stackprof --stackcollapse` makes folded stacks."),
    Convertible(_keys("program", "(cost_centres|total_ticks|rts_arguments)"), "a profile of GHC (Haskell)",
                _SPEEDSCOPE),
    Convertible(rb"\s*\w{3} \w{3} +\d+ [\d:]+ \d{4} Time and Allocation Profiling Report", "a profile of GHC (Haskell)",
                "Record with `+RTS -pj`, open that at speedscope.app, and export it."),
    Convertible(_keys("recording", "(displayName|instrumentTypes|discontinuities)"), "a timeline of Safari",
                _SPEEDSCOPE),
    Convertible(_keys("label", "(ticks|allocations|markers)", "duration"),
                "a profile of Firefox's former developer tools", _SPEEDSCOPE),
    Convertible(_keys("root_frame", "(sample_count|cpu_time|duration)"), "a profile of pyinstrument",
                "Write it with `pyinstrument --renderer speedscope`."),
    Convertible(_keys("schema", "nodes", "(start_ts|pid|rf_id)"),
                "an execution trace of PyTorch, which has operators and no times", _TORCH),
    Convertible(_keys("(profile_id|event_id)", "(organization_id|project_id)"), "a profile of Sentry", _RECORD),
    Convertible(_keys("(SampleType|sample_types)", "(Sample|samples)"), "a pprof profile in somebody's JSON",
                "Give the profile itself, in protobuf."),
    Convertible(rb"Analysis of sampling .* every \d+ ", "the output of `sample` of macOS",
                _FOLD.format("inferno-collapse-sample")),
    Convertible(rb"(Weight\tSelf Weight|Running Time\tSelf[^\t\n]*|Bytes Used\tCount)\t",
                "a call tree of Apple's Instruments",
                "Paste it into speedscope.app, and export it there: pinprof reads the file."),
    Convertible(rb"<\?xml[^>]*\?>\s*<trace-query-result", "a table of Apple's Instruments, as xctrace exports it",
                _FOLD.format("inferno-collapse-xctrace")),
    Convertible(rb"(war:[^\n]*\n)?Function Stack,CPU Time", "a call tree of Intel's VTune",
                _FOLD.format("inferno-collapse-vtune")),
    Convertible(rb"(\xef\xbb\xbf)?Level,Function Name,Number of Calls,", "a call tree of Visual Studio",
                _FOLD.format("inferno-collapse-vsprof")),
    Convertible(rb"--- threadz \d|(threadcreate|goroutine) profile: ",
                "a list of threads, which has stacks and no times", _RECORD),
    Convertible(rb"v8-version,\d", "a log of V8's profiler",
                f"Convert it with `node --prof-process --preprocess FILE > v8.json`. {_SPEEDSCOPE}"),
    Convertible(_keys("head", "selfSize"), "a heap profile of V8, which counts bytes and has no times", _RECORD),
    Convertible(rb"CPU +ID +FUNCTION:NAME|dtrace: |\s+[^\s`;]+`[^\n]*\n", "the output of DTrace",
                _FOLD.format("stackcollapse.pl")),
    Convertible(rb"@ \S+ \[\d+ samples\]", "the output of pmcstat", "Convert it with `stackcollapse-pmc.pl`."),
    Convertible(rb"__rec=\w+,", "a profile of Caliper, which has regions and no stacks of the kernel", _RECORD),
    Convertible(_keys("segments", "device_traces"), "a memory snapshot of PyTorch, which has no times of the host",
                _TORCH),
    Convertible(rb"# callgrind format|version: \d+\s+creator: callgrind|(desc: .*\n)*cmd: .*\n(time_unit|events):",
                "a profile of Valgrind, which counts instructions or heap blocks and has no times", _RECORD),
    Convertible(rb"version: \d+\s+creator: xdebug", "a profile of Xdebug, which has calls of PHP and no stacks",
                _RECORD),
    Convertible(rb'"?(Kind|Domain)"?,"?(Agent_Id|Function|Process_Id|Queue_Id)"?,', "a result of rocprofv3 in CSV",
                _ROCPROF),
    Convertible(rb"(Attaching \d+ probes?\.\.\.\s+)?@\w*\[\s*\n", "the output of bpftrace",
                _FOLD.format("stackcollapse-bpftrace.pl")),
)  # fmt: skip
"""What another format may look like, too: asked where no reader is more certain than `MAYBE`."""


def known_binary(path: PurePath, head: bytes) -> Convertible | None:
    """What a file is that begins so; None unless its first bytes are those of a format in this list."""
    return _first(_BINARY, path, head)


def known_shape(path: PurePath, head: bytes) -> Convertible | None:
    """The same by keys or lines near the start."""
    return _first(_SHAPES, path, head)


def _first(rows: tuple[Convertible, ...], path: PurePath, head: bytes) -> Convertible | None:
    alike = (row for row in rows if re.match(row.begins, head))
    return next((row for row in alike if not row.suffix or re.fullmatch(row.suffix, path.name)), None)
