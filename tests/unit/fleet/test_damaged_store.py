"""A store whose files are damaged, missing, of another type or of other columns ends in an answer or in one error."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import pinprof
from pinprof.base.errors import CaptureError, CollectError
from pinprof.fleet import engine, session, tables
from pinprof.fleet.mapping import MappedCapture
from pinprof.fleet.results import Answer
from pinprof.fleet.sources import Source
from pinprof.report.fleet.sections import FORMS
from pinprof.report.page import html
from tests.support import fleet_store

pytestmark = pytest.mark.slow

FILES = (*(f"batch/{name}.parquet" for name in tables.COLUMNS), "failed.parquet", "places.parquet", "stamps.parquet")
EXTREMES = (0, 1, -1, 2**63 - 1, -(2**63))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    fleet_store.write(folder)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy to damage; its only batch is called `batch-0`."""
    shutil.copytree(made, tmp_path / "store")
    (batch,) = (tmp_path / "store" / tables.KEY).glob("batch-*")
    batch.rename(batch.with_name("batch-0"))
    return tmp_path / "store"


def file_of(store: Path, name: str) -> Path:
    return store / tables.KEY / name.replace("batch/", "batch-0/")


def shown(answer: Answer) -> None:
    """Every form of an answer."""
    FORMS.of(answer).write("json", io.StringIO())
    assert "<html" in html.render(FORMS.of(answer))
    FORMS.of(answer).write("text", io.StringIO())


def without_column(table: pa.Table) -> pa.Table:
    return table.remove_column(table.num_columns - 1)


def of_other_types(table: pa.Table) -> pa.Table:
    return pa.table({name: pa.array([1.5] * len(table), pa.float32()) for name in table.column_names})


def bytes_of(table: pa.Table) -> bytes:
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def rewrite(file: Path) -> None:
        table = change(parquet.read_table(file))
        file.write_bytes(bytes_of(table))

    return rewrite


def to_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def to_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGE: Mapping[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_text("PAR1 it is not"),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "a folder": to_folder,
    "a pipe": to_pipe,
    "a column less": rewritten(without_column),
    "other types": rewritten(of_other_types),
    "no columns": rewritten(lambda table: table.select([])),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_an_error_that_says_so(store: Path, name: str, damage: str) -> None:
    DAMAGE[damage](file_of(store, name))
    if name == "stamps.parquet" or (name == "failed.parquet" and damage == "missing"):
        shown(pinprof.open_fleet(store).answer)
    else:
        with pytest.raises(CaptureError, match="fleet") as raised:
            shown(pinprof.open_fleet(store).answer)
        assert raised.value.slug in ("fleet-store", "fleet-none")


@pytest.mark.parametrize("name", FILES)
def test_pages_of_a_file_that_are_damaged_are_an_error_at_most(store: Path, name: str) -> None:
    file = file_of(store, name)
    file.write_bytes(b"PAR1" + bytes(60) + file.read_bytes()[64:])
    with suppress(CaptureError):
        shown(pinprof.open_fleet(store).answer)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_another_run_mends_the_store(
    store: Path, name: str, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = {}
    for one in fleet_store.mapped():
        path = tmp_path / "captures" / f"{one.capture}.perf.data"
        path.parent.mkdir(exist_ok=True)
        path.write_text(one.capture)
        captures[str(path)] = one

    def again(sources: Sequence[Source], *_: object) -> Iterator[MappedCapture]:
        for source in sources:
            one = captures[source.path]
            yield MappedCapture(source.path, source.stamp, one.capture, one.parts, one.again)

    monkeypatch.setattr(engine, "mapped", again)
    DAMAGE[damage](file_of(store, name))
    given = [str(tmp_path / "captures")]
    if damage == "a folder" and "/" not in name:
        with pytest.raises(CollectError, match=r"The store .* cannot be written"):
            session.gather(given, store, "", 0, "", lambda _: None)
        return
    session.gather(given, store, "", 0, "", lambda _: None)
    answer = pinprof.open_fleet(store).answer
    assert (answer.captures, len(answer.unreadable)) == (25, 1)
    shown(answer)


@pytest.mark.parametrize("value", [None, *EXTREMES])
@pytest.mark.parametrize("table", tables.COLUMNS)
def test_numbers_of_any_size_and_none_have_an_answer(store: Path, table: str, value: int | None) -> None:
    file = file_of(store, f"batch/{table}.parquet")
    whole = parquet.read_table(file)

    def odd(field: pa.Field) -> Any:
        if value is None:
            return None
        kinds = {"string": f"\x1b[31m{value}<script>", "double": float(value), "bool": bool(value)}
        return kinds.get(str(field.type), value)

    for count in (1, len(whole)):
        changed = whole
        for at, field in enumerate(whole.schema):
            if field.name not in ("capture", "measure", "state", "outcome"):
                cells = [odd(field)] * count + whole.column(at).to_pylist()[count:]
                changed = changed.set_column(at, field, pa.array(cells, field.type))
        file.write_bytes(bytes_of(changed))
        shown(pinprof.open_fleet(store).answer)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1.0, 1e-320, 1e308])
def test_amounts_of_work_that_nothing_counts_to_are_none(store: Path, value: float) -> None:
    file = file_of(store, "batch/work.parquet")
    whole = parquet.read_table(file)
    file.write_bytes(bytes_of(whole.set_column(2, "count", pa.array([value] * len(whole)))))
    answer = pinprof.open_fleet(store).answer
    shown(answer)
    assert {unit for _, _, unit in answer.programs} == {"run"}


def test_a_capture_that_is_listed_twice_counts_once(store: Path) -> None:
    file = file_of(store, "places.parquet")
    whole = parquet.read_table(file)
    file.write_bytes(bytes_of(pa.concat_tables([whole, whole])))
    shutil.copytree(file.parent / "batch-0", file.parent / "batch-1")
    answer = pinprof.open_fleet(store).answer
    shown(answer)
    assert answer.captures == 25
