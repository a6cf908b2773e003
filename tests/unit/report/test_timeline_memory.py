"""Allocated memory over time: levels of the history of allocations, by kind."""

from __future__ import annotations

import pytest

from pinprof.analyze import analyze
from pinprof.data.activity import MemoryKind, MemoryOperation
from pinprof.report.flame_tables import Numbered
from pinprof.report.sections.timeline.gpu_lanes import MEMORY_STEPS, allocations
from tests.support.activities import GIB, MIB, Memory, traced


def levels(memory: list[Memory]) -> dict[str, list[tuple[int, int]]]:
    """Kind → (time, bytes from then on)."""
    history = analyze(traced((), (), (), memory)).allocations
    drawn = allocations(history, 5, Numbered())
    return {use.title: list(zip(use.time_ns.tolist(), use.level_bytes.tolist(), strict=True)) for use in drawn}


def test_each_kind_of_memory_has_its_level() -> None:
    memory = [
        Memory(5, GIB, address=1), Memory(15, MIB, address=2), Memory(25, GIB, MemoryOperation.FREE, address=1),
        Memory(35, MIB, memory_kind=MemoryKind.DEVICE, address=3),
    ]  # fmt: skip
    assert levels(memory) == {"pinned": [(0, GIB), (10, GIB + MIB), (20, MIB)], "device": [(30, MIB)]}


@pytest.mark.parametrize("missed", ["a free", "an allocation"])
def test_what_the_recording_lacks_draws_no_memory(missed: str) -> None:
    first = MemoryOperation.ALLOCATE if missed == "a free" else MemoryOperation.FREE
    found = levels([Memory(5, GIB, first, address=1), Memory(15, GIB, address=1)])["pinned"]
    assert found[-1] == (10, GIB)


def test_many_steps_are_thinned_to_their_peaks() -> None:
    memory = [Memory(5 + at, MIB + at, address=1 + at) for at in range(3 * MEMORY_STEPS)]
    found = levels(memory)["pinned"]
    assert len(found) == MEMORY_STEPS
    assert found[-1][1] == sum(each.size_bytes for each in memory)
