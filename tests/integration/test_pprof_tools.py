"""pprof exports in the real parsers: Go's pprof, and Google's protobuf runtime with the public message definition."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyze import Run, analyze
from pinprof.data.model import USER
from pinprof.report.export import formats
from pinprof.report.export.pprof import write
from tests.support import h200
from tests.support.profiles import DSOS, HOSTILE, capture_of

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install protobuf")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INT64, UINT64, BOOL, STRING, MESSAGE = 3, 4, 8, 9, 11
ONE, MANY = 1, 3

# github.com/google/pprof, proto/profile.proto: name, number, type, label, message.
PROFILE_PROTO: dict[str, list[tuple[str, int, int, int, str]]] = {
    "Profile": [
        ("sample_type", 1, MESSAGE, MANY, "ValueType"), ("sample", 2, MESSAGE, MANY, "Sample"),
        ("mapping", 3, MESSAGE, MANY, "Mapping"), ("location", 4, MESSAGE, MANY, "Location"),
        ("function", 5, MESSAGE, MANY, "Function"), ("string_table", 6, STRING, MANY, ""),
        ("drop_frames", 7, INT64, ONE, ""), ("keep_frames", 8, INT64, ONE, ""), ("time_nanos", 9, INT64, ONE, ""),
        ("duration_nanos", 10, INT64, ONE, ""), ("period_type", 11, MESSAGE, ONE, "ValueType"),
        ("period", 12, INT64, ONE, ""), ("comment", 13, INT64, MANY, ""), ("default_sample_type", 14, INT64, ONE, ""),
    ],
    "ValueType": [("type", 1, INT64, ONE, ""), ("unit", 2, INT64, ONE, "")],
    "Sample": [
        ("location_id", 1, UINT64, MANY, ""), ("value", 2, INT64, MANY, ""), ("label", 3, MESSAGE, MANY, "Label"),
    ],
    "Label": [("key", 1, INT64, ONE, ""), ("str", 2, INT64, ONE, ""), ("num", 3, INT64, ONE, ""),
              ("num_unit", 4, INT64, ONE, "")],
    "Mapping": [
        ("id", 1, UINT64, ONE, ""), ("memory_start", 2, UINT64, ONE, ""), ("memory_limit", 3, UINT64, ONE, ""),
        ("file_offset", 4, UINT64, ONE, ""), ("filename", 5, INT64, ONE, ""), ("build_id", 6, INT64, ONE, ""),
        ("has_functions", 7, BOOL, ONE, ""),
    ],
    "Location": [("id", 1, UINT64, ONE, ""), ("mapping_id", 2, UINT64, ONE, ""), ("address", 3, UINT64, ONE, ""),
                 ("line", 4, MESSAGE, MANY, "Line")],
    "Line": [("function_id", 1, UINT64, ONE, ""), ("line", 2, INT64, ONE, "")],
    "Function": [("id", 1, UINT64, ONE, ""), ("name", 2, INT64, ONE, ""), ("system_name", 3, INT64, ONE, ""),
                 ("filename", 4, INT64, ONE, "")],
}  # fmt: skip


def parsed(data: bytes) -> Any:
    """The profile as the protobuf runtime reads it; an unknown field or invalid UTF-8 is an error."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for name, rows in PROFILE_PROTO.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, type_name in rows:
            described = message.field.add(name=field, number=number, type=kind, label=label)
            if type_name:
                described.type_name = f".perftools.profiles.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))()
    profile.ParseFromString(data)
    unknown = profile.SerializeToString(deterministic=True)
    profile.DiscardUnknownFields()
    assert profile.SerializeToString(deterministic=True) == unknown
    return profile


def exported(analysis: Run) -> bytes:
    stream = io.BytesIO()
    write(analysis, stream)
    return stream.getvalue()


def go_pprof(*arguments: str, profile: Path) -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed: apt-get install golang-go")
    result = subprocess.run(
        [go, "tool", "pprof", *arguments, str(profile)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"HOME": str(profile.parent), "PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_protobuf_runtime_reads_aligned_values_labels_and_names() -> None:
    analysis = h200.analysis("uvm")
    profile = parsed(exported(analysis))
    text = profile.string_table
    assert text[0] == ""
    assert [(text[kind.type], text[kind.unit]) for kind in profile.sample_type] == [
        ("cpu-clock/freq=1999/", "nanoseconds"),
        ("page-faults/period=64/", "count"),
    ]
    assert {len(sample.value) for sample in profile.sample} == {2}
    for number, event in enumerate(analysis.events):
        assert sum(sample.value[number] for sample in profile.sample) == event.total
    causes: Counter[str] = Counter()
    for sample in profile.sample:
        causes.update({text[label.str]: sample.value[0] for label in sample.label if text[label.key] == "cause"})
    assert +causes == Counter(analysis.events[0].by_leaf)
    locations = {location.id: location for location in profile.location}
    assert {line.function_id for location in locations.values() for line in location.line} <= {
        function.id for function in profile.function
    }
    assert {number for sample in profile.sample for number in sample.location_id} <= set(locations)
    assert not any("/" in text[mapping.filename] for mapping in profile.mapping)


def test_hostile_names_are_valid_utf8_for_the_protobuf_runtime() -> None:
    functions = [(name, DSOS[0], USER) for name in HOSTILE]
    profile = parsed(exported(analyze(capture_of([(0, 1, functions)]))))
    assert {name.encode("utf-8", "backslashreplace").decode() for name in HOSTILE} <= set(profile.string_table)


def test_go_pprof_sums_the_same_totals_and_causes(tmp_path: Path) -> None:
    analysis = h200.analysis("uvm")
    path = tmp_path / "uvm.pb.gz"
    formats.export("pprof", analysis, path)
    for event in analysis.events:
        raw = go_pprof("-raw", f"-sample_index={event.event.name}", profile=path)
        rows = re.findall(r"^ +(\d+) +(\d+): ", raw, re.MULTILINE)
        assert sum(int(row[analysis.events.index(event)]) for row in rows) == event.total
    tags = go_pprof("-tags", "-unit=ns", profile=path)
    heaviest, weight = next(iter(analysis.events[0].by_leaf.items()))
    assert re.search(rf"{weight}(\.0)?ns \(.*\): {re.escape(heaviest)}$", tags, re.MULTILINE), tags


def test_go_pprof_opens_hostile_names(tmp_path: Path) -> None:
    path = tmp_path / "hostile.pb"
    formats.export("pprof", analyze(capture_of([(0, 5, [(name, DSOS[0], USER) for name in HOSTILE])])), path)
    assert "Showing nodes accounting for 5ns, 100% of 5ns total" in go_pprof("-top", profile=path)
