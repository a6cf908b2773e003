"""GPU work that was recorded by CUPTI on an H200, and files of any bytes."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.data.activity import (
    UNRECORDED,
    Activity,
    ApiCallTable,
    CopyKind,
    GivenUp,
    MemoryKind,
    MigrationCause,
    OpKind,
)
from pinprof.read import cupti, cupti_file
from pinprof.read.cupti_file import HEADER, RECORD, CuptiKind, CuptiState, GpuFile

DATA = Path(__file__).parents[2] / "data" / "gpu"


def recorded(name: str) -> bytes:
    return lzma.decompress((DATA / f"{name}.bin.xz").read_bytes())


def parsed(data: bytes) -> GpuFile:
    file = cupti_file.parse(data)
    assert file is not None
    return file


def test_a_training_step_that_copies_to_pageable_memory() -> None:
    file = parsed(recorded("not_async"))
    assert (file.api, file.state, file.damaged, file.dropped) == (130001, CuptiState.ENDED, 0, 0)
    work = cupti.combine([file], ApiCallTable.empty())
    copies = work.operations.take(work.operations.kind == OpKind.COPY)
    assert len(copies) == 63
    assert int(copies.size_bytes.sum()) == 63 * 4096 * 4096 * 4
    assert set(copies.copy_kind.tolist()) == {CopyKind.DEVICE_TO_HOST}
    assert set(copies.src_kind.tolist()) == {MemoryKind.DEVICE}
    assert set(copies.dst_kind.tolist()) == {MemoryKind.PAGEABLE}
    kernels = work.operations.take(work.operations.kind == OpKind.KERNEL)
    assert len(kernels) == 821
    assert (kernels.name >= 0).all()
    assert any("gemm" in name for name in work.operations.names)
    assert bool(np.all(np.diff(work.operations.start_ns) >= 0))
    assert work.recorded == {"cuda", "memory"}


def test_managed_memory_that_moves_there_and_back() -> None:
    work = cupti.combine([parsed(recorded("managed"))], ApiCallTable.empty())
    migrations = work.operations.take(work.operations.kind == OpKind.MIGRATION)
    assert set(migrations.copy_kind.tolist()) <= {CopyKind.UVM_HOST_TO_DEVICE, CopyKind.UVM_DEVICE_TO_HOST}
    assert set(migrations.cause.tolist()) <= {MigrationCause.FAULT, MigrationCause.SPECULATIVE}
    assert (migrations.address > 0).all()
    assert (migrations.size_bytes > 0).all()
    assert len(work.faults)
    assert {"gpu_faults", "cpu_faults"} <= work.recorded


def calls(*rows: tuple[int, int, int]) -> ApiCallTable:
    """Copies by (start, bytes, status)."""
    start, size, status = zip(*rows, strict=True)
    return ApiCallTable.of(
        len(rows),
        start_ns=start,
        end_ns=start,
        pid=7,
        correlation_id=np.arange(1, len(rows) + 1),
        status=status,
        size_bytes=size,
        copy_kind=CopyKind.HOST_TO_DEVICE,
    )


def work(*rows: tuple[int, int, int]) -> GpuFile:
    """Copies by (start, bytes, correlation)."""
    header, records = np.zeros(1, HEADER), np.zeros(len(rows), RECORD)
    header["magic"], header["version"], header["api"], header["pid"] = cupti_file.MAGIC, 1, 18, 7
    header["written"] = records.nbytes
    records["kind"], records["detail"] = CuptiKind.COPY, CopyKind.HOST_TO_DEVICE
    records["start_ns"], records["bytes"], records["correlation"] = np.array(rows).T
    records["end_ns"] = records["start_ns"] + 1
    return parsed(header.tobytes() + records.tobytes())


def causes(file: GpuFile, table: ApiCallTable) -> list[int]:
    return cupti.combine([file], table).operations.correlation_id.tolist()


def test_the_nth_copy_of_a_size_belongs_to_the_nth_call_that_copies_it() -> None:
    assert causes(work((15, 64, 3), (25, 4096, 5), (35, 64, 9)), calls((10, 64, 0), (20, 4096, 0), (30, 64, 0))) == [
        1, 2, 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "table",
    [
        calls((10, 64, 0), (20, 64, 0), (30, 64, 0)),
        calls((10, 64, 0), (999, 64, 0)),
        calls((10, 64, 0), (20, 64, 2)),
    ],
    ids=["more calls than copies", "work before its call", "a call that failed"],
)
def test_what_cannot_be_joined_with_certainty_is_not(table: ApiCallTable) -> None:
    assert causes(work((15, 64, 3), (35, 64, 9)), table) == [0, 0]


def test_where_numbers_differ_the_copies_that_calls_wait_for_are_theirs() -> None:
    table = calls((10, 64, 0), (30, 64, 0), (50, 64, 0), (60, 64, 0), (80, 64, 0), (95, 64, 0))
    ends = np.array([20, 40, 70, 65, 90, 99])
    file = work((5, 64, 1), (15, 64, 2), (39, 64, 3), (40, 64, 4), (62, 64, 5), (82, 64, 6), (84, 64, 7), (96, 64, 8))
    # Nobody waits for the first and the fourth, two calls for the fifth, and one call for the next two.
    assert causes(file, replace(table, end_ns=ends)) == [0, 1, 2, 0, 0, 0, 0, 6]


BATCHES = ((15, 64, 3), (25, 100, 5), (26, 200, 5), (27, 300, 5), (45, 64, 7), (55, 50, 9))


def test_copies_of_a_batch_belong_to_its_call() -> None:
    table = calls((10, 64, 0), (20, -1, 0), (30, -1, 2), (40, 64, 0), (50, -1, 0))
    assert causes(work(*BATCHES), table) == [1, 2, 2, 2, 4, 5]


def test_the_size_of_a_batched_call_is_the_sum_of_its_copies() -> None:
    operations = cupti.combine([work(*BATCHES)], table := calls((10, 64, 0), (20, -1, 0), (40, 64, 0), (50, -1, 0)))
    names = ("cudaMemcpyAsync", "cudaMemcpyBatchAsync")
    table = replace(table, name=np.array([0, 1, 0, 1], np.int32), names=names)
    prepared = prepare_calls(Activity("test", calls=table, gpu_ops=operations.operations))
    assert prepared.size_bytes.tolist() == [64, 600, 64, 50]


@pytest.mark.parametrize(
    "table",
    [
        calls((10, 64, 0), (20, -1, 0), (40, 64, 0)),
        calls((10, 64, 0), (11, 77, 0), (20, -1, 0), (40, 64, 0), (50, -1, 0)),
        calls((10, 64, 0), (26, -1, 0), (40, 64, 0), (50, -1, 0)),
    ],
    ids=["more batches than calls", "a copy is missing", "work before its call"],
)
def test_batches_that_cannot_be_told_apart_stay_without_a_call(table: ApiCallTable) -> None:
    assert causes(work(*BATCHES), table)[1:4] == [0, 0, 0]


def test_work_that_the_gpu_had_not_finished_is_left_out_and_no_damage() -> None:
    data = bytearray(recorded("not_async"))
    rows = np.frombuffer(data, RECORD, offset=HEADER.itemsize)
    at = int(np.flatnonzero(rows["kind"] == CuptiKind.COPY)[0])
    rows["end_ns"][at] = 0
    file = parsed(bytes(data))
    assert file.damaged == 0
    assert int(np.count_nonzero(file.records["kind"] == CuptiKind.COPY)) == 62


def test_what_was_cut_off_amid_a_record_is_damage() -> None:
    data = recorded("not_async")
    whole, cut = parsed(data), parsed(data[: len(data) - 30])
    assert cut.damaged == 1
    assert len(cut.records) == len(whole.records) - 1


@given(st.binary(max_size=4096), st.integers(0, 2**64 - 1))
def test_any_bytes_make_tables_or_nothing(tail: bytes, written: int) -> None:
    header = np.zeros(1, HEADER)
    header["magic"], header["version"], header["api"], header["written"] = cupti_file.MAGIC, 1, 18, written
    for data in (tail, header.tobytes() + tail):
        file = cupti_file.parse(data)
        if file is not None:
            found = cupti.combine([file], ApiCallTable.empty())
            assert bool(np.all(found.operations.end_ns >= found.operations.start_ns))
            assert bool(np.all(found.operations.name < len(found.operations.names)))
            assert bool(np.all(found.faults.count > 0))
            assert set(np.unique(found.memory.operation).tolist()) <= {0, 1}


@given(st.data())
def test_a_damaged_recording_gives_no_wrong_rows(data: st.DataObject) -> None:
    original = recorded("not_async")
    bytes_ = bytearray(original)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(bytes_) - 1))
        bytes_[at] = data.draw(st.integers(0, 255))
    file = cupti_file.parse(bytes(bytes_))
    if file is not None:
        operations = cupti.combine([file], ApiCallTable.empty()).operations
        assert bool(np.all(operations.size_bytes >= 0))
        assert set(np.unique(operations.src_kind).tolist()) <= {*map(int, MemoryKind), *range(8, 256), UNRECORDED}


def test_a_folder_of_files_that_are_none_says_so(tmp_path: Path) -> None:
    (tmp_path / "1-2.bin").write_bytes(b"nothing")
    seen = cupti.read_folder(tmp_path, None)
    assert seen is not None
    assert any("damaged" in note for note in seen[1])
    assert cupti.read_folder(tmp_path / "none", None) is None


@pytest.mark.parametrize("state", [CuptiState.STEPPED_BACK, CuptiState.NO_ROOM, CuptiState.LIMIT])
def test_a_part_is_never_taken_for_the_whole(state: CuptiState) -> None:
    data = bytearray(recorded("not_async"))
    np.frombuffer(data, HEADER, 1)["state"] = state
    found = cupti.combine([parsed(bytes(data))], ApiCallTable.empty())
    assert len(found.operations) == len(found.memory) == 0
    assert "cuda" not in found.recorded
    assert any("left out" in note for note in found.notes)


def with_windows(data: bytes, *windows: tuple[int, int, int], state: int = CuptiState.ENDED, open_ns: int = 0) -> bytes:
    """A recording that was made in windows by (begin, end, chance in 2^-32)."""
    rows = np.zeros(len(windows), RECORD)
    rows["kind"] = CuptiKind.WINDOW
    rows["start_ns"], rows["end_ns"], rows["bytes"] = np.array(windows).T
    changed = bytearray(data + rows.tobytes())
    header = np.frombuffer(changed, HEADER, 1)
    header["written"] += rows.nbytes
    header["state"], header["window_ns"], header["saved_ns"] = state, open_ns, max(end for _, end, _ in windows) + 1000
    return bytes(changed)


def test_work_in_windows_is_no_work_of_the_whole() -> None:
    data = recorded("not_async")
    opened = parsed(data).opened_ns
    found = cupti.combine(
        [parsed(with_windows(data, (opened, opened + 500, 0), (opened + 900, opened + 1000, 1 << 31)))],
        ApiCallTable.empty(),
    )
    assert found.windows.start_ns.tolist() == [opened, opened + 900]
    assert found.windows.chance.tolist() == [1, 0.5]
    assert found.windows.lived_ns.tolist() == [opened + 2000] * 2
    assert (found.recorded, found.complete) == ({"gpu windows", "memory"}, False)
    note = next(note for note in found.notes if "windows" in note)
    assert note.startswith("The GPU's work was recorded in 2 windows, together 30 % of the time, because")


def test_beside_a_process_in_windows_a_whole_recording_is_one_certain_window() -> None:
    data = recorded("not_async")
    whole = parsed(data)
    seen = parsed(with_windows(data, (whole.opened_ns, whole.opened_ns + 500, 0)))
    found = cupti.combine([replace(whole, pid=9), replace(seen, pid=8)], ApiCallTable.empty())
    assert sorted(zip(found.windows.pid.tolist(), found.windows.chance.tolist(), strict=True)) == [(8, 1), (9, 1)]
    of = found.windows.take(found.windows.pid == 9)
    work = found.operations.take(found.operations.pid == 9)
    assert of.end_ns[0] >= work.end_ns.max()
    assert of.start_ns[0] <= work.start_ns.min()


def test_work_of_a_window_that_did_not_end_is_left_out() -> None:
    data = recorded("not_async")
    starts = parsed(data).records["start_ns"].astype(np.int64)
    middle = int(np.median(starts))
    windows = ((int(starts.min()), middle, 0),)
    seen = parsed(with_windows(data, *windows, state=CuptiState.RUNNING, open_ns=middle))
    assert len(seen.records) - 1 == int(np.count_nonzero(starts < middle))


def test_windows_are_read_beside_calls_and_not_as_all_the_gpus_work(tmp_path: Path) -> None:
    data = recorded("not_async")
    opened = parsed(data).opened_ns
    (tmp_path / "1-2.bin").write_bytes(with_windows(data, (opened, opened + 500, 0)))
    seen = cupti.read_folder(tmp_path, Activity("calls", recorded=frozenset({"cuda calls"})))
    assert seen is not None
    activity = seen[0]
    assert len(activity.gpu_ops) == 0
    assert len(activity.window_ops) == len(cupti.combine([parsed(data)], ApiCallTable.empty()).operations)
    assert len(activity.windows) == 1
    assert "cuda" not in activity.recorded


@pytest.mark.parametrize(("windows", "count"), [(False, 61), (True, 5)])
def test_copies_of_calls_that_were_not_traced_are_counted_by_what_the_gpu_did(
    windows: bool, count: int, tmp_path: Path
) -> None:
    data = recorded("not_async")
    rows = np.frombuffer(data, RECORD, offset=HEADER.itemsize)
    starts = np.sort(rows["start_ns"][np.isin(rows["kind"], (CuptiKind.COPY, CuptiKind.SET))]).astype(np.int64).tolist()
    after, last = starts[len(starts) - 61], starts[-1]
    (tmp_path / "1-2.bin").write_bytes(with_windows(data, (starts[0], last, 0)) if windows else data)
    gaps = (
        GivenUp("copies", start_ns=after, end_ns=last + 1, calls=5),
        GivenUp("memory", start_ns=0, end_ns=last, calls=9),
    )
    seen = cupti.read_folder(tmp_path, Activity("", given_up=gaps))
    assert seen is not None
    assert [part.calls for part in seen[0].given_up] == [count, 9]
