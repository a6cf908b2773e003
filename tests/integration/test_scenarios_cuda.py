"""Every scenario in every variant on a real GPU: right results, and the differences that they are there to show."""

from __future__ import annotations

from statistics import median

import pytest
from pinprof.workloads.backends import gpu_present

from pinprof import scenario
from pinprof.base.errors import ToolMissing
from pinprof.scenario import Options

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_present(), reason="there is no NVIDIA GPU")]
MIB = 1 << 20
CASES = [
    (spec.name, variant)
    for spec in scenario.specs()
    if spec.name != "uvm-oversubscribe"
    for variant in [one.name for one in spec.variants] or [None]
]


def run(name: str, variant: str | None = None, size_bytes: int = 64 * MIB) -> dict[str, float]:
    """Median of each phase, ns."""
    try:
        result = scenario.run(name, Options(size_bytes, iterations=3, backend="cuda", variant=variant))
    except ToolMissing as error:
        pytest.skip(error.problem)
    assert result.verified == 3
    return {phase: median(times) for phase, times in result.times_ns.items()}


@pytest.mark.parametrize(("name", "variant"), CASES)
@pytest.mark.parametrize("size_bytes", [5001, 33 * MIB])
def test_every_element_is_right(name: str, variant: str | None, size_bytes: int) -> None:
    assert run(name, variant, size_bytes)["iteration"] > 0


def test_touched_memory_is_registered_at_a_quarter_of_what_pinning_costs() -> None:
    assert run("register", "touched")["register"] <= 0.25 * run("pinned")["alloc"]


def test_prefetched_memory_needs_a_twentieth_of_the_time_in_the_kernel() -> None:
    assert run("uvm-prefetch", size_bytes=256 * MIB)["kernel"] <= run("uvm", size_bytes=256 * MIB)["kernel"] / 20


@pytest.mark.parametrize(
    ("name", "mistake", "cure", "phase"),
    [
        ("alloc-loop", "mistake", "pool", "iteration"),
        ("round-trip", "copied", "resident", "iteration"),
        ("small-copies", "many", "batch", "h2d"),
        ("overlap", "blocking", "streams", "pipeline"),
        ("uvm-thrash", "ping-pong", "cure", "iteration"),
        ("strided", "strided", "coalesced", "kernel"),
    ],
)
def test_cure_is_faster_than_the_mistake(name: str, mistake: str, cure: str, phase: str) -> None:
    assert run(name, cure)[phase] < run(name, mistake)[phase]
