"""Runs of frames without a name: one frame each, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof import analyze
from pinprof.data.model import NO_NODE, Capture
from pinprof.data.unnamed_runs import join_runs, with_runs_apart, with_runs_joined
from tests.support.small_capture import small_capture

SYMBOLS = [("main", 0), ("[libcuda.so.1]", 0), ("[libcudart.so]", 0), ("memcpy", 0)]
CHAINS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=9)


def capture_of(chains: list[list[int]]) -> Capture:
    """One sample for each chain of frames, outermost first."""
    nodes: dict[tuple[int, int], int] = {}
    samples = []
    for chain in chains:
        node = NO_NODE
        for frame in chain:
            node = nodes.setdefault((node, frame), len(nodes))
        samples.append((0, 10, node))
    return small_capture(samples, SYMBOLS, list(nodes))


def names(capture: Capture, sample: int = 0) -> list[str]:
    stacks = capture.stacks
    chain = [int(stacks.frame[node]) for node in stacks.chain(int(capture.samples.stack[sample]))]
    return [stacks.frames.symbol[frame] for frame in reversed(chain)]


def test_sources_stay_with_their_frames() -> None:
    made = capture_of([[0, 1, 1, 1, 3]])
    frames = replace(made.stacks.frames, source=("/app/main.cu", "", "", "/app/copy.h"))
    joined, _ = with_runs_joined(replace(made, stacks=replace(made.stacks, frames=frames)))
    joined_frames = joined.stacks.frames
    sources = {name: joined_frames.source_of(index) for index, name in enumerate(joined_frames.function)}
    assert (sources["main"], sources["memcpy"], sources["[libcuda.so.1] × 3"]) == ("/app/main.cu", "/app/copy.h", "")


def test_run_is_one_frame_with_its_length() -> None:
    joined, _ = with_runs_joined(capture_of([[0, 1, 1, 1, 2, 3], [0, 1, 2], [0, 1, 1, 1]]))
    assert names(joined) == ["main", "[libcuda.so.1] × 3", "[libcudart.so]", "memcpy"]
    assert names(joined, 1) == ["main", "[libcuda.so.1]", "[libcudart.so]"]
    assert names(joined, 2) == ["main", "[libcuda.so.1] × 3"]
    assert len(joined.stacks) == 6  # nothing is left of the inside of runs


def test_functions_with_names_stay_however_deep_they_recurse() -> None:
    capture = capture_of([[0, 0, 0, 3, 3]])
    assert with_runs_joined(capture) == (capture, None)


@given(CHAINS)
def test_runs_taken_apart_are_what_they_were(chains: list[list[int]]) -> None:
    capture = capture_of(chains)
    back = with_runs_apart(with_runs_joined(capture)[0])
    assert [names(back, sample) for sample in range(len(chains))] == [
        [SYMBOLS[frame][0] for frame in chain] for chain in chains
    ]
    assert (back.stacks.parent < np.arange(len(back.stacks))).all()
    assert len(back.stacks) == len(capture.stacks)  # chains share their callers again


@given(CHAINS, st.data())
def test_deciding_node_moves_to_the_frame_that_it_became_part_of(chains: list[list[int]], data: st.DataObject) -> None:
    capture = capture_of(chains)
    stacks = capture.stacks
    joined = join_runs(stacks, capture.samples.stack)
    if joined is None:
        return
    decided = np.array([data.draw(st.sampled_from([NO_NODE, *stacks.chain(n)])) for n in range(len(stacks))], np.int32)
    carried = joined.carried(decided)
    for old, new in enumerate(joined.node.tolist()):
        if new == NO_NODE:
            continue
        if decided[old] == NO_NODE:
            assert carried[new] == NO_NODE
            continue
        assert int(carried[new]) in list(joined.table.chain(new))
        was = stacks.frames[int(stacks.frame[decided[old]])]
        became = joined.table.frames[int(joined.table.frame[carried[new]])]
        assert became.symbol.partition(" × ")[0] == was.symbol


def test_forged_lengths_leave_the_file_as_it_is() -> None:
    capture = small_capture([(0, 1, 4999)], [("[x] × 9999", 0)], [(n - 1, 0) for n in range(5000)])
    assert with_runs_apart(capture) is capture


def test_forged_stacks_do_not_become_deeper_than_readers_let_them_be() -> None:
    capture = small_capture([(0, 1, 0)], [("[x] × 4096", 0), ("[y] × 2", 0)], [(-1, 0)])
    assert len(with_runs_apart(capture).stacks) == 4096
    capture = small_capture([(0, 1, 1)], [("[x] × 4096", 0), ("[y] × 2", 0)], [(-1, 0), (0, 1)])
    assert with_runs_apart(capture) is capture


def test_causes_do_not_depend_on_whether_runs_are_shown() -> None:
    capture = capture_of([[0, 1, 1, 1, 3], [0, 1, 1]])
    short, whole = analyze.analyze(capture), analyze.analyze(capture, all_frames=True)
    assert short.attribution.leaf.tolist() == whole.attribution.leaf.tolist()
    again = analyze.analyze(short.capture, all_frames=True)
    assert names(again.capture) == names(whole.capture)
    assert names(short.capture) == ["main", "[libcuda.so.1] × 3", "memcpy"]
    assert names(whole.capture) == ["main", *["[libcuda.so.1]"] * 3, "memcpy"]


def test_samples_without_a_call_chain_stay_so() -> None:
    capture = capture_of([[1, 1]])
    capture = replace(capture, samples=replace(capture.samples, stack=np.array([NO_NODE], np.int32)))
    assert with_runs_joined(capture)[0].samples.stack.tolist() == [NO_NODE]
    assert with_runs_apart(capture).samples.stack.tolist() == [NO_NODE]
