"""Runs of frames without a name: shown as one frame each, analysed frame by frame."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof import analyze
from pinprof.data.model import NO_NODE, Capture
from pinprof.report.flame_tables import flame_data
from pinprof.report.gather import build
from pinprof.report.joined_frames import as_shown, with_frames_joined
from tests.support.facts import with_facts
from tests.unit.data.test_unnamed_runs import CHAINS, SYMBOLS, capture_of, names


def test_sources_stay_with_their_frames() -> None:
    made = capture_of([[0, 1, 1, 1, 3]])
    frames = replace(made.stacks.frames, source=("/app/main.cu", "", "", "/app/copy.h"))
    joined = as_shown(replace(made, stacks=replace(made.stacks, frames=frames))).stacks.frames
    sources = {name: joined.source_of(index) for index, name in enumerate(joined.function)}
    assert (sources["main"], sources["memcpy"], sources["[libcuda.so.1] × 3"]) == ("/app/main.cu", "/app/copy.h", "")


def test_run_is_one_frame_with_its_length() -> None:
    joined = as_shown(capture_of([[0, 1, 1, 1, 2, 3], [0, 1, 2], [0, 1, 1, 1]]))
    assert names(joined) == ["main", "[libcuda.so.1] × 3", "[libcudart.so]", "memcpy"]
    assert names(joined, 1) == ["main", "[libcuda.so.1]", "[libcudart.so]"]
    assert names(joined, 2) == ["main", "[libcuda.so.1] × 3"]
    assert len(joined.stacks) == 6  # nothing is left of the inside of runs


def test_functions_with_names_stay_however_deep_they_recurse() -> None:
    capture = capture_of([[0, 0, 0, 3, 3]])
    assert as_shown(capture) is capture


@given(CHAINS, st.data())
def test_deciding_node_moves_to_the_frame_that_it_became_part_of(chains: list[list[int]], data: st.DataObject) -> None:
    capture = capture_of(chains)
    stacks = capture.stacks
    joined = with_frames_joined(capture)
    decided = np.array([data.draw(st.sampled_from([NO_NODE, *stacks.chain(n)])) for n in range(len(stacks))], np.int32)
    carried, table = joined.carried(decided), joined.capture.stacks
    for old, new in zip(capture.samples.stack.tolist(), joined.capture.samples.stack.tolist(), strict=True):
        if decided[old] == NO_NODE:
            assert carried[new] == NO_NODE
            continue
        assert int(carried[new]) in list(table.chain(new))
        was = stacks.frames[int(stacks.frame[decided[old]])]
        became = table.frames[int(table.frame[carried[new]])]
        assert became.symbol.partition(" × ")[0] == was.symbol


@given(CHAINS)
def test_the_names_of_a_recorded_stack_are_those_that_are_shown(chains: list[list[int]]) -> None:
    capture = capture_of(chains)
    shown, whole = with_frames_joined(capture), with_frames_joined(capture, all_frames=True)
    for sample, chain in enumerate(chains):
        node = int(capture.samples.stack[sample])
        assert shown.names(node)[::-1] == names(shown.capture, sample)
        assert whole.names(node)[::-1] == [SYMBOLS[frame][0] for frame in chain]


def test_samples_without_a_call_chain_stay_so() -> None:
    capture = capture_of([[1, 1]])
    capture = replace(capture, samples=replace(capture.samples, stack=np.array([NO_NODE], np.int32)))
    shown = with_frames_joined(capture)
    assert shown.capture.samples.stack.tolist() == [NO_NODE]
    assert shown.names(NO_NODE) == []


def test_an_opportunity_is_where_its_samples_are_shown() -> None:
    capture = capture_of([[0, 1, 1, 1, 3], [0, 1, 1]])
    found = SimpleNamespace(samples=frozenset({int(capture.samples.stack[0])}))
    run = with_facts(analyze.analyze(capture), opportunities=SimpleNamespace(found=(found,)))
    flame = flame_data(run, with_frames_joined(run.capture), np.zeros(0, np.int32))
    assert flame is not None
    assert [nodes.tolist() for nodes in flame.opportunities] == [[int(flame.node[0])]]


def drawn(capture: Capture, *, all_frames: bool) -> tuple[str, ...]:
    flame = build(analyze.analyze(capture), all_frames=all_frames).flame
    assert flame is not None
    return flame.names


def test_analysis_reads_every_frame_and_the_flamegraph_shows_runs_as_one() -> None:
    capture = capture_of([[0, 1, 1, 1, 3], [0, 1, 1]])
    assert names(analyze.analyze(capture).capture) == ["main", *["[libcuda.so.1]"] * 3, "memcpy"]
    assert "[libcuda.so.1] × 3" in drawn(capture, all_frames=False)
    assert not any("×" in name for name in drawn(capture, all_frames=True))
