"""Columns that lie in files hold what columns in memory hold, and can be unloaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinprof.base import columns
from pinprof.base.columns import rows_of
from pinprof.data.activity import OpKind
from pinprof.data.model import Capture
from pinprof.read import read
from pinprof.read.nsys import source
from tests.bench.make_nsys_sqlite import write

ROWS = 3000


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "export.sqlite"
    write(path, ROWS, ROWS, 2 * ROWS)
    return path


def in_files(path: Path, monkeypatch: pytest.MonkeyPatch, least_rows: int) -> Capture:
    monkeypatch.setattr(columns, "LONG_ROWS", least_rows)
    monkeypatch.setattr(columns, "ROWS_AT_ONCE", 700)
    monkeypatch.setattr(source, "LEAST_BYTES", 0)
    return read(path)


@pytest.mark.slow
@pytest.mark.parametrize("least_rows", [1, 2 * ROWS, 4 * ROWS])
def test_files_hold_the_same(export: Path, monkeypatch: pytest.MonkeyPatch, least_rows: int) -> None:
    plain = read(export).activity
    found = in_files(export, monkeypatch, least_rows).activity
    assert plain is not None
    assert found is not None
    for name, table in plain.tables.items():
        for column, values in vars(table).items():
            ours = getattr(found.tables[name], column)
            if isinstance(values, np.ndarray):
                np.testing.assert_array_equal(ours, values, f"{name}.{column}")
            else:
                assert ours == values


def test_what_is_unloaded_is_read_again(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    activity = in_files(export, monkeypatch, 1).activity
    assert activity is not None
    assert not activity.gpu_ops.start_ns.flags.writeable
    before = activity.gpu_ops.start_ns.sum()
    activity.unload()
    assert activity.gpu_ops.start_ns.sum() == before


def test_each_kind_lies_together_in_order_of_time(export: Path) -> None:
    activity = read(export).activity
    assert activity is not None
    operations = activity.gpu_ops
    for kind, count in ((OpKind.KERNEL, ROWS // 2), (OpKind.COPY, ROWS), (OpKind.MIGRATION, 2 * ROWS)):
        rows = operations.rows(kind)
        assert isinstance(rows, slice)
        assert rows.stop - rows.start == count
        assert (np.diff(operations.start_ns[rows]) >= 0).all()


def test_rows_that_do_not_lie_together() -> None:
    assert rows_of(np.array([False, True, True])) == slice(1, 3)
    assert rows_of(np.array([True, False, True])).tolist() == [0, 2]  # type: ignore[union-attr]
    assert rows_of(np.zeros(0, np.bool_)) == slice(0, 0)
