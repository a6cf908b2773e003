"""Events of managed memory as NVIDIA's driver writes them, and files of any bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.analyze.activity.migrations import prepare_migrations
from pinprof.data.activity import Activity, CopyKind, GpuOpTable, MigrationCause, OpKind
from pinprof.data.uvm_events import CLOCK, COUNTERS, ENTRY_BYTES, Counter, State, UvmEvent
from pinprof.read import ReadOptions, read, uvm
from pinprof.streams import store
from tests.support import perf_file
from tests.support import uvm_layout as layout

RAW, TIME = 1_000_000_000, 5_000_000_000
"""The same moment on both clocks, when the recording began."""
GPU = 1_700_000_000_000_000_000


def clock(raw: int, time: int, version: int = 2) -> bytes:
    head = bytes([CLOCK]) + bytes(7) + raw.to_bytes(8, "little") + time.to_bytes(8, "little")
    return head.ljust(ENTRY_BYTES[version], b"\0")


def file(*events: bytes, **more: int | list[int]) -> bytes:
    return layout.file(*events, **{"opened_ns": TIME, "opened_raw_ns": RAW, **more})


def parsed(data: bytes) -> uvm.UvmFile:
    found = uvm.parse(data)
    assert found is not None
    return found


def work(*events: bytes, **more: int) -> uvm.UvmWork:
    return uvm.combine([parsed(file(*events, **more))])


def moved(version: int = 2, **values: int) -> bytes:
    given = {"cause": 2, "target": 1, "bytes": 4096, "begin": RAW + 100, "end": RAW + 200, "address": 1 << 40}
    return layout.event(UvmEvent.MIGRATION, version, **given | values)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", sorted(set(uvm._PLACES) - {CLOCK}))
def test_every_field_lies_where_the_driver_puts_it(kind: int, version: int) -> None:
    read = uvm.record_type(kind, version)
    assert read.fields
    for name, (form, at, *_) in read.fields.items():
        place = getattr(layout.EVENTS[kind][version], name)
        assert (name, at, form.itemsize) == (name, place.offset, place.size)
    assert read.itemsize == ENTRY_BYTES[version]


@pytest.mark.parametrize(("version", "second_gpu"), [(1, 2), (2, 9)])
def test_migrations_have_direction_cause_size_and_gpu(version: int, second_gpu: int) -> None:
    table = work(
        moved(version, cause=2, source=0, target=1, bytes=65536),
        moved(version, cause=3, source=second_gpu, target=0, bytes=4096, begin=RAW + 300, end=RAW + 400),
        moved(version, cause=1, source=1, target=second_gpu, begin=RAW + 500, end=RAW + 600),
        moved(version, source=0, target=0),
        version=version,
    ).migrations
    assert table.kind.tolist() == [OpKind.MIGRATION] * 3
    assert table.copy_kind.tolist() == [
        CopyKind.UVM_HOST_TO_DEVICE, CopyKind.UVM_DEVICE_TO_HOST, CopyKind.UVM_DEVICE_TO_DEVICE,
    ]  # fmt: skip
    assert table.cause.tolist() == [MigrationCause.FAULT, MigrationCause.SPECULATIVE, MigrationCause.PREFETCH]
    assert table.size_bytes.tolist() == [65536, 4096, 4096]
    assert table.device.tolist() == [0, 1, 1]
    assert (table.address == 1 << 40).all()
    assert set(table.pid.tolist()) == {7}
    assert len(prepare_migrations(table, ())) == 3


def test_times_are_those_of_clock_monotonic() -> None:
    # The raw clock is 1 ‰ slow.
    readings = [clock(RAW + 10**9, TIME + 1_001_000_000), clock(RAW + 2 * 10**9, TIME + 2_002_000_000)]
    starts = [RAW, RAW + 5 * 10**8, RAW + 15 * 10**8, RAW + 3 * 10**9]
    table = work(*(moved(begin=at, end=at + 1000) for at in starts), *readings).migrations
    assert table.start_ns.tolist() == [TIME, TIME + 500_500_000, TIME + 1_501_500_000, TIME + 3_002_000_000]


def test_a_reading_that_goes_back_is_left_out() -> None:
    table = work(moved(begin=RAW + 50), clock(RAW + 100, TIME - 1), clock(RAW - 5, TIME)).migrations
    assert table.start_ns.tolist() == [TIME + 50]


def test_a_migration_ran_when_the_gpu_says() -> None:
    # Two pieces of one push: queued together, and noticed together 900 ns after the last had ended.
    begin, end = RAW + 1000, RAW + 4000
    table = work(
        moved(begin=begin, end=end, gpu_begin=GPU, gpu_end=GPU + 500),
        moved(begin=begin, end=end, gpu_begin=GPU + 500, gpu_end=GPU + 2100),
        moved(begin=begin + 5000, end=begin + 9000, gpu_begin=GPU + 5300, gpu_end=GPU + 5400),
    ).migrations
    assert (table.start_ns - TIME).tolist() == [1000, 1500, 6300]
    assert (table.end_ns - TIME).tolist() == [1500, 3100, 6400]


def test_a_gpu_whose_clock_was_set_gives_the_length_alone() -> None:
    table = work(
        moved(begin=RAW + 1000, end=RAW + 4000, gpu_begin=GPU, gpu_end=GPU + 500),
        moved(begin=RAW + 6000, end=RAW + 7000, gpu_begin=GPU - 10**12, gpu_end=GPU - 10**12 + 300),
        moved(begin=RAW + 8000, end=0, gpu_begin=0, gpu_end=0),
    ).migrations
    assert (table.start_ns - TIME).tolist() == [1000, 6000, 8000]
    assert (table.end_ns - table.start_ns).tolist() == [500, 300, 0]


def test_faults_of_a_block_that_are_served_together_are_one_row() -> None:
    fault = {"processor": 1, "client": 1, "batch": 4, "access": 2}
    table = work(
        layout.event(UvmEvent.GPU_FAULT, 2, address=1 << 21, time=RAW + 10, **fault),
        layout.event(UvmEvent.GPU_FAULT, 2, address=(1 << 21) + 4096, time=RAW + 12, **fault),
        layout.event(UvmEvent.GPU_FAULT, 2, address=1 << 22, time=RAW + 12, **fault),
        layout.event(UvmEvent.GPU_FAULT, 2, address=1 << 21, time=RAW + 90, **{**fault, "batch": 5}),
        layout.event(UvmEvent.GPU_FAULT_REPLAY, 2, processor=1, client=1, batch=4, time=RAW + 60),
        layout.event(UvmEvent.CPU_FAULT, 2, address=1 << 21, time=RAW + 70, access=1, pid=7),
    ).faults
    assert table.time_ns.tolist() == [TIME + 10, TIME + 12, TIME + 70, TIME + 90]
    assert table.duration_ns.tolist() == [50, 48, 0, 0]
    assert table.count.tolist() == [2, 1, 1, 1]
    assert table.device.tolist() == [0, 0, -1, 0]
    assert table.access.tolist() == [2, 2, 255, 2]


def test_what_has_no_table_is_said() -> None:
    found = work(
        layout.event(UvmEvent.THRASHING, 2), layout.event(UvmEvent.EVICTION, 2), layout.event(UvmEvent.EVICTION, 2),
        layout.event(UvmEvent.MAP_REMOTE, 2),
    )  # fmt: skip
    (said,) = (note for note in found.notes if "reports" in note)
    assert "1 remote mapping, 2 evictions" in said
    assert found.recorded == {"migrations", "gpu_faults", "cpu_faults"}


@pytest.mark.parametrize("state", [State.OVER_BUDGET, State.NO_ROOM, State.LIMIT])
def test_a_part_is_never_taken_for_the_whole(state: State) -> None:
    counters = [0] * COUNTERS
    counters[Counter.TO_DEVICE], counters[Counter.TO_HOST], counters[Counter.CPU_FAULTS] = 3 << 30, 1 << 20, 12
    found = uvm.combine([
        parsed(file(moved(), state=state, counted=1, counters=counters, stopped_ns=TIME + 2 * 10**9))
    ])  # fmt: skip
    assert len(found.migrations) == len(found.faults) == 0
    assert not found.recorded
    (note,) = (note for note in found.notes if "left out" in note)
    counted = "The driver counted 3 GiB to the GPU and 1 MiB back, 12 CPU faults and 0 GPU faults until then."
    assert ("Record with --gpu uvm" if state == State.OVER_BUDGET else counted) in note


def test_lost_events_are_counted() -> None:
    dropped = [0] * 16
    dropped[UvmEvent.MIGRATION] = 5
    notes = uvm.combine([parsed(file(moved(), dropped=dropped))]).notes
    assert any(note.startswith("5 events of managed memory did not fit") for note in notes)


def test_what_was_cut_off_amid_an_event_is_damage() -> None:
    data = file(moved(), moved())
    cut = parsed(data[:-10])
    assert (cut.damaged, cut.count(UvmEvent.MIGRATION)) == (1, 1)
    strange = parsed(file(moved(), bytes([200]).ljust(72, b"\0")))
    assert (strange.damaged, len(strange.entries)) == (1, 1)


def test_a_folder_joins_what_other_recorders_saw(tmp_path: Path) -> None:
    (tmp_path / "7-1.bin").write_bytes(file(moved()))
    (tmp_path / "8-1.bin").write_bytes(b"nothing")
    kernel = GpuOpTable.of(1, start_ns=TIME, end_ns=TIME + 9, kind=OpKind.KERNEL, threads=32, names=("add",))
    seen = uvm.read_folder(tmp_path, Activity("CUPTI", gpu_ops=kernel, recorded=frozenset({"cuda"})))
    assert seen is not None
    activity, notes = seen
    assert activity.gpu_ops.kind.tolist() == [OpKind.KERNEL, OpKind.MIGRATION]
    assert activity.gpu_ops.names == ("add",)
    assert activity.gpu_ops.threads is not None
    assert activity.recorded >= {"cuda", "migrations"}
    assert any("damaged" in note for note in notes)
    again = uvm.read_folder(tmp_path, activity)
    assert again is not None
    assert len(again[0].gpu_ops) == 2, "migrations of two recorders would count twice"
    assert uvm.read_folder(tmp_path / "none", None) is None


def test_a_capture_with_events_has_a_section_of_managed_memory(tmp_path: Path) -> None:
    spec = perf_file.Spec()
    records = perf_file.comm(spec, "app") + perf_file.sample(spec, (2**64 - 512, 0x401000), time=5)
    writer = store.CaptureWriter.create(tmp_path / "run", store.new_manifest(command=("app",)))
    (writer.path / store.PERF_DATA).write_bytes(perf_file.file_mode([spec], records))
    (writer.path / store.UVM).mkdir()
    (writer.path / store.UVM / "7-1.bin").write_bytes(file(moved(bytes=1 << 20), moved(source=1, target=0)))
    analysis = analyze(read(str(writer.finish(writer.manifest)), ReadOptions()))
    assert analysis.activity is not None
    assert analysis.activity.uvm is not None
    totals = {(entry.direction, entry.cause): entry.size_bytes.total for entry in analysis.activity.whole.migrations}
    assert totals == {("H2D", "fault"): 1 << 20, ("D2H", "fault"): 4096}
    assert analysis.activity.source == uvm.SOURCE


@given(st.binary(max_size=2048), st.integers(0, 2**64 - 1), st.sampled_from([1, 2]), st.integers(0, 2**64 - 1))
def test_any_bytes_make_tables_or_nothing(tail: bytes, written: int, version: int, opened: int) -> None:
    assert uvm.parse(tail) is None
    check(file(tail, version=version, written=written, opened_ns=opened, counted=written & 1))


@given(st.data())
def test_events_of_any_content_make_sound_rows(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([1, 2]))
    kinds = st.sampled_from(
        [UvmEvent.CPU_FAULT, UvmEvent.MIGRATION, UvmEvent.GPU_FAULT, UvmEvent.GPU_FAULT_REPLAY, CLOCK]
    )
    size = ENTRY_BYTES[version] - 1
    bits = st.one_of(st.binary(min_size=size, max_size=size), st.just(b"\xff" * size), st.just(bytes(size)))
    events = data.draw(st.lists(st.builds(lambda kind, rest: bytes([kind]) + rest, kinds, bits), max_size=12))
    check(file(*events, version=version))


def check(data: bytes) -> None:
    found = uvm.combine([parsed(data)])
    moved, faults = found.migrations, found.faults
    assert bool(np.all(moved.end_ns >= moved.start_ns))
    assert bool(np.all(moved.start_ns >= 0))
    assert bool(np.all((moved.size_bytes > 0) & (moved.device >= 0)))
    assert bool(np.all((faults.count > 0) & (faults.duration_ns >= 0) & (faults.time_ns >= 0)))
    assert bool(np.all(np.diff(moved.start_ns) >= 0))
