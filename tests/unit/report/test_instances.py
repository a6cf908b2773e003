"""Rows that the page sums again: they add up to what the analysis says, whatever their number, and stay few."""

from __future__ import annotations

import numpy as np
import pytest

from pinprof.analyze import analyze
from pinprof.data.activity import OpKind
from pinprof.report.flame import pack_columns
from pinprof.report.gather import ReportData, build
from pinprof.report.instances import ROW_LIMIT, InstanceData, Instances
from tests.support.activities import MS, Call, export, traced
from tests.support.stacks import Range
from tests.unit.report.test_activity import joined, many


def rows_of(data: ReportData) -> InstanceData:
    assert data.instances is not None
    return data.instances


def per_group(rows: Instances, column: str, groups: int) -> list[int]:
    total = np.zeros(groups, np.int64)
    np.add.at(total, rows.group, getattr(rows, column))
    return [int(value) for value in total]


@pytest.mark.slow
def test_calls_and_their_sampled_time_add_up_to_the_table() -> None:
    data = joined()
    assert data.activity is not None
    rows, calls = rows_of(data), data.activity.whole.calls
    assert per_group(rows.calls, "count", len(calls)) == [call.count for call in calls]
    assert per_group(rows.calls, "busy_ns", len(calls)) == [call.time_ns.total for call in calls]
    number = {cause.key: index for index, cause in enumerate(data.causes)}
    for group, call in enumerate(calls):
        mine = rows.calls.group[rows.time_call] == group
        found = {
            leaf: int(rows.time_ns[mine & (rows.time_leaf == number[leaf])].sum()) for leaf in data.events[0].by_leaf
        }
        assert {leaf: ns for leaf, ns in found.items() if ns} == (dict(call.split.by_leaf) if call.split else {})


@pytest.mark.slow
def test_copies_and_migrations_add_up_to_their_tables() -> None:
    for name in ("pageable", "uvm"):
        data = build(export(name))
        assert data.activity is not None
        rows, whole = rows_of(data), data.activity.whole
        assert per_group(rows.copies, "size_bytes", len(whole.copies)) == [
            copy.size_bytes.total for copy in whole.copies
        ]
        assert per_group(rows.copies, "extra", len(whole.copies)) == [copy.host_ns for copy in whole.copies]
        moves = whole.migrations
        assert per_group(rows.migrations, "count", len(moves)) == [moved.count for moved in moves]
        assert per_group(rows.migrations, "extra", len(moves)) == [moved.in_kernel_count for moved in moves]


def test_ranges_have_their_calls_and_threads() -> None:
    capture = traced([Call("cudaMalloc", MS, 2 * MS)], ranges=[Range("outer", 0, 9 * MS), Range("inner", MS, 3 * MS)])
    data = build(analyze(capture))
    rows = rows_of(data)
    assert [
        (data.ranges[group].name, length)
        for group, length in zip(rows.ranges.group, rows.ranges.length_ns, strict=True)
    ] == [
        ("outer", 9 * MS),
        ("inner", 2 * MS),
    ]
    assert rows.scoped
    assert sorted(rows.scope.tolist()) == [0, 1]
    assert [data.threads[thread].tid for thread in rows.calls.thread] == [100]


@pytest.mark.slow
def test_a_million_copies_become_few_rows_that_keep_the_sums() -> None:
    data = build(analyze(many(OpKind.COPY, 1_000_000)))
    assert data.activity is not None
    rows, copies = rows_of(data), data.activity.whole.copies
    assert len(rows.copies) <= ROW_LIMIT + 10
    assert rows.merged
    assert sum(per_group(rows.copies, "count", len(copies))) == 1_000_000
    assert per_group(rows.copies, "size_bytes", len(copies)) == [copy.size_bytes.total for copy in copies]
    assert per_group(rows.copies, "busy_ns", len(copies)) == [copy.busy_ns for copy in copies]
    assert len(pack_columns(rows.columns())[1]) < 250_000
