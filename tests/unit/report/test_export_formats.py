"""Exports for other tools: valid by their formats' own rules, events apart, nothing private in them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.analyze import Run, analyze
from pinprof.base.errors import CollectError, UsageError
from pinprof.data.model import USER, RangeTable
from pinprof.read import read
from pinprof.read.formats import chrome_trace
from pinprof.report.export import firefox as export_firefox
from pinprof.report.export import formats
from pinprof.report.export import tables as export_tables
from pinprof.report.export import trace as export_trace
from tests.support import h200
from tests.support.profiles import DSOS, HOSTILE, capture_of
from tests.unit.read.formats.test_chrome_trace import TORCH

SECRET = "hunter2-secret"


def firefox(analysis: Run) -> dict[str, Any]:
    stream = io.StringIO()
    export_firefox.write(analysis, stream)
    assert stream.getvalue().isascii()
    return dict(json.loads(stream.getvalue()))


def trace(analysis: Run) -> dict[str, Any]:
    stream = io.StringIO()
    export_trace.write(analysis, stream)
    assert stream.getvalue().isascii()
    return dict(json.loads(stream.getvalue()))


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def hostile_analysis() -> Run:
    return analyze(capture_of([(event, 10 + event, [(name, DSOS[0], USER)]) for name in HOSTILE for event in range(4)]))


@pytest.mark.slow
def test_every_format_is_written_to_where_it_is_asked_for(tmp_path: Path) -> None:
    for name, chosen in formats.EXPORTS.items():
        target = tmp_path / f"out{chosen.suffix}"
        formats.export(name, h200.analysis("pageable"), target)
        assert target.is_dir() == (chosen.target == "directory")
        if target.name.endswith(".gz"):
            assert gzip.decompress(target.read_bytes())


@pytest.mark.slow
def test_the_same_recording_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, chosen in formats.EXPORTS.items():
        if chosen.target == "directory":
            continue
        paths = [tmp_path / f"{number}{chosen.suffix}" for number in (1, 2)]
        for path in paths:
            formats.export(name, h200.analysis("pageable"), path)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_unknown_formats_and_places_are_named(tmp_path: Path) -> None:
    analysis = analyze(capture_of([]))
    with pytest.raises(UsageError, match="There is no export 'svg'"):
        formats.export("svg", analysis, tmp_path / "x")
    with pytest.raises(UsageError, match="directory of tables"):
        formats.export("csv", analysis, None)
    (tmp_path / "file").touch()
    with pytest.raises(CollectError, match="cannot be written"):
        formats.export("speedscope", analysis, tmp_path / "file" / "x.json")


@pytest.mark.parametrize("timed", [True, False])
def test_hostile_and_empty_captures_are_written_in_every_format(tmp_path: Path, timed: bool) -> None:
    hostile = analyze(capture_of([(0, 5, [(name, DSOS[1], USER)]) for name in HOSTILE], timed=timed))
    for analysis in (hostile, analyze(capture_of([], timed=timed))):
        for name, chosen in formats.EXPORTS.items():
            if name == "trace" and not timed:
                with pytest.raises(UsageError, match="needs times"):
                    formats.export(name, analysis, tmp_path / "no.json")
                assert not [*tmp_path.glob("no.json*")]
                continue
            formats.export(name, analysis, tmp_path / f"{name}{chosen.suffix}")


def test_no_environment_directory_or_capture_path_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINPROF_TEST_TOKEN", SECRET)
    capture = capture_of([(0, 5, [("main", DSOS[0], USER)])])
    analysis = analyze(replace(capture, path=f"/home/{SECRET}/run.pinprof"))
    for name, chosen in formats.EXPORTS.items():
        if name == "parquet":
            continue
        target = tmp_path / f"{name}{chosen.suffix}"
        formats.export(name, analysis, target)
        for file in target.iterdir() if target.is_dir() else [target]:
            data = file.read_bytes()
            data = gzip.decompress(data) if file.suffix == ".gz" else data
            assert SECRET.encode() not in data
            assert b"/home" not in data


class TestFirefox:
    """Against the processed profile format, version 48."""

    @pytest.mark.slow
    def test_tables_are_of_their_length_and_refer_inside_each_other(self) -> None:
        for analysis in (h200.analysis("uvm"), hostile_analysis()):
            profile = firefox(analysis)
            assert profile["meta"]["preprocessedProfileVersion"] == 48
            subcategories = [len(category["subcategories"]) for category in profile["meta"]["categories"]]
            assert "grey" in [category["color"] for category in profile["meta"]["categories"]]
            for thread in profile["threads"]:
                tables = (
                    "samples",
                    "markers",
                    "stackTable",
                    "frameTable",
                    "funcTable",
                    "resourceTable",
                    "nativeSymbols",
                )
                for name in tables:
                    table = thread[name]
                    assert {len(column) for column in table.values() if isinstance(column, list)} == {table["length"]}
                stacks, texts = thread["stackTable"], len(thread["stringArray"])
                assert all(stack is None or stack < stacks["length"] for stack in thread["samples"]["stack"])
                assert all(prefix is None or prefix < row for row, prefix in enumerate(stacks["prefix"]))
                assert all(frame < thread["frameTable"]["length"] for frame in stacks["frame"])
                for category, subcategory in zip(stacks["category"], stacks["subcategory"], strict=True):
                    assert subcategory < subcategories[category]
                assert all(func < thread["funcTable"]["length"] for func in thread["frameTable"]["func"])
                assert all(row < thread["resourceTable"]["length"] for row in thread["funcTable"]["resource"])
                assert all(lib < len(profile["libs"]) for lib in thread["resourceTable"]["lib"])
                assert all(name < texts for name in thread["funcTable"]["name"] + thread["markers"]["name"])
                assert isinstance(thread["pid"], str)
                assert thread["samples"]["time"] == sorted(thread["samples"]["time"])

    def test_weights_stay_with_their_event_and_cause(self) -> None:
        analysis = h200.analysis("uvm")
        profile = firefox(analysis)
        categories = profile["meta"]["categories"]
        found: dict[str, Counter[str]] = {"tracing-ms": Counter(), "samples": Counter()}
        for thread in profile["threads"]:
            samples, stacks = thread["samples"], thread["stackTable"]
            for stack, weight in zip(samples["stack"], samples["weight"], strict=True):
                leaf = categories[stacks["category"][stack]]["subcategories"][stacks["subcategory"][stack]]
                found[samples["weightType"]][leaf] += (
                    round(weight * 1e6) if samples["weightType"] != "samples" else weight
                )
        assert found["tracing-ms"] == Counter(analysis.events[0].by_leaf)
        assert found["samples"] == Counter(analysis.events[1].by_leaf)

    def test_ranges_are_interval_markers(self) -> None:
        analysis = h200.analysis("uvm")
        markers = [thread["markers"] for thread in firefox(analysis)["threads"]]
        assert sum(table["length"] for table in markers) == len(analysis.capture.ranges)
        assert {phase for table in markers for phase in table["phase"]} == {1}


class TestTrace:
    """Against the Trace Event Format."""

    def test_every_event_has_the_fields_of_its_phase(self) -> None:
        for analysis in (h200.analysis("uvm"), hostile_analysis()):
            events = trace(analysis)["traceEvents"]
            assert {event["ph"] for event in events} <= set("MXCbesf")
            for event in events:
                assert isinstance(event["name"], str)
                assert isinstance(event["pid"], int)
                assert isinstance(event["tid"], int)
                if event["ph"] != "M":
                    assert event["ts"] >= 0
                if event["ph"] == "X":
                    assert event["dur"] >= 0
                if event["ph"] == "C":
                    assert event["args"]
                    assert all(isinstance(value, int) for value in event["args"].values())

    def test_slices_of_a_track_nest(self) -> None:
        tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for event in trace(h200.analysis("both"))["traceEvents"]:
            if event["ph"] == "X":
                end = round(event["ts"] * 1000) + round(event["dur"] * 1000)
                tracks.setdefault((event["pid"], event["tid"]), []).append((round(event["ts"] * 1000), end))
        for slices in tracks.values():
            enclosing: list[float] = []
            for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
                while enclosing and enclosing[-1] <= start:
                    enclosing.pop()
                assert not enclosing or end <= enclosing[-1]
                enclosing.append(end)

    def test_cause_slices_carry_the_whole_weight(self) -> None:
        analysis = h200.analysis("uvm")
        found: Counter[str] = Counter()
        faults = 0
        for event in trace(analysis)["traceEvents"]:
            if event.get("cat") == "cause":
                found[event["name"]] += event["args"]["weight_ns"]
            elif event["ph"] == "C":
                faults += sum(event["args"].values())
        assert found == Counter(analysis.events[0].by_leaf)
        assert faults == analysis.events[1].total

    def test_ranges_come_back_to_the_nanosecond(self, tmp_path: Path) -> None:
        analysis = h200.analysis("uvm")
        path = tmp_path / "uvm.trace.json.gz"
        formats.export("trace", analysis, path)
        again, wanted = read(path).ranges, analysis.capture.ranges
        assert sorted(zip(again.name, again.start_ns.tolist(), again.end_ns.tolist(), strict=True)) == sorted(
            zip(wanted.name, wanted.start_ns.tolist(), wanted.end_ns.tolist(), strict=True)
        )

    def test_overlapping_ranges_become_asynchronous(self) -> None:
        none = np.array([77, 77], np.int32)
        start, end = np.array([10**9, 10**9 + 50]), np.array([10**9 + 100, 10**9 + 200])
        ranges = RangeTable(("first", "second"), ("", ""), start, end, none, none, np.zeros(2, np.int32))
        capture = replace(capture_of([(0, 5, [("main", DSOS[0], USER)])]), ranges=ranges)
        events = trace(analyze(capture))["traceEvents"]
        assert [event["ph"] for event in events if event.get("cat") == "nvtx"] == ["X", "b", "e"]

    def test_calls_and_gpu_work_come_back_the_same(self, tmp_path: Path) -> None:
        source, target = tmp_path / "torch.json", tmp_path / "again.json"
        source.write_text(json.dumps(TORCH))
        capture = chrome_trace.read(source)
        formats.export("trace", analyze(capture), target)
        again = chrome_trace.read(target)
        assert capture.activity is not None
        assert again.activity is not None
        for name in ("start_ns", "end_ns", "pid", "tid", "correlation_id", "api"):
            assert getattr(again.activity.calls, name).tolist() == getattr(capture.activity.calls, name).tolist()
        for name in ("start_ns", "end_ns", "kind", "device", "stream", "correlation_id", "size_bytes", "copy_kind",
                     "src_kind", "dst_kind", "sync", "pid"):  # fmt: skip
            assert getattr(again.activity.gpu_ops, name).tolist() == getattr(capture.activity.gpu_ops, name).tolist()


class TestTables:
    def test_csv_holds_every_sample_range_and_leaf(self, tmp_path: Path) -> None:
        analysis = h200.analysis("uvm")
        export_tables.write_csv(analysis, tmp_path)
        samples = csv_rows(tmp_path / "samples.csv")
        assert len(samples) == len(analysis.capture.samples)
        for event in analysis.events:
            leaves: Counter[str] = Counter()
            for row in samples:
                if row["event"] == event.event.name:
                    leaves[row["leaf"]] += int(row["weight"])
            assert leaves == Counter(event.by_leaf)
        found = csv_rows(tmp_path / "leaves.csv")
        assert sum(int(row["weight"]) for row in found if not row["range"]) == sum(e.total for e in analysis.events)
        assert len(csv_rows(tmp_path / "ranges.csv")) == len(analysis.capture.ranges)

    def test_texts_that_begin_a_formula_are_defused(self, tmp_path: Path) -> None:
        names = ["=1+1", "+x", "-x", "@x", "\tx", " =1+1", "\ufeff=1", "＝1", "\u200b＠x", "\xa0-1", "plain", "a=1"]
        analysis = analyze(capture_of([(0, 5, [(name, DSOS[0], USER)]) for name in names]))
        export_tables.write_csv(analysis, tmp_path)
        shown = {row["function"] for row in csv_rows(tmp_path / "samples.csv")}
        assert shown == {*(f"'{name}" for name in names[:-2]), "plain", "a=1"}

    def test_calls_and_gpu_work_are_tables_too(self, tmp_path: Path) -> None:
        source = tmp_path / "torch.json"
        source.write_text(json.dumps(TORCH))
        export_tables.write_csv(analyze(chrome_trace.read(source)), tmp_path)
        copy, kernel, memset, wait = csv_rows(tmp_path / "gpu_ops.csv")
        assert (copy["kind"], copy["copy_kind"], copy["src_kind"], copy["size_bytes"]) == (
            "copy", "host_to_device", "pageable", str(1 << 20),
        )  # fmt: skip
        assert [row["kind"] for row in (kernel, memset, wait)] == ["kernel", "memset", "sync"]
        assert [row["name"] for row in csv_rows(tmp_path / "calls.csv")] == ["cudaMemcpyAsync", "cudaLaunchKernel"]

    @pytest.mark.slow
    @pytest.mark.parametrize("recording", ["perf", "torch"])
    def test_parquet_has_the_same_columns_and_values(self, tmp_path: Path, recording: str) -> None:
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        source = tmp_path / "torch.json"
        source.write_text(json.dumps(TORCH))
        analysis = h200.analysis("uvm") if recording == "perf" else analyze(chrome_trace.read(source))
        export_tables.write_parquet(analysis, tmp_path)
        for name, table in export_tables.tables(analysis).items():
            found = parquet.read_table(tmp_path / f"{name}.parquet").to_pydict()
            assert {column: list(values) for column, values in found.items()} == {
                column: list(values) for column, values in table.items()
            }
