"""Layouts of other schema versions, and contents that one machine does not show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinprof.data.activity import UNRECORDED, Api, CopyKind, MigrationCause, OpKind, SyncKind
from pinprof.data.model import KERNEL, Capture
from pinprof.read import ReadOptions, read
from tests.support.nsys_file import GLOBAL_PID, GLOBAL_TID, PID, TID, call, copy, nvtx, session, write_export

START = "TARGET_INFO_SESSION_START_TIME"
CALLS, COPIES, NVTX = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS"


def test_an_export_of_2020_3_reads_without_version_process_list_or_addresses(tmp_path: Path) -> None:
    old = copy(10, 20, 5)
    del old["virtualAddress"]
    path = write_export(
        tmp_path / "a.sqlite", {CALLS: [call(1, 9, 1, 5)], COPIES: [old]}, strings={1: "cudaMemcpy_v3020"}
    )
    capture = read(path)
    assert capture.activity is not None
    assert capture.activity.source == "Nsight Systems (version not recorded), schema before 2.9"
    assert capture.activity.gpu_ops.address.tolist() == [0]
    assert [capture.activity.calls.names[n] for n in capture.activity.calls.name] == ["cudaMemcpy"]
    assert capture.losses.notes == ()


GPU_OF_2020_3 = {"vmId": 1, "deviceId": 3, "name": "Quadro RTX 8000", "busLocation": "0000:2D:00.0", "isDiscrete": 1}


@pytest.mark.parametrize(
    ("gpu", "known"),
    [
        (GPU_OF_2020_3, {"id": 3, "name": "Quadro RTX 8000", "bus": "0000:2D:00.0"}),
        ({"name": "Quadro RTX 8000"}, {"id": -1, "name": "Quadro RTX 8000"}),
    ],
)
def test_a_gpu_of_which_no_number_is_known_is_still_there(
    tmp_path: Path, gpu: dict[str, object], known: dict[str, object]
) -> None:
    path = write_export(tmp_path / "a.sqlite", {"TARGET_INFO_GPU": [gpu, gpu], CALLS: [call(1, 9, 1, 5)]})
    assert read(path).manifest.host["gpus"] == [known, known]


@pytest.mark.parametrize(
    ("shape", "threads"),
    [
        ({"gridX": 3, "gridY": 2, "gridZ": 1, "blockX": 32, "blockY": 4, "blockZ": 1}, 768),
        ({"gridX": 3, "gridY": None, "gridZ": 1, "blockX": 32, "blockY": 4, "blockZ": 1}, 0),
        (dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 2**31 - 1), 2**62),
        ({}, 0),
    ],
)
def test_the_shape_of_a_launch_is_read_as_threads(tmp_path: Path, shape: dict[str, int | None], threads: int) -> None:
    kernel = {"start": 1, "end": 9, "deviceId": 0, "globalPid": GLOBAL_PID, "demangledName": 1} | shape
    capture = read(
        write_export(tmp_path / "a.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel], COPIES: [copy(1, 2, 1)]})
    )
    assert capture.activity is not None
    assert capture.activity.gpu_ops.threads is not None
    assert sorted(capture.activity.gpu_ops.threads.tolist()) == [0, threads]


@pytest.mark.parametrize("table", [START, "ANALYSIS_DETAILS", "DIAGNOSTIC_EVENT", "TARGET_INFO_GPU"])
def test_a_table_of_optional_columns_may_have_none_of_them(tmp_path: Path, table: str) -> None:
    capture = read(write_export(tmp_path / "a.sqlite", {table: [{"other": 1}], CALLS: [call(1, 9, 1, 5)]}))
    assert capture.activity is not None
    assert (len(capture.activity.calls), capture.losses.notes) == (1, ())


@pytest.mark.parametrize("table", ["EXPORT_META_DATA", "META_DATA_EXPORT"])
def test_the_version_stands_in_the_table_of_either_era(tmp_path: Path, table: str) -> None:
    facts = [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.1.2"}, {"name": "EXPORT_PRODUCT_VERSION", "value": "2023.1"}]
    capture = read(write_export(tmp_path / "a.sqlite", {table: facts, START: session()}))
    assert capture.activity is not None
    assert capture.activity.source == "Nsight Systems 2023.1, schema 3.1.2"


def test_a_schema_of_tomorrow_reads_and_is_told(tmp_path: Path) -> None:
    facts = [{"name": "EXPORT_SCHEMA_VERSION", "value": "4.2.0"}]
    tables = {
        "META_DATA_EXPORT": facts,
        COPIES: [copy(10, 20, 5, brandNew=1)],
        "CUPTI_ACTIVITY_KIND_TELEPORT": [{"start": 1}],
        START: [{"utcEpochNs": 7, "systemClockNs": 99}],
    }
    capture = read(write_export(tmp_path / "a.sqlite", tables))
    assert capture.activity is not None
    assert len(capture.activity.gpu_ops) == 1
    assert (capture.activity.start_utc_ns, capture.activity.start_system_ns) == (7, 99)
    assert capture.losses.notes == ("The export has schema 4.2.0; this pinprof knows 3.28, so it ignores newer data.",)


def test_enum_values_of_tomorrow_keep_their_number_and_null_is_unrecorded(tmp_path: Path) -> None:
    rows = [copy(1, 2, 1, copyKind=42, srcKind=None), copy(3, 4, 2, copyKind=11, srcKind=7, dstKind=7, migrationCause=5,
            virtualAddress=0x7F00_0000_0000)]  # fmt: skip
    capture = read(write_export(tmp_path / "a.sqlite", {COPIES: rows}))
    assert capture.activity is not None
    ops = capture.activity.gpu_ops
    assert ops.copy_kind.tolist() == [42, CopyKind.UVM_HOST_TO_DEVICE]
    assert ops.src_kind.tolist() == [UNRECORDED, 7]
    assert ops.cause.tolist() == [UNRECORDED, MigrationCause.ACCESS_COUNTERS]
    assert ops.address.tolist() == [0, 0x7F00_0000_0000]
    assert ops.kind.tolist() == [OpKind.COPY, OpKind.MIGRATION]


def test_every_kind_of_gpu_work_is_read_one_kind_behind_the_other(tmp_path: Path) -> None:
    place = {"deviceId": 1, "contextId": 1, "streamId": 13, "correlationId": 4_000_000_000, "globalPid": GLOBAL_PID}
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [{"start": 50, "end": 60, **place, "demangledName": 1, "shortName": 2}],
        "CUPTI_ACTIVITY_KIND_MEMSET": [{"start": 40, "end": 45, **place, "value": 0, "bytes": 512, "memKind": 2}],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [{"start": 30, "end": 35, **place, "syncType": 3, "eventId": 0}],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [{"start": 20, "end": 25, **place, "graphId": 1, "graphExecId": 1}],
        COPIES: [copy(10, 15, 1)],
    }
    capture = read(write_export(tmp_path / "a.sqlite", tables, strings={1: "add(float*)", 2: "add"}))
    assert capture.activity is not None
    ops = capture.activity.gpu_ops
    assert ops.kind.tolist() == [OpKind.KERNEL, OpKind.COPY, OpKind.MEMSET, OpKind.SYNC, OpKind.GRAPH]
    assert ops.start_ns.tolist() == [50, 10, 40, 30, 20]
    assert ops.sync.tolist()[3] == SyncKind.STREAM
    assert ops.size_bytes.tolist() == [0, 4096, 512, 0, 0]
    assert (ops.names, ops.name.tolist()) == (("add(float*)",), [0, -1, -1, -1, -1])
    assert ops.correlation_id.tolist() == [4_000_000_000, 1, *[4_000_000_000] * 3]


def test_a_driver_call_inside_a_runtime_call_is_folded_and_its_copy_moves_to_the_outer_call(tmp_path: Path) -> None:
    rows = [
        call(0, 100, 1, 10),
        call(10, 90, 2, 11, driver=True),
        call(20, 30, 3, 12, driver=True),
        call(100, 110, 2, 13, driver=True),
        call(20, 30, 2, 14, driver=True, tid=GLOBAL_TID + 1),
        call(105, 120, 2, 15, driver=True),
    ]
    copies = [copy(40, 50, 11), copy(60, 70, 13), copy(75, 80, 14), copy(81, 82, 12)]
    names = {1: "cudaMemcpy_v3020", 2: "cuMemcpyHtoD_v2", 3: "cuCtxGetCurrent"}
    capture = read(write_export(tmp_path / "a.sqlite", {CALLS: rows, COPIES: copies}, strings=names))
    assert capture.activity is not None
    calls = capture.activity.calls
    assert calls.correlation_id.tolist() == [10, 14, 13, 15]
    assert calls.folded.tolist() == [2, 0, 0, 0]
    assert calls.api.tolist() == [Api.RUNTIME, Api.DRIVER, Api.DRIVER, Api.DRIVER]
    assert [calls.names[n] for n in calls.name] == ["cudaMemcpy", *["cuMemcpyHtoD"] * 3]
    assert capture.activity.gpu_ops.correlation_id.tolist() == [10, 13, 14, 10]


def test_the_same_correlation_id_in_two_processes_is_two_calls(tmp_path: Path) -> None:
    other = 1 << 48 | 77 << 24
    rows = [call(0, 100, 1, 10), call(10, 90, 1, 11, driver=True)]
    copies = [copy(40, 50, 11), copy(41, 50, 11, globalPid=other)]
    capture = read(write_export(tmp_path / "a.sqlite", {CALLS: rows, COPIES: copies}, strings={1: "x"}))
    assert capture.activity is not None
    ops = capture.activity.gpu_ops
    assert list(zip(ops.pid.tolist(), ops.correlation_id.tolist(), strict=True)) == [(PID, 10), (77, 11)]


def ranges(tmp_path: Path, *rows: dict[str, object], strings: dict[int, object] | None = None) -> Capture:
    return read(write_export(tmp_path / "a.sqlite", {NVTX: rows}, strings=strings))


def test_unclosed_and_backward_ranges_are_closed_or_left_out_and_counted(tmp_path: Path) -> None:
    capture = ranges(tmp_path, nvtx(10, None, "open"), nvtx(20, 15, "backward"), nvtx(12, 14, "whole"))
    assert capture.ranges.name == ("open", "whole")
    assert capture.ranges.end_ns.tolist() == [10, 14]
    assert capture.losses.unknown_records == 1
    assert len(capture.losses.notes) == 2


def test_an_unclosed_range_ends_with_the_recording(tmp_path: Path) -> None:
    tables = {NVTX: [nvtx(10, None, "open")], "ANALYSIS_DETAILS": [{"globalVid": 1, "duration": 500}]}
    capture = read(write_export(tmp_path / "a.sqlite", tables))
    assert capture.ranges.end_ns.tolist() == [500]


def test_overlapping_ranges_are_kept_and_start_end_ranges_nest_nothing(tmp_path: Path) -> None:
    capture = ranges(
        tmp_path,
        nvtx(0, 50, "a"),
        nvtx(0, 100, "outer"),
        nvtx(40, 60, "overlaps"),
        nvtx(10, 90, "side", eventType=60),
        nvtx(20, 30, "inner"),
        nvtx(20, 30, "elsewhere", globalTid=GLOBAL_TID + 1),
    )
    depth = dict(zip(capture.ranges.name, capture.ranges.depth.tolist(), strict=True))
    assert depth == {"outer": 0, "a": 1, "side": 2, "inner": 2, "elsewhere": 0, "overlaps": 2}


@pytest.mark.slow
def test_ten_thousand_domains_each_have_their_name(tmp_path: Path) -> None:
    created = [nvtx(0, None, f"domain-{n}", eventType=75, domainId=n) for n in range(1, 10_001)]
    inside = [nvtx(n, n + 1, None, textId=1, domainId=n) for n in range(1, 10_001)]
    capture = ranges(tmp_path, *created, *inside, strings={1: "registered"})
    assert capture.ranges.domain == tuple(f"domain-{n}" for n in range(1, 10_001))
    assert set(capture.ranges.name) == {"registered"}


def test_names_that_are_no_utf8_or_missing_do_not_stop_reading(tmp_path: Path) -> None:
    capture = ranges(
        tmp_path,
        nvtx(1, 2, b"caf\xe9"),
        nvtx(3, 4, None),
        nvtx(5, 6, None, textId=404),
        nvtx(7, 8, None, textId=1),
        nvtx(9, 10, "<script>"),
        strings={1: b"\xff\xfe"},
    )
    assert capture.ranges.name == ("caf�", "(no name)", "[unknown]", "��", "<script>")


def test_negative_durations_are_left_out_and_counted(tmp_path: Path) -> None:
    tables = {CALLS: [call(10, 5, 1, 1), call(20, 25, 1, 2)], COPIES: [copy(9, 3, 1)]}
    capture = read(write_export(tmp_path / "a.sqlite", tables, strings={1: "cudaFree"}))
    assert capture.activity is not None
    assert (len(capture.activity.calls), len(capture.activity.gpu_ops)) == (1, 0)
    assert capture.losses.unknown_records == 2
    assert all("left out" in note for note in capture.losses.notes)


def test_a_table_with_a_missing_column_is_left_out_and_named(tmp_path: Path) -> None:
    row = copy(1, 2, 3)
    del row["bytes"]
    capture = read(write_export(tmp_path / "a.sqlite", {COPIES: [row], CALLS: [call(1, 2, 1, 3)]}, strings={1: "f"}))
    assert capture.activity is not None
    assert (len(capture.activity.calls), len(capture.activity.gpu_ops)) == (1, 0)
    assert any("CUPTI_ACTIVITY_KIND_MEMCPY lacks the column bytes" in note for note in capture.losses.notes)


def test_an_empty_capture_is_one_without_events(tmp_path: Path) -> None:
    capture = read(write_export(tmp_path / "a.sqlite", {START: session()}))
    assert (len(capture.samples), len(capture.ranges), capture.events) == (0, 0, ())
    assert any("has no events" in note for note in capture.losses.notes)


def sampled(tmp_path: Path) -> Path:
    def entry(sample: int, depth: int, symbol: int, module: int, ip: int, kernel: int | None) -> dict[str, object]:
        return {"id": sample, "symbol": symbol, "module": module, "kernelMode": kernel, "unresolved": int(symbol == 9),
                "originalIP": ip, "stackDepth": depth}  # fmt: skip

    samples = [
        {"id": n, "start": 10 * n, "cpu": 0, "threadState": 1, "globalTid": GLOBAL_TID, "cpuCycles": 5000}
        for n in (1, 2, 3)
    ]
    kernel_ip = 0xFFFFFFFF81000010 - (1 << 64)
    chains = [
        entry(1, 0, 9, 8, kernel_ip, 1), entry(1, 1, 1, 3, 0x400010, None), entry(1, 2, 2, 3, 0x400020, 0),
        entry(2, 0, 1, 3, 0x400011, 0), entry(2, 1, 4, 4, 0, 0),
    ]  # fmt: skip
    strings = {
        1: "inner()",
        2: "main",
        3: "/opt/app/bench",
        4: "[Broken backtraces]",
        8: "[kernel.kallsyms]",
        9: "0x10",
    }
    return write_export(
        tmp_path / "a.sqlite", {"COMPOSITE_EVENTS": samples, "SAMPLING_CALLCHAINS": chains}, strings=strings
    )


def chain_of(capture: Capture, sample: int) -> list[str]:
    stacks = capture.stacks
    return [stacks.frames[int(stacks.frame[node])].symbol for node in stacks.chain(int(capture.samples.stack[sample]))]


def test_kernel_leaves_are_named_by_the_kallsyms_given(tmp_path: Path) -> None:
    kallsyms = tmp_path / "kallsyms"
    kallsyms.write_text("ffffffff81000000 T clear_page_erms\nffffffff81000100 T next_one\n")
    capture = read(sampled(tmp_path), ReadOptions(kallsyms=kallsyms))
    assert chain_of(capture, 0) == ["clear_page_erms", "inner()", "main"]
    assert capture.samples.ip[0] == 0xFFFFFFFF81000010
    assert KERNEL in capture.stacks.frames.mode


def test_kernel_leaves_without_kallsyms_and_broken_chains_are_counted(tmp_path: Path) -> None:
    capture = read(sampled(tmp_path))
    assert chain_of(capture, 0) == ["[unknown kernel]", "inner()", "main"]
    assert chain_of(capture, 1) == ["inner()"]
    assert chain_of(capture, 2) == []
    losses = capture.losses
    assert (losses.unresolved_frames, losses.truncated_chains, losses.missing_stacks) == (1, 1, 1)
    assert [(event.unit, event.period) for event in capture.events] == [("samples", 1)]
    assert np.array_equal(capture.samples.tid, [TID] * 3)
