"""Whether a place makes its memory again, where large memory was recorded with its life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pinprof.analyze.allocations.blocks import blocks_of
from pinprof.analyze.opportunities import pages
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.data.activity import Caller
from pinprof.data.host_memory import HostEvent, HostMemoryTable, HostSite, LargeMemory, Maker
from tests.support.scenes import FREE, MS, SMALL, ran, recorded, scene

MIB = 1 << 20
MAIN = HostSite(Caller("main", "app"), (Caller("make"), Caller("main")))
OTHER = HostSite(Caller("other", "app"), (Caller("other"),))
Event = tuple[int, HostEvent, int, int]
"""When, what, how many, how many bytes each."""


def memory(*events: Event, took_ns: int = MS, maker: Maker = Maker.MALLOC, site: int = 0) -> LargeMemory:
    """Of a line of `main`; `took_ns`: what each giving back takes."""
    count = [number for _, _, number, _ in events]
    table = HostMemoryTable.of(
        len(events),
        time_ns=[time * MS for time, *_ in events],
        event=[event for _, event, _, _ in events],
        maker=maker,
        pid=100,
        tid=100,
        count=count,
        size_bytes=[number * size for _, _, number, size in events],
        site=site,
        given_at=[0 if event == HostEvent.GIVEN else -1 for _, event, _, _ in events],
        lifetime_ns=[3 * MS * number * (event == HostEvent.GIVEN) for _, event, number, _ in events],
        took_ns=[took_ns * number * (event == HostEvent.GIVEN) for _, event, number, _ in events],
    )
    return LargeMemory(table, (MAIN, OTHER), 0)


def pairs(count: int, size: int) -> list[Event]:
    """Made and given back, one after another."""
    return [(2 * n + given, HostEvent(1 + given), 1, size) for n in range(count) for given in (0, 1)]


def kept(count: int, size: int) -> list[Event]:
    return [(n, HostEvent.MADE, 1, size) for n in range(count)]


def found(known: LargeMemory, *parts: tuple[int, Sequence[str]]) -> Candidate:
    samples, now = [], 0
    for length, stack in (*parts, (200 - sum(length for length, _ in parts), ("main@/app",))):
        samples += ran(now, now + length, stack)
        now += length
    (one,) = pages.page_costs(scene(replace(recorded(samples), host_memory=known)))
    return one


def test_what_is_made_and_given_back_again_needs_no_sample_of_its_frees() -> None:
    one = found(memory(*pairs(50, 20 * MIB)), (60, SMALL))
    assert one.cure.id == pages._AGAIN.cure
    assert (one.count, one.bytes) == (50, 1000 * MIB)
    assert any("50 large blocks" in evidence.text and "20 MiB live" in evidence.text for evidence in one.evidence)


def test_what_is_made_once_and_kept_is_not_made_again_whatever_is_freed_meanwhile() -> None:
    parts = [(10, SMALL), (2, FREE)] * 5
    assert found(memory(*kept(50, 20 * MIB)), *parts).cure.id == pages._ONCE.cure


@pytest.mark.parametrize(
    "known",
    [
        memory(*kept(2, 1 * MIB)),
        memory(*pairs(50, 20 * MIB), took_ns=100),
        memory(*kept(50, 20 * MIB), maker=Maker.REALLOC),
        memory(*kept(50, 20 * MIB), site=1),
    ],
    ids=["too little for these faults", "kept by the allocator", "only grows", "another place's"],
)
def test_where_large_memory_does_not_explain_the_faults_samples_decide(known: LargeMemory) -> None:
    assert found(known, *[(10, SMALL), (2, FREE)] * 5).cure.id == pages._AGAIN.cure
    assert found(known, (60, SMALL)).cure.id == pages._ONCE.cure


def test_memory_that_does_not_account_for_the_faults_is_no_evidence_of_them() -> None:
    one = found(memory(*kept(1, 24 * MIB)), *[(10, SMALL), (2, FREE)] * 5)
    assert (one.count, one.bytes) == (0, 0)
    assert not [evidence for evidence in one.evidence if "given back" in evidence.text]


def test_a_line_makes_again_what_does_not_live_at_once() -> None:
    events = [(0, HostEvent.MADE, 3, MIB), (1, HostEvent.GIVEN, 2, MIB), (2, HostEvent.MADE, 2, 2 * MIB)]
    (line,) = blocks_of(memory(*events))
    assert (line.made, line.most, line.again) == (5, 3, 2)
    assert (line.made_bytes, line.most_bytes, line.again_bytes) == (7 * MIB, 5 * MIB, 2 * MIB)
    assert (line.given, line.live, line.mean_lifetime_ns) == (2, 3, 3 * MS)
    assert line.given_at == ((MAIN, 2),)
    assert line.returned
