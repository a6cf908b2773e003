"""Inputs that are text, written by hand: what other tools write, settings and budgets."""

from __future__ import annotations

import json
from typing import Any

PERF_SCRIPT = """\
# clockid: monotonic (1)
flame    82    37.681728:     500250   cpu-clock/freq=1999/:
\tffffffff815ba172 clear_page_erms+0xa2 ([kernel.kallsyms])
\tffffffff815ba100 asm_exc_page_fault+0x2 ([kernel.kallsyms])
\tffffffffc080c020 [unknown] ([nvidia])
\t            f90c [unknown] (/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2)
\t           2a304 main+0x4 (/tmp/flame)

UVM GPU1 BH   319/322   [003]    37.682045123:         64 page-faults/period=64/:     7f4b9c1f2000
\t           2a308 main+0x8 (/tmp/flame)

app 7 38.0: 999 cpu-clock: 401000 main (/app)
"""

TORCH_TRACE: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 102085492736}],
    "baseTimeNanoseconds": 1775078550000000000,
    "traceEvents": [
        {"name": "thread_name", "ph": "M", "ts": 1, "pid": 700, "tid": 7, "args": {"name": "thread 7 (python)"}},
        *(
            {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": 7, "ts": ts, "dur": dur, "args": arguments}
            for category, name, pid, ts, dur, arguments in (
                ("python_function", "train.py(12): step", 700, 202.0, 9, {}),
                ("cpu_op", "aten::copy_", 700, 202.765, 4.5, {"External id": 1}),
                ("cuda_runtime", "cudaMemcpyAsync", 700, 203.0, 2, {"correlation": 11, "cbid": 41}),
                ("cuda_driver", "cuMemcpyHtoDAsync_v2", 700, 203.5, 1, {"correlation": 12}),
                ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 204.0, 3,
                 {"device": 0, "stream": 7, "correlation": 12, "bytes": 1 << 20}),
                ("cuda_runtime", "cudaLaunchKernel", 700, 206.0, 0.5, {"correlation": 13}),
                ("kernel", "void add<float>(float*)", 0, 207.25, 1.125, {"device": 0, "stream": 7, "correlation": 13}),
                ("cuda_runtime", "cudaStreamSynchronize", 700, 208.5, 3, {"correlation": 14}),
                ("cuda_sync", "Stream Sync", 0, 209.0, 1, {"device": 0, "stream": 7, "correlation": 14}),
            )
        ),
        {"ph": "B", "cat": "user_annotation", "name": "step", "pid": 700, "tid": 7, "ts": 200},
        {"ph": "E", "pid": 700, "tid": 7, "ts": 220},
    ],
}  # fmt: skip

EVENTED = json.dumps(
    {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {
            "frames": [{"name": "main", "file": "a.c", "line": 3}, {"name": "memcpy"}, {"name": "clear_page_erms_[k]"}]
        },
        "profiles": [
            {"type": "evented", "name": "main (7)", "unit": "microseconds", "startValue": 0, "endValue": 30,
             "events": [{"type": "OC"[at], "frame": frame, "at": when} for at, frame, when in
                        ((0, 0, 0), (0, 1, 5), (0, 2, 6), (1, 2, 8), (1, 1, 20), (1, 0, 30))]},
            {"type": "sampled", "name": "bytes", "unit": "bytes", "startValue": 0, "endValue": 9,
             "samples": [[0, 1], [0]], "weights": [4, 5]},
        ],
    }
)  # fmt: skip

V8_PROFILE: dict[str, Any] = {
    "nodes": [
        {"id": 1, "callFrame": {"functionName": "(root)", "url": "", "lineNumber": -1}, "children": [2, 4]},
        {"id": 2, "callFrame": {"functionName": "main", "url": "file:///a.js", "lineNumber": 3}, "children": [3]},
        {"id": 3, "callFrame": {"functionName": "", "url": "node:fs", "lineNumber": 0}, "hitCount": 2},
        {"id": 4, "callFrame": {"functionName": "(idle)"}},
    ],
    "startTime": 1000, "endTime": 1900, "samples": [3, 4, 2], "timeDeltas": [0, 300, 400],
}  # fmt: skip

OLD_V8_PROFILE: dict[str, Any] = {
    "head": {
        "functionName": "(root)", "id": 1, "hitCount": 0,
        "children": [{"functionName": "main", "url": "a.js", "lineNumber": 3, "id": 2, "hitCount": 2, "children": []}],
    },
    "samples": [2, 2], "timestamps": [1000, 1300, 1900],
}  # fmt: skip

V8_TRACE: list[dict[str, Any]] = [
    {"ph": "P", "name": "Profile", "pid": 7, "tid": 8, "id": "0x1", "args": {"data": {"startTime": 1000}}},
    *(
        {"ph": "P", "name": "ProfileChunk", "pid": 7, "tid": 9, "id": "0x1", "args": {"data": data}}
        for data in (
            {"cpuProfile": {"nodes": V8_PROFILE["nodes"], "samples": [3, 4]}, "timeDeltas": [0, 300]},
            {"cpuProfile": {"samples": [2]}, "timeDeltas": [400]},
            {"endTime": 1900},
        )
    ),
    {"ph": "X", "name": "task", "cat": "v8", "pid": 7, "tid": 8, "ts": 1200, "dur": 500, "args": {}},
]

AUSTIN = """\
# austin: 3.4.1
# mode: wall

P7;T9;a.py:main:3;a.py:f:5 1500
P7;T0:61;a.py:main:3 20
# duration: 9000
"""

PY_SPY = """\
process 7:"python train.py";thread (7): "MainThread";<module> (train.py:12);copy_ (_tensor.py:99) 41
process 7:"python train.py";thread (9);run (threading.py:982);load (data.py:3) 2
<module> (train.py:12);step (train.py:8) 1
"""
"""What `py-spy record --format raw` writes, of several processes and of one."""

SETTINGS = """\
[record]
frequency = 1999
no-calibrate = true
gpu = "cupti"
label = ["team=vision", "a=b"]
max-size = "1 GiB"

[run]
size = "1MiB"

[report]
format = "text"
"""

BUDGETS = """\
[[budget]]
pairs = 0
pinned-bytes = "1 GiB"

[[budget]]
range = "load"
page-faults = 20_000
cause = { fault = "20 %" }

[[budget]]
name = "copies are made at start"
range = "step"
calls = 0
kind = "alloc pinned"

[[budget]]
phase = "work"
cpu-time = "2.5 s"
runs = 5
smallest-ms = 20

[[budget]]
name = "baseline"
pageable-bytes = "baseline + 1 MiB"
time = "baseline + 2 %"
findings = 3
opportunities = "10 ms"
"""
