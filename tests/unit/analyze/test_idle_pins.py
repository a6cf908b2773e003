"""Page-locked memory that is kept and no longer used: what is claimed of random caches is what happened to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinprof.analyze import Finding, Run, analyze
from pinprof.analyze.ledger.idle import IDLE_SHARE, LEAST_IDLE_NS
from pinprof.analyze.ledger.results import Pages
from pinprof.data.activity import Activity, MemoryKind
from tests.support.activities import H200, Op, to_device, traced
from tests.support.scenes import MIB, MS, Traced, table, to_gpu
from tests.support.stacks import capture

BLOCK = 32 * MIB


@dataclass(frozen=True)
class Block:
    """What happens to a block of pinned memory; times in milliseconds."""

    made: int
    uses: tuple[int, ...]
    """After it was made, when copies use it."""
    freed: int | None = None
    """After it was made."""
    size: int = BLOCK
    line: int = 0


def run(blocks: list[Block], until: int, astray: int | None = None) -> Run:
    """Something else is copied at `until`; `astray` is when a copy is made whose place nobody knows."""
    calls, places = [], {}
    for number, block in enumerate(blocks, 1):
        place, at = number << 32, float(block.made)
        places[at + 1e-4 * number] = place
        calls.append(Traced("cuMemHostAlloc", at + 1e-4 * number, at + 0.1, block.size, block.line))
        uses = [at + use for use in block.uses]
        calls += [to_gpu(use, use + 0.2, MIB, MemoryKind.PINNED, address=place + 4096) for use in uses]
        if block.freed is not None:
            places[at + block.freed + 1e-4 * number] = place
            calls.append(Traced("cuMemFreeHost", at + block.freed + 1e-4 * number, at + block.freed + 0.1))
    if astray is not None:
        calls.append(to_gpu(astray, astray + 0.2, MIB, MemoryKind.PINNED, address=0))
    calls.append(to_gpu(until, until + 0.2, MIB, address=1 << 44))
    made = table(calls)
    address = [places.get(round(start / MS, 4), 0) for start in made.start_ns.tolist()]
    made = replace(made, address=np.array(address, np.uint64))
    activity = Activity("agent", calls=made, recorded=frozenset({"cuda calls", "memory"}))
    return analyze(replace(capture([]), activity=activity))


def finding(explained: Run, rule: str = "idle-pinned") -> Finding:
    (one,) = [one for one in explained.findings if one.rule == rule]
    return one


def test_cache_that_pins_beside_what_nobody_uses_grows() -> None:
    blocks = [Block(100 * number, (10, 20)) for number in range(5)]
    said = finding(run(blocks, 3000))
    assert (said.severity, said.title) == (
        "warning", "The program keeps pinned memory that no copy uses any more, and pins more beside it.",
    )  # fmt: skip
    assert said.evidence[0] == (
        "step (app.cu:11) keeps 5 blocks of 160 MiB in all. No copy uses any of it in the last 2.58 s up to the"
        " process's last copy. 4 were made while an unused one of that size or larger was there."
    )


def test_memory_that_was_needed_at_the_beginning_alone_is_kept_and_does_not_grow() -> None:
    said = finding(run([Block(0, (10, 20)), Block(5, (10, 20)), Block(8, (3000,))], 3000))
    assert (said.severity, said.title) == ("info", "The program keeps pinned memory that no copy uses any more.")


@pytest.mark.parametrize(
    ("blocks", "astray"),
    [
        pytest.param([Block(0, (10,)), Block(1, (10, 2500))] * 2, 2900, id="copies without a place"),
        pytest.param([Block(0, (10,), 500)] * 4, None, id="given back"),
        pytest.param([Block(0, (1600,))] * 4, None, id="used in the second half"),
        pytest.param([Block(2500, (10,))] * 4, None, id="made late"),
        pytest.param([Block(0, (10,), None, MIB)] * 4, None, id="little"),
    ],
)
def test_what_refutes_it(blocks: list[Block], astray: int | None) -> None:
    assert finding(run(blocks, 3000, astray)).severity == "ok"


BLOCKS = st.builds(
    Block,
    st.integers(0, 3000),
    st.lists(st.integers(1, 3000), max_size=4).map(tuple),
    st.none() | st.integers(1, 3000),
    st.sampled_from((BLOCK, 2 * BLOCK)),
    st.integers(0, 1),
)


@pytest.mark.slow
@given(st.lists(BLOCKS, min_size=1, max_size=8), st.integers(3000, 9000), st.none() | st.integers(0, 9000))
@settings(max_examples=60, deadline=None)
def test_what_is_said_of_random_caches_is_true(blocks: list[Block], until: int, astray: int | None) -> None:
    blocks = [
        replace(one, uses=tuple(use for use in one.uses if one.freed is None or use < one.freed)) for one in blocks
    ]
    last_ms = max([until, *(one.made + use for one in blocks for use in one.uses), astray or 0])
    ledger = run(blocks, until, astray).ledger
    assert ledger is not None

    def idle(one: Block) -> bool:
        used = max([one.made, *(one.made + use for use in one.uses), -1 if astray is None else astray])
        lives = one.made < last_ms and (one.freed is None or one.made + one.freed >= last_ms)
        left = (last_ms - used) * MS
        return lives and left >= LEAST_IDLE_NS + MS and left >= IDLE_SHARE * (last_ms - one.made) * MS + MS

    def surely_used(one: Block) -> bool:
        return not idle(one) and not idle(replace(one, uses=tuple(use - 2 for use in one.uses if use > 2)))

    assert sum(one.count for one in ledger.idle) <= sum(not surely_used(one) for one in blocks)
    assert sum(one.count for one in ledger.idle) >= sum(map(idle, blocks))


LINES = (("step", 11), ("load", 40))


def on_nodes(near: int | None, *nodes: dict[int, int], work: Sequence[Op] = (), of: int = 2) -> Finding:
    explained = run([Block(number, (500,), None, BLOCK, number) for number in range(len(nodes))], 600)
    host = {"gpus": [{**H200["gpus"][0], "numa_node": near}], "numa_nodes": of}  # type: ignore[index]
    captured = replace(explained.capture, manifest=replace(explained.capture.manifest, host=host))
    if work:
        assert captured.activity is not None
        done = traced((), work).activity
        assert done is not None
        known = captured.activity.recorded | {"cuda"}
        captured = replace(captured, activity=replace(captured.activity, gpu_ops=done.gpu_ops, recorded=known))
    explained = analyze(captured)
    ledger = explained.ledger
    assert ledger is not None
    by_line = {f"{name} (app.cu:{line})": pages for (name, line), pages in zip(LINES, nodes, strict=False)}
    sites = tuple(
        replace(site, pages=Pages(0, by_line[site.line], 0, 0, None, 64)) if site.line in by_line else site
        for site in ledger.sites
    )
    explained.__dict__["ledger"] = replace(ledger, sites=sites)
    return finding(explained, "far-node")


def test_pinned_memory_on_the_far_node_is_named_with_its_line_and_an_unknown_price() -> None:
    said = on_nodes(1, {0: 24 * MIB, 1: 8 * MIB}, {1: 32 * MIB})
    assert said.severity == "warning"
    assert said.evidence == (
        (
            "38 % of 64 MiB of pinned memory with a known place lies on other nodes than node 1, where the GPUs are"
            " (threshold 10 %)."
        ),
        "step (app.cu:11): 24 MiB.",
        "What that costs is unknown: the GPU's copies, or the rate of its link, were not recorded.",
    )


def test_machine_with_one_node_has_no_far_memory() -> None:
    assert on_nodes(None, {0: 32 * MIB}, of=1).severity == "ok"


def test_price_of_the_far_node_is_what_copies_lose_against_the_link() -> None:
    # 512 MiB at 16.8 GB/s instead of 55.6: 9.7 of 32 ms would do.
    slow = to_device(700 * MS, 732 * MS, 512 * MIB)
    said = on_nodes(1, {0: 32 * MIB}, work=[slow])
    assert said.severity == "warning"
    assert said.evidence[-1] == (
        "Against the practical rate of the link, large pinned copies lose 22.3 ms: memory on the near node saves that"
        " at most."
    )
    fast = to_device(700 * MS, 710 * MS, 512 * MIB)
    assert on_nodes(1, {0: 32 * MIB}, work=[fast]).severity == "ok", "it costs too little"


@pytest.mark.parametrize(
    ("near", "nodes", "severity"),
    [(1, {1: 32 * MIB}, "ok"), (1, {0: 2 * MIB, 1: 30 * MIB}, "ok"), (None, {0: 32 * MIB}, "not-assessable")],
)
def test_near_memory_is_none_and_an_unknown_node_is_not_judged(
    near: int | None, nodes: dict[int, int], severity: str
) -> None:
    assert on_nodes(near, nodes).severity == severity
