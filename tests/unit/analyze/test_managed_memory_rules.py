"""Rules about managed memory: each on both sides of its threshold, and on a real run."""

from __future__ import annotations

import pytest

from tests.support.activities import (
    ALL,
    GIB,
    KIB,
    MIB,
    MS,
    US,
    Call,
    Memory,
    MemoryKind,
    Op,
    export,
    kernel,
    migration,
    to_device,
)
from tests.support.verdicts import (
    BLOCK,
    EVICTION,
    FAULT,
    NO_LINK,
    PREFETCH,
    SPECULATIVE,
    WITHOUT_FLOOR,
    bounce,
    fires,
    real,
    storm,
    verdict,
)


@WITHOUT_FLOOR
@pytest.mark.parametrize(
    ("count", "copying", "fired"), [(100, 0.1, True), (99, 0.1, False), (100, 0.797, True), (100, 0.8, False)]
)
def test_gpu_fault_storm(count: int, copying: float, fired: bool) -> None:
    assert fires(verdict("gpu-fault-storm", (), storm(count, copying), recorded=ALL - {"gpu_faults"})) == fired


@WITHOUT_FLOOR
def test_gpu_fault_storm_needs_no_fault_tables_but_says_that_they_lack() -> None:
    bare = verdict("gpu-fault-storm", (), storm(100, 0.1), recorded=ALL - {"gpu_faults"})
    assert fires(bare)
    assert "GPU page faults" in bare.missing
    found = real("uvm", "gpu-fault-storm")
    assert fires(found)
    assert "319 groups" in " ".join(found.evidence)


@WITHOUT_FLOOR
@pytest.mark.parametrize(
    ("touched", "prefetched", "fired"), [(80, 0, True), (79, 0, False), (100, 1, False), (100, 0, True)]
)
def test_prefetch_missing(touched: int, prefetched: int, fired: bool) -> None:
    def moves(first: int, count: int, *causes: int) -> list[Op]:
        times = [(first + at) * US for at in range(count)]
        return [migration(time, time + US, KIB, causes[at % len(causes)]) for at, time in enumerate(times)]

    ops = [kernel(0, 10 * MS), *moves(10, touched, SPECULATIVE, FAULT), *moves(300, 100 - touched, 5)]
    ops += moves(500, prefetched, PREFETCH)
    assert fires(verdict("prefetch-missing", (), ops, recorded=ALL - {"gpu_faults"})) == fired


def test_prefetch_missing_compares_with_this_runs_own_pinned_copies() -> None:
    ops = [kernel(0, 50 * MS), migration(MS, 2 * MS, 50 * MIB, FAULT), to_device(60 * MS, 65 * MS, 50 * MIB)]
    assert "10.5 GB/s (pinned copies of this run)" in " ".join(verdict("prefetch-missing", (), ops).evidence)
    assert "5 ms" in " ".join(verdict("prefetch-missing", (), ops).evidence)
    assert verdict("prefetch-missing", (), ops[:2], host=NO_LINK).missing
    outside = [migration(0, 10, KIB, FAULT), kernel(20, 30)]
    assert not fires(verdict("prefetch-missing", (), outside))


@pytest.mark.parametrize(("threads", "saves_ms", "serial"), [(1, 22, True), (1 << 20, 82, False)])
def test_prefetching_saves_no_more_than_faults_and_migrations_take(threads: int, saves_ms: int, serial: bool) -> None:
    moves = [migration(at * 20 * MS, at * 20 * MS + 10 * US, 4 * KIB, FAULT, at * BLOCK) for at in range(1, 201)]
    ops = [*moves, kernel(0, 4030 * MS, threads=threads)]
    evidence = " ".join(verdict("prefetch-missing", (), ops, recorded=ALL - {"gpu_faults"}).evidence)
    assert f"at most {saves_ms} ms of 4.03 s in kernels" in evidence
    assert f"prefetching saves up to {saves_ms} ms" in evidence
    assert ("edit runs 4.03 s on 1 thread" in evidence) == serial


@WITHOUT_FLOOR
@pytest.mark.parametrize(
    ("ops", "fired"),
    [
        (bounce(4), True),
        (bounce(3), False),
        ([migration(at * 10, at * 10 + 5, BLOCK, FAULT, 0x1000_0000) for at in range(4)], True),
        ([migration(at * 10, at * 10 + 5, BLOCK, FAULT, 0x1000_0000) for at in range(3)], False),
    ],
)
def test_ping_pong(ops: list[Op], fired: bool) -> None:
    assert fires(verdict("ping-pong", (), ops)) == fired


def test_ping_pong_does_not_mistake_new_memory_for_old() -> None:
    assert not fires(real("uvm", "ping-pong"))
    assert verdict("ping-pong", (), bounce(4), recorded=ALL - {"memory"}).missing


@WITHOUT_FLOOR
@pytest.mark.parametrize(("evicted", "fired"), [(5, True), (4, False)])
def test_eviction_by_cause(evicted: int, fired: bool) -> None:
    ops = [migration(at, at + 1, KIB, EVICTION, back=True) for at in range(evicted)]
    ops += [migration(500 + at, 501 + at, KIB, PREFETCH) for at in range(100 - evicted)]
    assert fires(verdict("eviction", (), ops)) == fired


@WITHOUT_FLOOR
@pytest.mark.parametrize(("live", "fired"), [(140 * GIB + 1, True), (140 * GIB, False)])
def test_eviction_by_size(live: int, fired: bool) -> None:
    memory = [Memory(0, live, memory_kind=MemoryKind.MANAGED)]
    assert fires(verdict("eviction", (), [migration(0, 1, KIB, PREFETCH)], (), memory)) == fired
    assert verdict("eviction", (), [migration(0, 1, KIB, PREFETCH)], (), memory, host={}).missing


@pytest.mark.parametrize(("drain", "fired"), [(100 * MS, True), (100 * MS - 1, False)])
def test_cpu_fault_drain(drain: int, fired: bool) -> None:
    ops = [migration(0, drain, BLOCK, FAULT, back=True), kernel(999 * MS, 1000 * MS)]
    assert fires(verdict("cpu-fault-drain", (), ops)) == fired
    asked = [migration(0, drain, BLOCK, PREFETCH, back=True), kernel(999 * MS, 1000 * MS)]
    assert not fires(verdict("cpu-fault-drain", (), asked))


def test_the_real_managed_run_fires_what_it_should_and_nothing_more() -> None:
    fired = {entry.rule for entry in export("uvm").findings if entry.severity in ("warning", "critical")}
    assert fired == {"gpu-fault-storm", "prefetch-missing", "cpu-fault-drain"}


@pytest.mark.parametrize("rule", ["gpu-fault-storm", "prefetch-missing", "ping-pong", "eviction", "cpu-fault-drain"])
def test_rules_about_managed_memory_where_there_is_none(rule: str) -> None:
    assert real("pinned", rule).status == "clear"
    unseen = verdict(rule, [Call("cudaMallocManaged", 0, 10)])
    assert unseen.status == "not-assessable"
    assert verdict(rule, recorded=frozenset({"nvtx"})).status == "not-assessable"
