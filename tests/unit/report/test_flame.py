"""The flamegraph's columns: preorder, links, merging, packing, and the hot tree made of them."""

from __future__ import annotations

import base64
import gzip
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.data.model import NO_NODE, FrameTable, StackTable
from pinprof.report.flame import FlameData, RangeRows
from pinprof.report.flame_tables import flame_data, preorder
from pinprof.report.joined_frames import with_frames_joined
from pinprof.report.sections.causes.hot_tree import NO_CAUSE, hot_trees
from pinprof.report.shown import shown_ranges
from tests.support.sample_report import MS, flame
from tests.support.stacks import CLOCK, FAULTS, Range, Sample, capture

TYPES = {"Uint8": "u1", "Int16": "<i2", "Int32": "<i4", "Float64": "<f8"}


def trees(data: st.DataObject) -> StackTable:
    size = data.draw(st.integers(1, 40))
    parent = [NO_NODE] + [data.draw(st.integers(-1, node - 1)) for node in range(1, size)]
    frames = FrameTable((), np.zeros(0, np.int32), np.zeros(0, np.uint8), ())
    return StackTable(np.array(parent, np.int32), np.zeros(size, np.int32), frames)


@given(st.data())
def test_preorder_holds_every_used_stack_and_says_parents_by_depth(data: st.DataObject) -> None:
    stacks = trees(data)
    used = np.array(data.draw(st.lists(st.integers(-1, len(stacks) - 1))), np.int32)
    depth, place, back = preorder(stacks, used)
    needed = {node for end in used.tolist() for node in stacks.chain(end)}
    assert set(back.tolist()) == needed
    assert place[NO_NODE] == NO_NODE
    seen: list[int] = []
    for position, node in enumerate(back.tolist()):
        del seen[int(depth[position]) :]
        assert int(stacks.parent[node]) == (seen[-1] if seen else NO_NODE)
        assert int(place[node]) == position
        seen.append(node)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_links_agree_with_a_walk_over_the_preorder(steps: list[int]) -> None:
    depth = [0]
    for step in steps:
        depth.append(max(0, min(depth[-1] + 1, depth[-1] + 2 - step)))
    data = replace(flame(), depth=np.array(depth, np.int16))
    parent, ends = data.links()
    for node, own in enumerate(depth):
        callers = [other for other in range(node) if depth[other] == own - 1]
        assert int(parent[node]) == (callers[-1] if own else NO_NODE)
        after = [other for other in range(node + 1, len(depth)) if depth[other] <= own]
        assert int(ends[node]) == (after[0] if after else len(depth))


def unpacked(data: FlameData) -> dict[str, list[float]]:
    layout, packed = data.packed
    raw = np.frombuffer(gzip.decompress(base64.b64decode(packed)), np.uint8)
    columns, offset = {}, 0
    for name, kind, length in layout:
        width = np.dtype(TYPES[kind]).itemsize
        planes = raw[offset : offset + width * length].reshape(width, length)
        columns[name] = np.ascontiguousarray(planes.T).view(TYPES[kind]).reshape(-1).tolist()
        offset += width * length
    assert offset == len(raw)
    return columns


def test_packed_columns_read_back_exactly() -> None:
    data = flame()
    columns = unpacked(data)
    leaf = np.cumsum(columns["leaf"])
    assert leaf[columns["stack"]].tolist() == data.node.tolist()
    assert np.cumsum(columns["depth"]).tolist() == data.depth.tolist()
    assert columns["weight"] == data.weight.tolist()
    assert (np.cumsum(columns["time"]) * 1000).tolist() == data.time_ns.tolist()
    assert data.packed == flame().packed


def test_weights_beyond_32_bits_travel_as_floats() -> None:
    data = replace(flame(), weight=flame().weight * 1000)
    assert unpacked(data)["weight"] == data.weight.tolist()


def test_merging_keeps_weights_by_event_thread_stack_and_cause() -> None:
    data = flame()
    merged = data.merged()
    assert len(merged.node) == 4
    assert not merged.timed
    columns = ("event", "thread", "node", "cause")

    def sums(table: FlameData) -> dict[tuple[int, ...], int]:
        found: dict[tuple[int, ...], int] = {}
        for *key, weight in zip(*(getattr(table, name).tolist() for name in (*columns, "weight")), strict=True):
            found[tuple(key)] = found.get(tuple(key), 0) + weight
        return found

    assert sums(merged) == sums(data)
    assert (
        len(replace(data, **{name: getattr(data, name)[:0] for name in (*columns, "likely", "weight")}).merged().node)
        == 0
    )


def test_hot_tree_gives_totals_and_leading_causes() -> None:
    clock, faults = hot_trees(flame(), 2)
    assert clock.total_weight.tolist() == [weight * MS for weight in (1000, 1000, 700, 300, 700, 600, 100)]
    assert clock.parent.tolist() == [-1, 0, 1, 1, 2, 4, 4]
    assert clock.leaf.tolist() == [1, 1, 1, 3, 1, 1, 2]
    assert clock.purity.tolist() == [60, 60, 85, 100, 85, 100, 100]
    assert faults.total_weight.tolist() == [100, 100]
    assert hot_trees(replace(flame(), weight=np.zeros_like(flame().weight)), 2) == ()
    assert NO_CAUSE not in clock.leaf.tolist()


def built(samples: list[Sample], ranges: list[Range] | None = None) -> FlameData:
    analysis = analyze(capture(samples, ranges or [], events=(CLOCK, FAULTS)))
    found = flame_data(analysis, with_frames_joined(analysis.capture), shown_ranges(analysis.ranges).place)
    assert found is not None
    return found


def test_samples_without_callchain_end_in_a_function_of_their_own() -> None:
    data = built([Sample(("main@app",), 7), Sample((), 5, 1)])
    assert data.depth.tolist() == [0, 0]
    assert data.node.tolist() == [0, 1]
    assert data.weight.tolist() == [7, 5]


def test_the_deciding_function_is_told_by_how_far_up_it_stands() -> None:
    data = built(
        [Sample(("main@app", "asm_exc_page_fault", "handle_mm_fault", "do_anonymous_page", "clear_page_erms"))]
    )
    assert data.depth[int(data.node[0])] == 4
    assert data.decided[int(data.node[0])] == 1


def test_ranges_list_runs_of_their_samples() -> None:
    samples = [Sample(("main@app",), 1, moment) for moment in (0, 10, 20, 30, 40)]
    data = built(samples, [Range("a", 5, 25), Range("a", 35, 45), Range("b", 0, 5)])
    rows = list(zip(data.ranges.path.tolist(), data.ranges.first.tolist(), data.ranges.last.tolist(), strict=True))
    assert sorted(last - first for _, first, last in rows) == [1, 1, 2]
    assert {(first, last) for path, first, last in rows if path == rows[-1][0]} <= {(1, 3), (4, 5)}
    assert isinstance(data.ranges, RangeRows)
