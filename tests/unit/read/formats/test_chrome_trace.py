"""Chrome traces in: torch.profiler's and others', old and new, whole and cut."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.base.errors import FormatError, PinprofError
from pinprof.data.activity import UNRECORDED, Activity, Api, CopyKind, MemoryKind, OpKind, SyncKind
from pinprof.data.model import Capture
from pinprof.read import byte_source, read
from pinprof.read.formats import chrome_trace, kineto
from pinprof.report.sections.quality import activity_counts
from tests.support.examples import examples
from tests.support.work import calls

ANY_CAPTURE = examples(100)


def x(category: str, name: str, ts: float, dur: float, tid: int | str = 7, **args: Any) -> dict[str, Any]:
    on_gpu = category in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
    return {
        "ph": "X", "cat": category, "name": name, "pid": 0 if on_gpu else 700, "tid": tid, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


# The shape is that of libkineto's own example output (pytorch/kineto, docs/traces, 2026): field order aside, the
# categories, argument names and number formats are taken from it and from libkineto/src/CuptiActivity.cpp.
TORCH: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 102085492736}],
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1775078550000000000,
    "traceEvents": [
        {"name": "process_name", "ph": "M", "ts": 1, "pid": 700, "tid": 0, "args": {"name": "python t.py --key=s3"}},
        {"name": "thread_name", "ph": "M", "ts": 1, "pid": 700, "tid": 7, "args": {"name": "thread 7 (python)"}},
        x("python_function", "train.py(12): step", 88511388202.0, 9),
        x("cpu_op", "aten::copy_", 88511388202.765, 4.5, **{"External id": 1}),
        x("cuda_runtime", "cudaMemcpyAsync", 88511388203.0, 2, correlation=11, cbid=41),
        x("cuda_driver", "cuMemcpyHtoDAsync_v2", 88511388203.5, 1, correlation=12, cbid=278),
        x("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 88511388204.0, 3, device=0, stream=7, correlation=12,
          bytes=1 << 20, **{"memory bandwidth (GB/s)": 349.5}),
        x("cuda_runtime", "cudaLaunchKernel", 88511388206.0, 0.5, correlation=13),
        x("kernel", "void add<float>(float*)", 88511388207.25, 1.125, device=0, stream=7, correlation=13),
        x("gpu_memset", "Memset (Device)", 88511388208.5, 0.25, device=0, stream=7, correlation=-1, bytes=64),
        x("cuda_sync", "Stream Sync", 88511388209.0, 1, device=0, stream=7, correlation=14),
        x("gpu_user_annotation", "step", 88511388204.0, 5, device=0),
        {"ph": "s", "id": 13, "pid": 700, "tid": 7, "ts": 88511388206.0, "cat": "ac2g", "name": "ac2g"},
        {"ph": "X", "cat": "Trace", "ts": 88511388202.0, "dur": 9, "pid": "Spans", "tid": "PyTorch Profiler",
         "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
        {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 88511388211.0},
    ],
    "traceName": "/home/someone/trace.json",
}  # fmt: skip

BASE = 1775078550000000000 + 88511388200000


def parse(tmp_path: Path, document: Any) -> Capture:
    path = tmp_path / "trace.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return chrome_trace.read(path)


def activity(capture: Capture) -> Activity:
    assert capture.activity is not None
    return capture.activity


def test_operators_and_python_functions_become_nested_ranges(tmp_path: Path) -> None:
    ranges = parse(tmp_path, TORCH).ranges
    assert list(zip(ranges.name, ranges.domain, ranges.depth.tolist(), strict=True)) == [
        ("train.py(12): step", "python_function", 0),
        ("aten::copy_", "cpu_op", 1),
    ]
    assert (ranges.start_ns - BASE).tolist() == [2000, 2765]
    assert (ranges.end_ns - BASE).tolist() == [11000, 7265]


def test_a_driver_call_inside_a_runtime_call_is_folded_into_it(tmp_path: Path) -> None:
    calls = activity(parse(tmp_path, TORCH)).calls
    assert [calls.names[name] for name in calls.name] == ["cudaMemcpyAsync", "cudaLaunchKernel"]
    assert calls.folded.tolist() == [1, 0]
    assert calls.api.tolist() == [Api.RUNTIME, Api.RUNTIME]
    assert calls.correlation_id.tolist() == [11, 13]


def test_calls_within_one_microsecond_followed_each_other(tmp_path: Path) -> None:
    """Kineto of 2021 cuts times to microseconds: three calls in the same one, each of no or one microsecond."""
    shorts = [
        x("cuda_runtime", "cudaStreamIsCapturing", 5, 0, correlation=1),
        x("cuda_driver", "cuLaunchKernel", 5, 1, correlation=3),
        x("cuda_runtime", "cudaLaunchKernel", 5, 1, correlation=2),
        x("cuda_runtime", "cudaEventRecord", 6, 0, correlation=4),
        x("cuda_runtime", "cudaPeekAtLastError", 6, 0, correlation=5),
        x("cuda_driver", "cuEventQuery", 7, 1, correlation=6),
        x("cuda_driver", "cuEventQuery", 7, 1, correlation=7),
        x("kernel", "add", 7, 1, correlation=3, device=0),
    ]
    found = activity(parse(tmp_path, shorts))
    assert sorted(found.calls.correlation_id.tolist()) == [1, 2, 4, 5, 6, 7]
    assert int(found.calls.folded.sum()) == 1
    assert found.gpu_ops.correlation_id.tolist() == [2]


def test_a_call_well_inside_another_of_its_api_is_folded(tmp_path: Path) -> None:
    nested = [x("cuda_runtime", "cudaMalloc", 5, 9, correlation=1), x("cuda_runtime", "cudaFree", 7, 1, correlation=2)]
    assert activity(parse(tmp_path, nested)).calls.folded.tolist() == [1]


def test_copies_have_bytes_direction_memory_kinds_and_the_outer_call(tmp_path: Path) -> None:
    ops = activity(parse(tmp_path, TORCH)).gpu_ops
    assert ops.kind.tolist() == [OpKind.COPY, OpKind.KERNEL, OpKind.MEMSET, OpKind.SYNC]
    assert ops.size_bytes.tolist() == [1 << 20, 0, 64, 0]
    assert ops.copy_kind[0] == CopyKind.HOST_TO_DEVICE
    assert (ops.src_kind[0], ops.dst_kind[0]) == (MemoryKind.PAGEABLE, MemoryKind.DEVICE)
    assert ops.dst_kind[2] == MemoryKind.DEVICE
    assert ops.sync.tolist() == [UNRECORDED, UNRECORDED, UNRECORDED, SyncKind.STREAM]
    assert ops.correlation_id.tolist() == [11, 13, -1, 14]
    assert [ops.names[name] if name >= 0 else "" for name in ops.name] == ["", "void add<float>(float*)", "", ""]
    assert set(ops.pid.tolist()) == {700}
    assert ((ops.end_ns - ops.start_ns)[:2]).tolist() == [3000, 1125]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("Memcpy DtoH (Device -> Pinned)", (CopyKind.DEVICE_TO_HOST, MemoryKind.DEVICE, MemoryKind.PINNED)),
        ("Memcpy PtoP (Device -> Device)", (CopyKind.PEER_TO_PEER, MemoryKind.DEVICE, MemoryKind.DEVICE)),
        ("Memcpy HtoD (Managed -> Martian)", (CopyKind.HOST_TO_DEVICE, MemoryKind.MANAGED, MemoryKind.UNKNOWN)),
        ("Memcpy DtoD", (CopyKind.DEVICE_TO_DEVICE, UNRECORDED, UNRECORDED)),
    ],
)
def test_memory_kinds_stand_in_the_name(tmp_path: Path, name: str, kinds: tuple[int, int, int]) -> None:
    ops = activity(parse(tmp_path, [x("gpu_memcpy", name, 1, 1)])).gpu_ops
    assert (ops.copy_kind[0], ops.src_kind[0], ops.dst_kind[0]) == kinds


def test_categories_and_tracks_of_old_torch_are_known(tmp_path: Path) -> None:
    old = [
        x("Operator", "aten::to", 1, 9, "456"),
        x("Runtime", "cudaMemcpyAsync", 2, 3, "456", correlation=334),
        x("Memcpy", "Memcpy HtoD (Pageable -> Device)", 4, 2, "stream 7", correlation=334, stream=7),
    ]
    found = parse(tmp_path, {"traceEvents": old})
    assert found.ranges.tid.tolist() == [456]
    assert activity(found).calls.correlation_id.tolist() == activity(found).gpu_ops.correlation_id.tolist() == [334]


def test_begin_and_end_events_pair_up_and_leftovers_are_counted(tmp_path: Path) -> None:
    def event(phase: str, name: str, ts: float) -> dict[str, Any]:
        return {"ph": phase, "name": name, "pid": 1, "tid": 2, "ts": ts}

    found = parse(tmp_path, [event("B", "a", 1), event("B", "b", 2), event("E", "", 3.5), event("E", "", 4),
                             event("E", "", 5), event("B", "never", 6)])  # fmt: skip
    assert [found.ranges.name, found.ranges.depth.tolist()] == [("a", "b"), [0, 1]]
    assert (found.ranges.end_ns - found.ranges.start_ns).tolist() == [3000, 1500]
    assert found.losses.unknown_records == 2


def test_nothing_but_names_and_times_is_kept(tmp_path: Path) -> None:
    found = parse(tmp_path, TORCH)
    assert "someone" not in repr(found).replace(str(tmp_path), "")
    assert "--key" not in repr(found)
    assert found.threads == {(700, 7): "thread 7 (python)"}


def test_gzip_and_the_choice_by_content(tmp_path: Path) -> None:
    path = tmp_path / "x.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(TORCH).encode()))
    found = read(path)
    assert len(found.ranges) == 2
    assert analyze(found).events == ()


def test_a_cut_trace_gives_what_is_whole_and_says_so(tmp_path: Path) -> None:
    text = json.dumps(TORCH)
    found = parse(tmp_path, text[: text.index('"cudaLaunchKernel"')])
    assert len(activity(found).calls) == 1
    assert "the JSON ends or is damaged" in " ".join(found.losses.damage)


def test_an_array_without_its_end_is_allowed(tmp_path: Path) -> None:
    found = parse(tmp_path, json.dumps([x("cpu_op", "a", 1, 1), x("cpu_op", "b", 2, 1)]).rstrip("]") + ",\n")
    assert found.ranges.name == ("a", "b")


def test_events_across_pieces_of_the_file_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_source, "CHUNK", 7)
    whole = parse(tmp_path, TORCH)
    assert len(whole.ranges) == 2
    assert len(activity(whole).gpu_ops) == 4


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", '{"traceEvents": 4}', '{"traceEvents": [4, "x", null]}', "[" * 99999]
)
def test_a_file_without_events_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError):
        parse(tmp_path, text)


_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.just(10**400),
    st.sampled_from(["", "7", "stream 3", "X", "cpu_op"]),
    st.lists(st.integers(), max_size=2), st.just({"correlation": 10**30, "bytes": "many", "stream": -9}),
)  # fmt: skip
_events = st.dictionaries(
    st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id"]), _values, max_size=9
)


@ANY_CAPTURE
@given(st.lists(st.tuples(_events, st.sampled_from("XBEM"), st.sampled_from([*kineto.CALLS, *kineto.OPS, "a"]))))
def test_any_events_give_a_capture_or_a_clear_error(tmp_path: Path, events: list[Any]) -> None:
    whole = [{"ph": phase, "cat": category, **event} for event, phase, category in events]
    try:
        found = parse(tmp_path, {"traceEvents": whole})
    except PinprofError:
        return
    assert (found.ranges.end_ns >= found.ranges.start_ns).all()


@ANY_CAPTURE
@given(st.data())
def test_any_damage_gives_a_capture_or_a_clear_error(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(json.dumps(TORCH).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    chrome_trace.sniff(bytes(text))
    try:
        chrome_trace.read(path)
    except PinprofError:
        return


def test_blanks_between_events_are_passed_over_at_once(tmp_path: Path) -> None:
    """Not one by one: what reading costs does not grow with them."""

    def cost(blanks: int) -> int:
        document = json.dumps({"traceEvents": [x("cpu_op", "a", 1, 2)]}).replace("[{", "[" + " \n" * blanks + "{")
        path = tmp_path / "t.json"
        path.write_text(document)
        return calls(lambda: read(path))

    assert cost(400_000) <= cost(1000) + 100


def ranges_of(tmp_path: Path, events: list[dict[str, Any]]) -> list[tuple[str, int, int, int, int]]:
    """(name, start, end, depth, thread) of each range, times in microseconds."""
    table = parse(tmp_path, events).ranges
    return list(
        zip(table.name, (table.start_ns // 1000).tolist(), (table.end_ns // 1000).tolist(), table.depth.tolist(),
            table.tid.tolist(), strict=True)
    )  # fmt: skip


def mark(phase: str, name: str, ts: float, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "pid": 1, "tid": 2, "ts": ts, "cat": "c", **more}


NESTED = [mark("B", "outer", 0), mark("B", "inner", 1), mark("E", "", 4), mark("E", "", 9), mark("B", "outer", 9),
          mark("B", "inner", 11), mark("E", "", 14), mark("E", "", 19)]  # fmt: skip


@given(st.permutations(NESTED))
@examples(50)
def test_begins_and_ends_may_come_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]
) -> None:
    assert ranges_of(tmp_path_factory.mktemp("trace"), events) == [
        ("outer", 0, 9, 0, 2), ("inner", 1, 4, 1, 2), ("outer", 9, 19, 0, 2), ("inner", 11, 14, 1, 2)
    ]  # fmt: skip


def test_slices_without_length_stay_where_they_are(tmp_path: Path) -> None:
    events = [mark("B", "outer", 0), mark("B", "point", 4), mark("E", "", 4), mark("E", "", 9)]
    assert ranges_of(tmp_path, events) == [("outer", 0, 9, 0, 2), ("point", 4, 4, 1, 2)]
    capture = parse(tmp_path, [mark("E", "", 7), mark("B", "late", 8), mark("B", "point", 5), mark("E", "", 5)])
    assert (capture.ranges.name, capture.losses.unknown_records) == (("point",), 2)


def test_spans_that_share_an_id_nest_and_belong_to_no_thread(tmp_path: Path) -> None:
    events = [mark("b", "load", 0, id=1), mark("b", "load", 2, id="0x2"), mark("b", "parse", 3, id=1),
              mark("n", "now", 3, id=1), mark("e", "load", 8, id="0x2"), mark("e", "parse", 5, id=1),
              mark("e", "load", 7, id=1), mark("b", "other", 1, id2={"local": 1}),
              mark("e", "other", 2, id2={"local": 1})]  # fmt: skip
    found = ranges_of(tmp_path, events)
    assert [(name, start, end, tid) for name, start, end, _, tid in found] == [
        ("load", 0, 7, -1), ("other", 1, 2, -1), ("load", 2, 8, -1), ("parse", 3, 5, -1)
    ]  # fmt: skip


def test_spans_of_old_traces_are_told_apart_by_name(tmp_path: Path) -> None:
    events = [mark("S", "a", 0, id=1), mark("S", "b", 1, id=1), mark("T", "a", 2, id=1), mark("F", "a", 3, id=1),
              mark("F", "b", 5, id=1)]  # fmt: skip
    assert [each[:3] for each in ranges_of(tmp_path, events)] == [("a", 0, 3), ("b", 1, 5)]


def test_hip_calls_are_called_so_where_they_cost_little(tmp_path: Path) -> None:
    events = [x("cuda_runtime", "hipFree", 1, 1), x("kernel", "gemm", 5, 1000, device=0, stream=0, correlation=0)]
    assert analyze(parse(tmp_path, {"traceEvents": events})).answer.startswith("HIP calls for memory take")


def test_hip_calls_that_allocate_and_free_in_turn_are_pairs(tmp_path: Path) -> None:
    events = [x("kernel", "gemm", 5, 1, device=0, stream=0, correlation=0)]
    for turn in range(40):
        events += [
            x("cuda_runtime", "hipMalloc", 10_000 * turn + 100, 3000),
            x("cuda_runtime", "hipFree", 10_000 * turn + 5000, 3000),
        ]
    run = analyze(parse(tmp_path, {"traceEvents": events}))
    assert [words for _, words in activity_counts(run.activity)] == ["HIP calls", "kernel"]
    (finding,) = [one for one in run.findings if one.rule == "alloc-loop"]
    assert (finding.severity, "40 pairs of device memory" in finding.evidence[0]) == ("warning", True)
