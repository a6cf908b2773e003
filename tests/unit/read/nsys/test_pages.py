"""Large tables are read from their pages: the same numbers as SQLite reads, or the same error."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.base.errors import PinprofError
from pinprof.read import read
from pinprof.read.nsys import source
from pinprof.read.nsys.pages import PageLayout, TablePages, Unusual
from pinprof.read.nsys.schema import Column, GlobalIdPart
from pinprof.report.gather import build
from pinprof.report.page.html import render
from tests.support.nsys_file import real

EXPORTS = ("both.sqlite", "pageable.sqlite", "pinned.sqlite", "uvm.sqlite", "nvtx-2022.4.sqlite")
COLUMNS = ("a", "b", "c", "d")
WANTED = [
    (Column("wide", ("a",), 64), "a"),
    (Column("pid", ("a",), 32, GlobalIdPart.PID), "a"),
    (Column("tid", ("a",), 32, GlobalIdPart.TID), "a"),
    (Column("size", ("b",), 48), "b"),
    (Column("id", ("b",), 32), "b"),
    (Column("device", ("c",), 16), "c"),
    (Column("kind", ("c",), 8), "c"),
]

widths = st.sampled_from([0, 1, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 63])
numbers = st.builds(
    lambda bits, less, sign: sign * (2**bits - less), widths, st.integers(1, 2), st.sampled_from([1, -1])
)
plain = st.one_of(st.sampled_from([0, 1, 2]), numbers, st.none())
odd = st.one_of(plain, st.just(1.5), st.just(3.0), st.text(max_size=3), st.binary(max_size=3), st.just("x" * 70))


@contextmanager
def from_pages(least_bytes: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "LEAST_BYTES", least_bytes)
        yield


def outcome(path: Path, least_bytes: int) -> Any:
    """What reading gives: columns, or the error's words."""
    with from_pages(least_bytes):
        try:
            with source.open_source(path) as opened:
                read = opened.numbers("t", WANTED)
                return {name: (str(values.dtype), values.tolist()) for name, values in read.items()}
        except (PinprofError, KeyError) as error:
            return str(error)


def both_ways(path: Path) -> tuple[Any, Any]:
    return outcome(path, 0), outcome(path, 1 << 62)


def directly(path: Path) -> int:
    """Rows that are decoded from the table's pages; Unusual where SQLite has to read it."""
    with closing(sqlite3.connect(path)) as base:
        ((root, columns),) = base.execute(
            "SELECT rootpage, (SELECT count(*) FROM pragma_table_xinfo('t')) FROM sqlite_master WHERE name = 't'"
        )
    return sum(rows for _, rows, _ in TablePages(path, PageLayout.of(path), root, columns).read({0, 1, 2}))


def table(path: Path, rows: list[tuple[Any, ...]], definition: str = "", *then: str, page: int = 4096) -> Path:
    """A file with a table `t` and another one, whose pages lie between those of `t`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        for statement in (
            f"PRAGMA page_size = {page}",
            "PRAGMA journal_mode = OFF",
            f"CREATE TABLE t ({definition or 'a INTEGER, b INTEGER, c INTEGER, d'})",
            "CREATE TABLE other (x)",
        ):
            base.execute(statement)
        places = ", ".join("?" * len(rows[0])) if rows else ""
        base.execute("BEGIN")
        for number, row in enumerate(rows):
            base.execute(f"INSERT INTO t VALUES ({places})", row)
            if number % 50 == 0:
                base.execute("INSERT INTO other VALUES (zeroblob(?))", (page // 2,))
        base.execute("COMMIT")
        for statement in then:
            base.execute(statement)
    return path


def many(rows: int, seed: int = 1) -> list[tuple[Any, ...]]:
    """Rows of all widths, with NULLs, and with text in the column that nobody reads."""
    chance = random.Random(seed)

    def number() -> int | None:
        value = chance.getrandbits(chance.choice((1, 7, 8, 16, 24, 32, 48, 63)))
        return chance.choice((value, -value, value, None))

    return [
        (number(), number(), number(), chance.choice((None, 1, "text", b"\0" * chance.randrange(40))))
        for _ in range(rows)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_the_committed_exports_read_alike(name: str) -> None:
    outputs = []
    for least_bytes in (0, 1 << 62):
        with from_pages(least_bytes):
            report = build(analyze(read(real(name))))
        outputs.append((report.to_json(), render(report)))
    assert outputs[0] == outputs[1]


@pytest.mark.slow
def test_the_tables_of_the_committed_exports_are_read_from_their_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    by_sql = source.SqliteSource._selected

    def selected(self: source.SqliteSource, name: str, columns: Any) -> Any:
        left.append(name)
        return by_sql(self, name, columns)

    monkeypatch.setattr(source.SqliteSource, "_selected", selected)
    for name in EXPORTS:
        with from_pages(0):
            read(real(name))
    # These have a row id of their own, or text.
    assert set(left) <= {"COMPOSITE_EVENTS", "TARGET_INFO_GPU", "NVTX_EVENTS", "DIAGNOSTIC_EVENT"}


@given(rows=st.lists(st.tuples(plain, plain, plain, odd), max_size=40), times=st.sampled_from([1, 40]))
def test_any_integers_are_those_that_sqlite_reads(rows: list[tuple[Any, ...]], times: int) -> None:
    with TemporaryDirectory() as folder:
        path = table(Path(folder) / "t.sqlite", rows * times)
        here, there = both_ways(path)
        assert here == there
        if all(row[3] != "x" * 70 for row in rows):
            assert directly(path) == len(rows) * times


@given(rows=st.lists(st.tuples(odd, odd, odd, odd), min_size=1, max_size=12))
def test_whatever_stands_in_a_column_reads_as_sqlite_reads_it(rows: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        here, there = both_ways(table(Path(folder) / "t.sqlite", rows))
        assert here == there


@pytest.mark.parametrize("page", [512, 1024, 4096, 32768, 65536])
@pytest.mark.parametrize("vacuum", ["NONE", "FULL", "INCREMENTAL"])
def test_every_page_size_deleted_rows_and_an_index_make_no_difference(tmp_path: Path, page: int, vacuum: str) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"PRAGMA auto_vacuum = {vacuum}")
    table(
        path,
        many(3000),
        "a INTEGER, b INT, c BIGINT, d TEXT",
        "CREATE INDEX i ON t (b)",
        "DELETE FROM t WHERE rowid % 7 = 3 OR rowid BETWEEN 900 AND 1900",
        "INSERT INTO t SELECT a, b, c, d FROM t WHERE rowid < 200",
        "INSERT INTO t (rowid, a, b, c) VALUES (-9223372036854775808, 1, 2, 3), (9223372036854775807, 4, 5, 6)",
        "UPDATE t SET a = 5 WHERE rowid % 11 = 0",
        page=page,
    )
    here, there = both_ways(path)
    assert here == there
    assert directly(path) == len(here["wide"][1]) > 1500


@pytest.mark.parametrize(
    ("definition", "then"),
    [
        ("a INTEGER PRIMARY KEY, b INTEGER, c INTEGER, d", ()),
        ("a INTEGER PRIMARY KEY DESC, b INTEGER, c INTEGER, d", ()),
        ("a INTEGER, b INTEGER, c INTEGER, d, PRIMARY KEY (a, b)) WITHOUT ROWID -- ", ()),
        ("a REAL, b TEXT, c NUMERIC, d", ()),
        ("a INTEGER, b INTEGER, c INTEGER, d, e AS (a + 1), f AS (b) STORED", ()),
        ("a INTEGER, b INTEGER, c INTEGER, d", ("ALTER TABLE t ADD COLUMN e INTEGER DEFAULT 7",)),
        ("a INTEGER, d, c INTEGER, b INTEGER", ("ALTER TABLE t DROP COLUMN d", "ALTER TABLE t ADD COLUMN d")),
        ("a INTEGER, b INTEGER, c INTEGER, d", ("UPDATE t SET d = zeroblob(100000) WHERE a = 5",)),
        ("a INTEGER, b INTEGER, c INTEGER, d", ("PRAGMA journal_mode = WAL",)),
    ],
)
def test_tables_out_of_the_ordinary_are_left_to_sqlite(tmp_path: Path, definition: str, then: tuple[str, ...]) -> None:
    rows = [(number, number * 3, number % 5, None) for number in range(500)]
    path = table(
        tmp_path / "t.sqlite", rows, definition.removesuffix("; --").replace(") WITHOUT", ") /**/ WITHOUT"), *then
    )
    here, there = both_ways(path)
    assert here == there
    assert len(here["wide"][1]) == 500


@pytest.mark.slow
def test_a_damaged_file_gives_what_sqlite_gives(tmp_path: Path) -> None:
    whole = table(tmp_path / "t.sqlite", many(1200), "a, b, c, d", page=1024).read_bytes()
    chance = random.Random(2)
    path, decoded = tmp_path / "damaged.sqlite", 0
    for number in range(400):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 3, 40))):
            page = chance.randrange(len(whole) // 1024)
            # In the heads of pages, in the places of cells, in records.
            at = page * 1024 + min(chance.choice((0, 3, 8, 30, 900)) + chance.randrange(120), 1023)
            content[max(at, 100)] = chance.choice((0, 1, 5, 9, 13, 127, 128, 255, chance.randrange(256)))
        path.write_bytes(content[: len(content) - 1024 * (number % 10 == 0)])
        here, there = both_ways(path)
        assert here == there, number
        decoded += not isinstance(here, str)
    assert decoded > 100


@pytest.mark.parametrize("at", range(100))
def test_any_byte_of_the_header_may_be_wrong(tmp_path: Path, at: int) -> None:
    content = bytearray(table(tmp_path / "t.sqlite", many(100)).read_bytes())
    content[at] ^= 0x15
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(content)
    here, there = both_ways(path)
    assert here == there


@pytest.mark.slow
def test_a_page_that_is_its_own_child_is_no_endless_way_down(tmp_path: Path) -> None:
    path = table(tmp_path / "t.sqlite", many(3000))
    content = bytearray(path.read_bytes())
    inner = next(at for at in range(4096, len(content), 4096) if content[at] == 5)
    content[inner + 8 : inner + 12] = (inner // 4096 + 1).to_bytes(4, "big")
    path.write_bytes(content)
    with pytest.raises(Unusual):
        directly(path)
    here, there = both_ways(path)
    assert here == there


def test_a_column_with_one_value_takes_no_memory(tmp_path: Path) -> None:
    path = table(tmp_path / "t.sqlite", [(7 << 24 | 5, number, None, None) for number in range(2000)])
    with from_pages(0), source.open_source(path) as opened:
        read_columns = opened.numbers("t", WANTED)
    assert {name for name, values in read_columns.items() if values.strides == (0,)} == {
        "wide", "pid", "tid", "device", "kind",
    }  # fmt: skip
    assert np.array_equal(read_columns["id"], np.arange(2000))
