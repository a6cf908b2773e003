"""Runs of frames without a name: taken apart when they are read, and as their outermost frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.data.model import NO_NODE, Capture
from pinprof.data.unnamed_runs import as_single_frames, with_runs_apart
from pinprof.report.joined_frames import as_shown
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


@given(CHAINS)
def test_runs_taken_apart_are_what_they_were(chains: list[list[int]]) -> None:
    capture = capture_of(chains)
    back = with_runs_apart(as_shown(capture))
    assert [names(back, sample) for sample in range(len(chains))] == [
        [SYMBOLS[frame][0] for frame in chain] for chain in chains
    ]
    assert (back.stacks.parent < np.arange(len(back.stacks))).all()
    assert len(back.stacks) == len(capture.stacks)  # chains share their callers again


def test_forged_lengths_leave_the_file_as_it_is() -> None:
    capture = small_capture([(0, 1, 4999)], [("[x] × 9999", 0)], [(n - 1, 0) for n in range(5000)])
    assert with_runs_apart(capture) is capture


@pytest.mark.slow
def test_forged_stacks_do_not_become_deeper_than_readers_let_them_be() -> None:
    capture = small_capture([(0, 1, 0)], [("[x] × 4096", 0), ("[y] × 2", 0)], [(-1, 0)])
    assert len(with_runs_apart(capture).stacks) == 4096
    capture = small_capture([(0, 1, 1)], [("[x] × 4096", 0), ("[y] × 2", 0)], [(-1, 0), (0, 1)])
    assert with_runs_apart(capture) is capture


def test_samples_without_a_call_chain_stay_so() -> None:
    capture = capture_of([[1, 1]])
    capture = replace(capture, samples=replace(capture.samples, stack=np.array([NO_NODE], np.int32)))
    assert with_runs_apart(capture).samples.stack.tolist() == [NO_NODE]


@given(CHAINS)
def test_single_frames_stand_for_runs_of_any_length(chains: list[list[int]]) -> None:
    capture = capture_of(chains)
    table, stack = as_single_frames(capture.stacks, capture.samples.stack)
    single = replace(capture, stacks=table, samples=replace(capture.samples, stack=stack))
    for sample, chain in enumerate(chains):
        expected = [frame for at, frame in enumerate(chain) if not at or frame not in (1, 2) or chain[at - 1] != frame]
        assert names(single, sample) == [SYMBOLS[frame][0] for frame in expected]
