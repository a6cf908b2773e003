"""CUDA calls that uprobes recorded of a C++ program on an H200, whose own clock around each call is known."""

from __future__ import annotations

import pytest

from pinprof import analyze, read
from pinprof.analyze import Run
from tests.support import h200

OWN_NS = {
    "cudaMallocHost": (8, 358_306_848),
    "cudaMemcpy": (16, 39_664_601),
    "cudaFreeHost": (8, 96_960_921),
}
"""Calls and nanoseconds by the program's own clock_gettime(CLOCK_MONOTONIC) around each."""


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("calls")
    h200.unpack_captures(folder)
    return analyze.analyze(read.read(folder / "calls.pinprof"))


@pytest.mark.parametrize("name", OWN_NS)
def test_calls_have_the_programs_own_count_size_and_time(analysis: Run, name: str) -> None:
    assert analysis.activity is not None
    call = next(call for call in analysis.activity.whole.calls if call.name == name)
    count, own_ns = OWN_NS[name]
    assert call.count == count
    assert call.size_bytes == count * (128 << 20)
    assert call.time_ns.total == pytest.approx(own_ns, rel=0.02)
    assert [site.name for site in call.sites] == ["step(unsigned long) (calls)"]


def test_pinned_allocation_is_split_by_what_the_kernel_did(analysis: Run) -> None:
    assert analysis.activity is not None
    call = next(call for call in analysis.activity.whole.calls if call.name == "cudaMallocHost")
    assert call.split is not None
    pin = sum(ns for leaf, ns in call.split.by_leaf.items() if leaf.startswith("pin."))
    assert pin / call.time_ns.total > 0.9
    # One sample a millisecond: of a third of a second it misses or adds a few.
    assert call.split.sampled_ns == pytest.approx(call.time_ns.total, rel=0.03)


def test_the_call_that_created_the_context_is_told_apart(analysis: Run) -> None:
    assert analysis.activity is not None
    (first,) = analysis.activity.context_init
    assert first.name == "cudaFree"
    assert 100_000_000 < first.duration_ns < 400_000_000


def test_pinned_memory_is_judged_from_the_calls_alone(analysis: Run) -> None:
    assert analysis.activity is not None
    assert analysis.activity.memory is not None
    assert analysis.activity.memory.pinned_bytes == analysis.activity.memory.largest_pin_bytes == 128 << 20
    verdicts = {found.rule: found for found in analysis.findings}
    assert verdicts["over-pinned"].status == verdicts["giant-pin"].status == "clear"
    assert "128 MiB" in verdicts["giant-pin"].evidence[0]
