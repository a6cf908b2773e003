"""Formats that pinprof does not read: named, with the way to one that it reads; and what is not mistaken for them."""

from __future__ import annotations

import gzip
import json
import marshal
import pickle
import sqlite3
import struct
from pathlib import Path

import pytest

from pinprof import read
from pinprof.base.errors import CaptureError


def message(number: int, body: bytes) -> bytes:
    """A field of a protobuf message that is a message itself."""
    return bytes([number << 3 | 2, len(body)]) + body


OTLP = message(
    1, message(1, message(1, message(1, b"service.name") + message(2, b"\x0a\x03app"))) + message(2, b"\x08\x01")
)

STACKPROF = {"version": 1.2, "mode": "cpu", "interval": 1000, "samples": 9, "gc_samples": 1, "frames": {}}
PYINSTRUMENT = {"start_time": 1.5, "duration": 2.0, "sample_count": 9, "root_frame": {"function": "f"}}
OPERATORS = {"schema": "1.0.1", "pid": 7, "start_ts": 3, "nodes": [{"name": "aten::add"}]}
SAFARI = {"version": 1, "recording": {"displayName": "a", "records": []}}
OLD_FIREFOX = {"label": "a", "duration": 7.5, "markers": [], "ticks": [], "profile": {"threads": []}}
HASKELL = {"program": "trees", "total_ticks": 798, "cost_centres": []}
SENTRY = {"event_id": "18bc", "organization_id": 1, "project_id": 4, "profile": {"samples": []}}
PPROF_JSON = {"sample_types": [{"type": "off_cpu", "unit": "nanoseconds"}], "samples": []}
SCALENE = {"alloc_samples": 1, "args": [], "elapsed_time_sec": 2.5, "files": {}}
SNAPSHOT = {"segments": [{"device": 0}], "device_traces": [[]]}
MESSAGE_OF_PROFILES = {"resourceProfiles": [{"resource": {"attributes": []}}], "dictionary": {}}


def in_json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


HEAP = {"head": {"callFrame": {"functionName": "(root)", "url": ""}, "selfSize": 0, "children": []}}
FILES = [
    ("a.jfr", b"FLR\0\0\2\0\1" + bytes(60), "Java Flight Recorder", "jfrconv"),
    ("perf.trace", b"SIMPLEPERF\1\0" + bytes(60), "simpleperf", "pprof_proto_generator.py"),
    ("a.trace", b"SLOW\3\0\x20\0" + bytes(60), "ART", "simpleperf"),
    ("b.trace", b"*version\n3\ndata-file-overflow=false\nclock=dual\nelapsed-time-usec=99\n", "ART", "simpleperf"),
    ("a.ncu-rep", b"NVR\0\x0c\0\0\0" + bytes(60), "Nsight Compute", "nsys profile"),
    ("profiles.parquet", b"PAR1\x15\x04\x15\x08" + bytes(60), "Pyroscope", "profilecli"),
    ("a.bin", b"memray\0\x0c\0\0\0", "memray", "pinprof record"),
    ("snapshot.pickle", pickle.dumps(SNAPSHOT), "memory snapshot of PyTorch", "export_chrome_trace"),
    ("a.prof", marshal.dumps({("a.py", 1, "f"): (1, 1, 0.1, 0.1, {})}), "cProfile", "py-spy record"),
    ("a.otlp", OTLP, "OTLP", "pprof"),
    ("a.pftrace", message(1, b"\x40\x01") * 9, "Perfetto", "traceconv json"),
    ("otlp.json", in_json(MESSAGE_OF_PROFILES), "OTLP", "pprof"),
    ("dhat.out", in_json({"dhatFileVersion": 2, "mode": "heap", "pps": []}), "DHAT", "pinprof record"),
    ("results.json", in_json({"rocprofiler-sdk-tool": [{"metadata": {}}]}), "rocprofv3", "pftrace"),
    ("kernel_trace.csv", b'"Kind","Agent_Id","Queue_Id"\n"KERNEL_DISPATCH",1,2\n', "rocprofv3", "pftrace"),
    ("stackprof.json", in_json(STACKPROF), "stackprof", "--stackcollapse"),
    ("pyinstrument.json", in_json(PYINSTRUMENT), "pyinstrument", "--renderer speedscope"),
    ("et.json", in_json(OPERATORS), "execution trace of PyTorch", "export_chrome_trace"),
    ("safari.json", in_json(SAFARI), "Safari", "speedscope"),
    ("tools.json", in_json(OLD_FIREFOX), "Firefox", "speedscope"),
    ("trees.prof", in_json(HASKELL), "GHC", "speedscope"),
    ("trees.prof", b"\tSun Aug  6 14:50 2023 Time and Allocation Profiling Report  (Final)\n", "GHC", "-pj"),
    ("sentry.json", in_json(SENTRY), "Sentry", "pinprof record"),
    ("pprof.json", in_json(PPROF_JSON), "JSON", "protobuf"),
    ("java.cpu", struct.pack("<6I", 0, 3, 1, 10000, 0, 0) + bytes(40), "gperftools", "pprof -proto"),
    ("streamed.trace", b"SLOW\xf3\0\x20\0" + bytes(60), "ART", "simpleperf"),
    ("a.mojo", b"MOJ\3\1\2" + bytes(9), "Austin", "mojo2austin"),
    ("a.perfparser", b"QPERFSTREAM\0\x13\0\0\0", "perfparser", "perf.data"),
    ("a.trace.zip", b"PK\3\4\x0a\0\0\0", "zip", "Unpack"),
    ("sample.txt", b"Analysis of sampling rg (pid 64751) every 1 millisecond\n", "macOS", "collapse-sample"),
    ("copied.txt", b"Weight\tSelf Weight\tSymbol Names\n4.93 s  100.0%\t0 s\t start\n", "Instruments", "speedscope"),
    (
        "old.txt",
        b"Running Time\tSelf (ms)\t\tSymbol Name\n4273.0ms   99.9%\t0\t \tstart\n",
        "Instruments",
        "speedscope",
    ),
    (
        "memory.txt",
        b"Bytes Used\tCount\t\tSymbol Name\n 429.93 MB     100.0%\t84671\t \tstart\n",
        "Instruments",
        "scope",
    ),
    ("a.xml", b'<?xml version="1.0"?>\n<trace-query-result>\n<node xpath="a">', "Instruments", "collapse-xctrace"),
    ("a.csv", b"Function Stack,CPU Time:Self,Module\nTotal,0.0,[Unknown]\n", "VTune", "collapse-vtune"),
    ("b.csv", b"war:Column filter is ON.\nFunction Stack,CPU Time:Self\n", "VTune", "collapse-vtune"),
    ("c.csv", b"\xef\xbb\xbfLevel,Function Name,Number of Calls,Elapsed\n0,a,1\n", "Visual Studio", "collapse-vsprof"),
    (
        "threads",
        b"--- threadz 1 ---\n\n--- Thread 7f794ab90940 (name: main/1) stack: ---\n",
        "threads",
        "pinprof record",
    ),
    ("goroutines", b"goroutine profile: total 7\n1 @ 0x44cb3 0x45045\n", "threads", "pinprof record"),
    ("v8.log", b"v8-version,6,0,287,53,0\nshared-library,node,0x1,0x2,0\n", "V8", "--prof-process"),
    ("a.heapprofile", in_json(HEAP), "heap profile of V8", "pinprof record"),
    ("cachegrind.out", b"version: 1\ncreator: xdebug 3.0.2\ncmd: a.php\n", "Xdebug", "pinprof record"),
    ("a.stacks", b"CPU     ID    FUNCTION:NAME\n 30  76446   :tick-10ms \n", "DTrace", "stackcollapse.pl"),
    ("b.stacks", b"\n\n      unix`i86_mwait+0xd\n      unix`idle+0x1f\n   12\n", "DTrace", "stackcollapse.pl"),
    ("a.pmc", b"@ inst_retired.any [35705 samples]\n\n20.86%  [7447]  f @ /boot/kernel/a.ko\n", "pmcstat", "pmc"),
    ("a.cali", b"__rec=node,id=12,attr=10,data=64,parent=3\n", "Caliper", "pinprof record"),
    ("gecko.json", in_json({"meta": {"interval": 1, "version": 29}, "libs": [], "threads": []}), "Gecko", "speedscope"),
    ("profile.json", in_json(SCALENE), "scalene", "py-spy record"),
    ("callgrind.out", b"# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\n", "Valgrind", "pinprof record"),
    ("massif.out", b"desc: (none)\ncmd: ./a\ntime_unit: i\nsnapshot=0\n", "Valgrind", "pinprof record"),
    ("a.txt", b"Attaching 1 probe...\n\n@[\n    do_idle+1\n    start+2\n]: 12\n", "bpftrace", "stackcollapse-bpftrace"),
]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("name", "content", "what", "remedy"), FILES, ids=[f"{name}-{what}" for name, _, what, _ in FILES]
)
def test_the_format_is_named_with_the_way_to_one_that_is_read(
    name: str, content: bytes, what: str, remedy: str, packed: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(CaptureError) as error:
        read.read(tmp_path / name)
    assert what in error.value.problem
    assert remedy in error.value.remedy
    assert error.value.slug == "unknown-format"


def test_a_database_of_rocprofv3_is_no_export_of_nsys(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE rocpd_kernel_dispatch_0123 (id INTEGER)")
    base.close()
    with pytest.raises(CaptureError, match="rocprofv3"):
        read.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"SLOW_path;main 5\nmain;work 9\n",
        b"PAR1;main 5\nmain;work 9\n",
        b"memray;main 5\nmain;work 9\n",
        in_json({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "args": {"nodes": 1, "startTime": 2}}]}),
    ],
    ids=["ART", "Parquet", "memray", "V8"],
)  # fmt: skip
def test_files_of_other_formats_that_look_alike_are_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    assert read.read(tmp_path / "a")
