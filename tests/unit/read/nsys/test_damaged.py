"""Files that are no export, or no longer one: a sentence with what to do, never a traceback."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pinprof.base.errors import CaptureError, FormatError, PinprofError, ToolMissing
from pinprof.read import read
from pinprof.read.nsys.numbers import number
from tests.support.nsys_file import call, copy, real, write_export


def test_sqlite_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE TABLE moz_places (id INTEGER, url TEXT)")
    with pytest.raises(CaptureError, match="not an Nsight Systems export"):
        read(path)


@pytest.mark.parametrize("tables", [{}, {"META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.0.0"}]}])
def test_a_stub_with_a_table_or_two_is_recognised(tmp_path: Path, tables: dict[str, list[dict[str, str]]]) -> None:
    with pytest.raises(CaptureError, match="start of an incomplete export"):
        read(write_export(tmp_path / "a.sqlite", tables))


@pytest.mark.slow
def test_a_cut_export_says_where_it_ends(tmp_path: Path) -> None:
    whole = real("both.sqlite").read_bytes()
    for percent in range(1, 100):
        path = tmp_path / "cut.sqlite"
        path.write_bytes(whole[: len(whole) * percent // 100])
        with pytest.raises(FormatError, match=r"Export it again"):
            read(path)


@pytest.mark.slow
def test_bytes_changed_anywhere_raise_only_errors_of_pinprof(tmp_path: Path) -> None:
    whole = real("both.sqlite").read_bytes()
    chance = random.Random(1)
    path = tmp_path / "changed.sqlite"
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 20, 400))):
            content[chance.randrange(16, len(content))] = chance.randrange(256)
        path.write_bytes(content)
        with suppress(PinprofError):
            assert read(path).activity is not None


def test_a_file_still_being_written_is_left_alone(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", {"CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, 1, 1)]})
    (tmp_path / "a.sqlite-journal").write_bytes(b"x" * 512)
    with pytest.raises(CaptureError, match="half-written"):
        read(path)


@pytest.mark.parametrize("value", ["soon", b"\x00", None])
def test_cells_of_another_type_are_named(tmp_path: Path, value: object) -> None:
    row = copy(1, 2, 3) | {"start": value}
    path = write_export(tmp_path / "a.sqlite", {"CUPTI_ACTIVITY_KIND_MEMCPY": [row]})
    if value is None:
        assert read(path).losses.unknown_records == 1
        return
    with pytest.raises(CaptureError, match="not integers in CUPTI_ACTIVITY_KIND_MEMCPY"):
        read(path)


def test_names_with_quotes_and_views_are_harmless(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a'%23?.sqlite", {'x"; DROP TABLE StringIds; --': [{"start": 1}], "OSRT_API": [
        {"start": 1, "end": 2, "globalTid": 5, "nameId": 1}]}, strings={1: "poll"})  # fmt: skip
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_RUNTIME AS SELECT 1")
    activity = read(path).activity
    assert activity is not None
    assert (len(activity.os_calls), len(activity.calls)) == (1, 0)


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pinprof[nsys] is not installed")
    (tmp_path / "NVTX_EVENTS.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(CaptureError, match="damaged Parquet"):
        read(tmp_path)


def test_a_parquet_file_that_miscounts_its_rows_is_refused(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "a.parquetdir"
    folder.mkdir()
    rows = 61
    table = pyarrow.table({name: range(rows) for name in ("start", "end", "eventClass", "globalTid", "correlationId")})
    path = folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet"
    parquet.write_table(table.append_column("nameId", pyarrow.nulls(rows, pyarrow.int32())), path)
    whole = path.read_bytes()
    # In Thrift's compact protocol: a field of 64 bits behind the one before it, and 61 in zigzag.
    said = [match.start() for match in re.finditer(rb"\x16\x7a", whole)]
    assert len(said) > 7
    refused = 0
    for place in said:
        path.write_bytes(whole[: place + 1] + b"\x78" + whole[place + 2 :])
        with suppress(CaptureError):
            refused -= len(read(folder).manifest.collectors)
        refused += 1
    assert refused > 1


@pytest.mark.slow
def test_parquet_without_one_table_reads_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pinprof[nsys] is not installed")
    folder = tmp_path / "some"
    shutil.copytree(real("uvm.parquet"), folder)
    (folder / "CUPTI_ACTIVITY_KIND_MEMCPY.parquet").unlink()
    activity = read(folder).activity
    assert activity is not None
    assert (len(activity.gpu_ops), len(activity.calls)) == (3, 19)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "NVTX_EVENTS.parquet").touch()
    with pytest.raises(ToolMissing, match=r"pip install 'pinprof\[nsys\]'"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [("13000", 13000), ("-1", -1), ("", None), ("-", None), ("1e3", None), ("٣", None), ("9" * 5000, None)],
)
def test_numbers_in_texts_are_short(text: str, value: int | None) -> None:
    assert number(text) == value
