"""Whatever is asked in SQL, the answer is rows as text and JSON, or one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pinprof
from pinprof.base.errors import PinprofError, UsageError
from pinprof.fleet import database
from pinprof.fleet.access import Fleet
from pinprof.report.fleet import rows
from tests.support import fleet_store


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("made")
    fleet_store.write(folder)
    return pinprof.open_fleet(folder)


def asked(fleet: Fleet, sql: str, tmp_path: Path) -> list[dict[str, Any]]:
    """The rows as JSON; the text has as many lines, and a head."""
    for form in ("json", "text"):
        rows.write(database.query(fleet.connection, sql), form, tmp_path / form)
    found: list[dict[str, Any]] = json.loads((tmp_path / "json").read_text(), parse_constant=pytest.fail)
    lines = (tmp_path / "text").read_text().splitlines()
    assert len(lines) == 1 + len(found)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # DuckDB calls pandas so
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("now() IS NULL", False),
        ("TIMESTAMPTZ '2026-01-02 03:04:05+00'", "2026-01-02 03:04:05+00"),
        ("TIMETZ '10:00:00+01'", "10:00:00+01"),
        ("TIME '10:00:00'", "10:00:00"),
        ("DATE 'infinity'", "infinity"),
        ("TIMESTAMP '-infinity'", "-infinity"),
        ("DATE '290000-01-01'", "290000-01-01"),
        ("INTERVAL 10000000 YEARS", "10000000 years"),
        ("[TIMESTAMPTZ '2026-01-02 03:04:05+00']", "['2026-01-02 03:04:05+00']"),
        ("{'a': TIMESTAMPTZ '2026-01-02 03:04:05+00'}", "{'a': '2026-01-02 03:04:05+00'}"),
        ("MAP {'a': 1}", "{a=1}"),
        ("'x\\x00'::BLOB", "x\\x00"),
        ("'101'::BIT", "101"),
        ("1.5::DECIMAL(38, 10)", "1.5000000000"),
        ("1::HUGEINT << 100", 1 << 100),
        ("'nan'::DOUBLE", None),
        ("'-infinity'::FLOAT", None),
        ("'5b8f1e6c-0000-0000-0000-000000000001'::UUID", "5b8f1e6c-0000-0000-0000-000000000001"),
        ("union_value(a := 1)", "1"),
        ("'a'::ENUM('a', 'b')", "a"),
        ("NULL", None),
        ("chr(27) || '[31m'", "\x1b[31m"),
        ("true", True),
    ],
)
def test_values_of_every_type_are_shown(fleet: Fleet, tmp_path: Path, value: str, shown: Any) -> None:
    if "TIMESTAMPTZ" in value:
        fleet.connection.execute("SET TimeZone = 'UTC'")
    assert asked(fleet, f"SELECT {value} AS found", tmp_path) == [{"found": shown}]
    assert "\x1b" not in (tmp_path / "text").read_text()
    assert len(fleet.sql(f"SELECT {value} AS found")) == 1


def test_the_time_now_needs_no_further_package(fleet: Fleet, tmp_path: Path) -> None:
    assert asked(fleet, "SELECT now() AS now, [now()] AS list", tmp_path)[0]["now"].startswith("20")
    assert len(fleet.sql("SELECT {'a': now()} AS now")) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES", "DESCRIBE costs", "SUMMARIZE costs", "EXPLAIN SELECT 1", "PRAGMA version", "FROM range(3)",
        "VALUES (1, 2)", "CREATE OR REPLACE TABLE mine AS SELECT 1", "SET threads = 1", "SELECT 5; SELECT 6",
        "PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b)", "WITH t AS (SELECT 1) SELECT * FROM t ORDER BY 1",
        "SELECT * FROM captures WHERE false", "BEGIN; ROLLBACK; SELECT 1",
    ],
)  # fmt: skip
def test_every_kind_of_statement_has_an_answer(fleet: Fleet, tmp_path: Path, sql: str) -> None:
    asked(fleet, sql, tmp_path)


@pytest.mark.parametrize(
    "sql",
    [
        "", "-- nothing", "SELECT", "SELECT nothing", "SELECT * FROM nowhere", "SELECT ?", "SELECT $1", "\0", "\udcff",
        "SELECT x::INT FROM (VALUES ('1'), ('a')) t(x)", "SELECT 1 // 'a'", "SELECT error('said')",
        "SELECT x::TINYINT FROM range(127, 2000) t(x)", "SELECT * FROM '/none/such.parquet'", "LOAD nothing",
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_sentence(fleet: Fleet, tmp_path: Path, sql: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked(fleet, sql, tmp_path)
    assert caught.value.slug == "fleet-sql"
    with pytest.raises(PinprofError):
        fleet.sql(sql)
    assert asked(fleet, "SELECT 1 AS one", tmp_path) == [{"one": 1}]


def test_columns_of_one_name_are_told_apart(fleet: Fleet, tmp_path: Path) -> None:
    found = asked(fleet, "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a", tmp_path)
    assert found == [{"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}]


def test_rows_are_fetched_as_they_are_written(fleet: Fleet) -> None:
    taken = database.query(fleet.connection, "SELECT * FROM range(1000000000000)").rows
    assert [next(taken), next(taken)] == [(0,), (1,)]
