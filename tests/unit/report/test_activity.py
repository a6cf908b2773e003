"""The report of CUDA activity says what the exports say, and stays small whatever their size."""

from __future__ import annotations

import io
import json
import re
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Console

from pinprof.analyze import analyze
from pinprof.analyze.activity.clock import join
from pinprof.analyze.activity.results import CallResult
from pinprof.data.activity import CopyKind, GpuOpTable, MemoryKind, MigrationCause, OpKind
from pinprof.data.model import Capture
from pinprof.read import ReadOptions, read
from pinprof.report.gather import ReportData, build
from pinprof.report.page.html import for_scripts
from pinprof.report.page.html import render as render_page
from pinprof.report.sections.calls import UNSAMPLED, CallsSection, call_line, split_parts
from pinprof.report.sections.timeline import OverTime
from pinprof.report.sections.timeline.model import INTERVALS, Timeline
from pinprof.report.sections.transfers import device_sentence, transfer_figure
from pinprof.report.sections.uvm import ManagedMemory, uvm_tiles
from pinprof.report.sections.uvm.migration_field import MigrationField
from pinprof.report.thinning import MERGED, Spans, thin
from tests.support.activities import MIB, MS, US, Call, export, kernel, migration, sql, to_device, traced
from tests.support.h200 import analysis
from tests.support.nsys_file import real
from tests.support.sample_report import text_of
from tests.support.stacks import Range
from tests.support.uvm_told import told_by_the_driver

DOCUMENTED = Path(__file__).parents[3] / "docs" / "json.md"


def timeline_of(data: ReportData) -> Timeline:
    section = OverTime.of(data)
    assert section is not None
    return section.timeline


def field_of(data: ReportData) -> MigrationField:
    section = ManagedMemory.of(data)
    assert section is not None
    assert section.field is not None
    return section.field


def report(name: str) -> ReportData:
    return build(export(name))


def joined() -> ReportData:
    return build(analyze(join(analysis("both").capture, read(real("both.sqlite"), ReadOptions()))))


def spans(count: int, seed: int = 1) -> Spans:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 10**9, count))
    length = random.integers(0, 2_000, count)
    length[:: count // 50 + 1] = 5_000_000
    style, name = (random.integers(0, 3, count).astype(np.int32) for _ in range(2))
    return Spans.single(start, start + length, style, name, None, random.integers(0, 1 << 20, count))


def many(kind: OpKind, count: int) -> Capture:
    """A capture of `count` operations, made as columns."""
    base = traced([Call("cudaMemcpy", 0, 10)], [to_device(0, 10, 64)])
    assert base.activity is not None
    start = np.arange(count, dtype=np.int64) * 1_000
    columns: dict[str, Any] = {
        "start_ns": start,
        "end_ns": start + 500,
        "size_bytes": np.full(count, 4096) << (np.arange(count) % 5),
        "kind": kind,
        "copy_kind": CopyKind.HOST_TO_DEVICE if kind is OpKind.COPY else CopyKind.UVM_HOST_TO_DEVICE,
        "src_kind": MemoryKind.PINNED,
        "dst_kind": MemoryKind.DEVICE,
        "cause": MigrationCause.FAULT,
        "address": (np.arange(count, dtype=np.uint64) % 60_000) * 4096,
        "pid": 100,
        "name": -1,
    }
    empty = GpuOpTable.empty()
    filled = {
        column.name: np.zeros(count, getattr(empty, column.name).dtype)
        + np.asarray(columns.get(column.name, 0)).astype(getattr(empty, column.name).dtype)
        for column in fields(empty)
        if column.name != "names" and getattr(empty, column.name) is not None
    }
    return replace(base, activity=replace(base.activity, gpu_ops=replace(empty, **filled)))


@pytest.mark.slow
def test_nothing_about_activity_without_a_trace() -> None:
    data = build(analysis("pinned"))
    assert data.activity is None
    assert data.to_json()["activity"] is None
    page = render_page(data, "plotly.js")
    assert 'id="calls"' not in page
    assert 'id="transfers"' not in page
    assert 'id="uvm"' not in page
    assert "CUDA calls" not in text_of(data, 100).splitlines()
    assert "Not visible: CUDA calls were not recorded" in text_of(data, 100)


@pytest.mark.slow
def test_sections_appear_only_where_there_is_data() -> None:
    pinned, uvm = (render_page(report(name), "plotly.js") for name in ("pinned", "uvm"))
    assert 'id="transfers"' in pinned
    assert 'id="uvm"' not in pinned
    assert 'id="transfers"' not in uvm
    assert 'id="uvm"' in uvm


def test_json_says_what_the_export_says() -> None:
    activity = report("pinned").to_json()["activity"]
    alloc = next(call for call in activity["calls"] if call["purpose"] == "alloc pinned")
    rows = sql(
        "pinned",
        "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId "
        "WHERE s.value LIKE 'cudaHostAlloc%'",
    )
    assert [(alloc["count"], alloc["total_ns"])] == rows
    copied = sql("pinned", "SELECT sum(bytes), sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY")[0]
    assert sum(copy["total_bytes"] for copy in activity["copies"]) == copied[0]
    assert sum(copy["busy_ns"] for copy in activity["copies"]) == copied[1]
    moved = sum(entry["count"] for entry in report("uvm").to_json()["activity"]["migrations"])
    assert report("uvm").to_json()["activity"]["uvm"]["gpu_fault_groups"] == 319
    assert moved == sql("uvm", "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind IN (11, 12)")[0][0]


@pytest.mark.slow
def test_every_key_of_the_json_is_documented() -> None:
    text = DOCUMENTED.read_text("utf-8")
    words = set(re.findall(r"\w+", text))
    found: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                found.add(key)
                if key != "leaves":
                    collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    for data in (report("uvm"), report("pinned"), joined()):
        collect(data.to_json()["activity"])
    assert found - words == set()


@pytest.mark.slow
def test_split_of_a_call_sums_to_the_call() -> None:
    data = joined()
    calls = CallsSection.of(data)
    assert calls is not None
    for call in calls.memory:
        if call.time_ns.total < 20 * MS or call.split is None:
            continue
        parts = split_parts(call.split)
        assert sum(part.share for part in parts) == pytest.approx(1)
        assert abs(sum(part.ns for part in parts) - call.time_ns.total) <= 0.03 * call.time_ns.total
        assert parts[0].share > 0.5
        assert parts[0].label != UNSAMPLED


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uvm", "pinned", "pageable", "both"])
def test_terminal_tables_fit_eighty_columns(name: str) -> None:
    text = text_of(report(name), 80)
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if line == "CUDA calls")
    assert max(len(line) for line in lines[first:]) <= 80
    header = next(line for line in lines if line.strip().startswith("call "))
    assert "median" in header
    assert "…" not in header
    assert any(re.search(r"cuda\w+ +\d", line) for line in lines[first:])


@pytest.mark.slow
def test_terminal_names_the_causes_inside_calls() -> None:
    line = next(line for line in text_of(joined(), 100).splitlines() if "cudaHostAlloc:" in line)
    assert "pin.faultin 640 ms" in line


def test_timeline_lanes_hold_everything_the_export_holds() -> None:
    timeline = timeline_of(report("uvm"))
    total = {(lane.kind, lane.title): lane.total for lane in timeline.lanes}
    assert total["kernel", "kernels"] == 3
    assert total["fault", "fault groups"] == 319
    assert total["range", "ranges"] == 18
    assert total["phase", "phases"] == 3
    assert total["migration", "migrations H2D"] + total["migration", "migrations D2H"] == 8067
    for lane in timeline.lanes:
        assert int(lane.spans.count.sum()) == lane.total
        assert int(lane.spans.start_ns.min()) >= 0
        assert int(lane.spans.end_ns.max()) <= timeline.span_ns


def test_timeline_of_perf_alone_has_phases_ranges_and_the_weight_of_every_sample() -> None:
    found = analysis("pinned")
    timeline = timeline_of(build(found))
    assert found.main is not None
    assert {lane.kind for lane in timeline.lanes} == {"phase", "range"}
    assert sum(int(density.weight.sum()) for density in timeline.densities) == found.main.total
    assert timeline.memory == ()


def test_memory_use_returns_to_nothing_when_all_is_freed() -> None:
    timeline = timeline_of(report("uvm"))
    (managed,) = timeline.memory
    assert (managed.title, int(managed.level_bytes.max()), int(managed.level_bytes[-1])) == ("managed", 64 * MIB, 0)


@pytest.mark.parametrize("limit", [10, 500, 2_000])
def test_thinning_keeps_sums_extremes_and_the_longest(limit: int) -> None:
    whole = spans(20_000)
    thinned = thin(whole, limit)
    few, row = thinned.spans, thinned.first
    assert len(few) == len(row) <= limit + 3
    assert int(few.count.sum()) == len(whole)
    assert int(few.busy_ns.sum()) == int(whole.busy_ns.sum())
    assert int(few.size_bytes.sum()) == int(whole.size_bytes.sum())
    assert (int(few.start_ns.min()), int(few.end_ns.max())) == (int(whole.start_ns.min()), int(whole.end_ns.max()))
    assert (np.diff(few.start_ns) >= 0).all()
    assert (few.start_ns == whole.start_ns[row]).all()
    assert (few.style == whole.style[row]).all()
    alone = few.count == 1
    assert (few.name[alone] == whole.name[row[alone]]).all()
    assert (few.name[~alone] == MERGED).all()
    assert int((few.busy_ns[alone] == 5_000_000).sum()) >= min(50, limit // 2)


def test_few_intervals_are_left_alone() -> None:
    whole = spans(100)
    thinned = thin(whole, 100)
    few, row = thinned.spans, thinned.first
    assert few is whole
    assert row.tolist() == list(range(100))


@pytest.mark.slow
def test_a_million_copies_make_a_small_page() -> None:
    data = build(analyze(many(OpKind.COPY, 1_000_000)))
    assert data.activity is not None
    copies = next(lane for lane in timeline_of(data).lanes if lane.kind == "copy")
    assert copies.total == int(copies.spans.count.sum()) == 1_000_000
    assert len(copies.spans) <= INTERVALS + 10
    assert len(for_scripts(data).packed["drawings"]) < 150_000
    assert len(json.dumps(data.to_json())) < 60_000
    figure = transfer_figure(data.activity.transfers)
    assert figure is not None
    assert sum(len(trace["x"]) for trace in figure["data"]) < 2_100


@pytest.mark.slow
def test_a_hundred_thousand_ranges_and_calls_make_a_small_page() -> None:
    count, name = 100_000, "cudaMemcpy"
    calls = [Call(name, 1_000 * number, 1_000 * number + 100 + number % 7) for number in range(count)]
    ranges = [Range(f"step {number % 5}", 1_000 * number, 1_000 * number + 900) for number in range(count)]
    data = build(analyze(traced(calls, ranges=ranges)))
    lanes = {lane.kind: lane for lane in timeline_of(data).lanes}
    for kind, busy in (("range", 900 * count), ("call", sum(100 + number % 7 for number in range(count)))):
        spans = lanes[kind].spans
        assert lanes[kind].total == int(spans.count.sum()) == count
        assert int(spans.busy_ns.sum()) == busy
    assert sum(len(lane.spans) for lane in lanes.values()) <= INTERVALS + 100
    assert sum(map(len, for_scripts(data).packed.values())) < 2_500_000


@pytest.mark.slow
def test_half_a_million_migrations_make_a_small_field() -> None:
    data = build(analyze(many(OpKind.MIGRATION, 500_000)))
    field = field_of(data)
    assert field.count == 500_000
    for marks in (field.by_size, field.by_place):
        assert int(marks.spans.count.sum()) == 500_000
        assert len(marks) < 13_000
        assert int(marks.spans.size_bytes.sum()) == sum(4096 << (number % 5) for number in range(500_000))
    # Merging keeps the sizes apart: the mean of every mark is one of the five.
    assert set(np.unique(field.by_size.spans.size_bytes / field.by_size.spans.count)) == {4096 << n for n in range(5)}
    assert len(for_scripts(data).packed["drawings"]) < 600_000


def test_field_places_every_migration_inside_the_memory_that_moved() -> None:
    field = field_of(report("uvm"))
    assert field.place_bytes == 64 * MIB
    assert field.by_place is field.by_size
    marks = field.by_size
    assert marks.place.min() >= 0
    assert (marks.place + marks.spans.size_bytes <= field.place_bytes).all()
    assert int(marks.spans.end_ns.max()) <= field.span_ns
    assert int(field.faults.count.sum()) == 319


def test_blocks_far_apart_lie_side_by_side() -> None:
    ops = [migration(0, 10, MIB, MigrationCause.FAULT, 7 << 40), migration(20, 30, MIB, MigrationCause.FAULT, 1 << 21)]
    field = field_of(build(analyze(traced((), ops))))
    assert field.place_bytes == 4 * MIB
    assert field.by_size.place.tolist() == [2 * MIB, 0]


def test_transfer_plot_shows_every_copy_and_the_links_limit() -> None:
    data = report("pageable").activity
    assert data is not None
    figure = transfer_figure(data.transfers)
    assert figure is not None
    names = [trace["name"] for trace in figure["data"]]
    assert names == ["pageable, host to device", "pageable, device to host", "PCIe 5.0 x16, in practice: 55.6 GB/s"]
    assert [len(trace["x"]) for trace in figure["data"]] == [3, 3, 2]
    assert max(figure["data"][0]["y"]) < 10


def test_plot_without_a_known_link_has_no_limit() -> None:
    data = build(analyze(traced([Call("cudaMemcpy", 0, MS, 1)], [to_device(0, MS, MIB, correlation_id=1)], host={})))
    assert data.activity is not None
    figure = transfer_figure(data.activity.transfers)
    assert figure is not None
    assert [trace["meta"] for trace in figure["data"]] == ["pin"]


def test_gpu_time_is_told_with_and_without_overlap() -> None:
    apart = [kernel(0, MS), to_device(2 * MS, 3 * MS, MIB)]
    at_once = [kernel(0, MS), to_device(500 * US, 1_500 * US, MIB)]
    told = [
        device_sentence(data.activity.transfers.devices[0])
        for data in (build(analyze(traced((), ops))) for ops in (apart, at_once))
        if data.activity
    ]
    assert "never both at once" in told[0]
    assert "both at once 500 µs (50 % of the copying)" in told[1]


def test_tiles_tell_a_storm_from_a_prefetched_run() -> None:
    storm = report("uvm").activity
    calm = build(
        analyze(traced((), [migration(0, 40 * US, 2 * MIB, MigrationCause.PREFETCH), kernel(50 * US, 60 * US)]))
    ).activity
    assert storm is not None
    assert calm is not None
    assert [(tile.value, tile.warn) for tile in uvm_tiles(storm)][:2] == [("53 %", True), ("319", False)]
    assert not any(tile.warn for tile in uvm_tiles(calm))


def test_a_caller_without_a_symbol_is_named_by_its_file_once() -> None:
    call = SimpleNamespace(name="cuMemFree", sites=(SimpleNamespace(name="[libfoo.so] (libfoo.so)"),))
    assert call_line(cast("CallResult", call)) == "cuMemFree from [libfoo.so]"
    call.sites = (SimpleNamespace(name="step(int) (app)"),)
    assert call_line(cast("CallResult", call)) == "cuMemFree from step(int) (app)"


@pytest.mark.slow
def test_calls_that_all_failed_are_one_sentence() -> None:
    data = build(analyze(read(real("uvm.sqlite"), ReadOptions())))
    assert data.activity is not None
    found = data.activity
    calls = tuple(replace(call, failures=call.count) for call in found.whole.calls[:1])
    bare = replace(found, whole=replace(found.whole, calls=calls), context_init=())
    text = text_of(replace(data, sections={"calls": CallsSection(bare, merged=False)}), 100)
    assert f"Calls that always failed: {calls[0].name} ({calls[0].count})." in text
    assert "per GiB" not in text


@pytest.mark.slow
def test_managed_memory_without_the_rest_of_the_gpu_is_shown_and_the_rest_is_said_to_be_missing() -> None:
    data = build(analyze(told_by_the_driver()))
    note = "Managed memory was recorded, but GPU copies and kernels were not."
    page = render_page(data)
    assert note in page
    assert 'id="uvm"' in page
    console = Console(file=io.StringIO(), width=120)
    data.show(console)
    assert ManagedMemory.of(data) is not None
    told, traced = data.to_json()["activity"]["uvm"], report("uvm").to_json()["activity"]["uvm"]
    assert (" inside kernels" in told["summary"], " inside kernels" in traced["summary"]) == (False, True)
    assert (told["gpu_faults"], told["cpu_faults"]) == (0, traced["cpu_faults"])
    assert told["flips_per_block"] == traced["flips_per_block"]
