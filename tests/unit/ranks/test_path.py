"""What a saving in some ranks saves the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.opportunities.results import Cure, Opportunity, Saving
from pinprof.analyze.sites import Site
from pinprof.ranks.engine import explain
from pinprof.ranks.meetings import meetings_of
from pinprof.ranks.path import job_gains
from pinprof.ranks.rank_run import RankRun, Savings
from tests.support.launches import LOAD, MS, launch, with_calls

STEPS = 20


def ranks(late_ms: Mapping[int, int], count: int = 3) -> list[RankRun]:
    """Ranks that work as long, and of which some are late at each step."""
    return launch(
        [[10 * MS] * STEPS] * count,
        {(rank, step): ms * MS for rank, ms in late_ms.items() for step in range(STEPS)},
    )


def saving(run: RankRun, ms: int) -> Savings:
    """So much less before each meeting."""
    end = run.spent.start_ns[run.spent.outside]
    return Savings(end - MS, end, np.full(len(end), float(ms * MS)))


def gains(runs: list[RankRun], *saved_ms: Mapping[int, int]) -> list[float]:
    saved = [{rank: saving(runs[rank], ms) for rank, ms in one.items()} for one in saved_ms]
    return [gain / MS for gain in job_gains(runs, meetings_of(runs), saved)]


def test_a_cure_of_a_rank_that_nobody_waits_for_saves_the_job_nothing() -> None:
    assert gains(ranks({1: 8}), {0: 5}, {2: 5}, {0: 5, 2: 5}) == [0, 0, 0]


def test_a_cure_of_the_rank_that_all_wait_for_saves_the_job_as_much() -> None:
    assert gains(ranks({1: 8}), {1: 5}) == pytest.approx([5 * STEPS], rel=0.01)


def test_when_the_first_cause_is_gone_the_next_rank_decides() -> None:
    assert gains(ranks({1: 8, 2: 6}), {1: 8}, {2: 6}, {1: 8, 2: 6}) == pytest.approx(
        [2 * STEPS, 0, 8 * STEPS], rel=0.01
    )


def test_a_cure_of_all_ranks_saves_the_job_as_much_as_each() -> None:
    assert gains(ranks({}), {0: 4, 1: 4, 2: 4}, {0: 4}) == pytest.approx([4 * STEPS, 0], rel=0.01)


def found(run: RankRun, ms: int) -> RankRun:
    """A rank whose own report has an opportunity at the line that makes it late."""
    site = Site(LOAD.function, LOAD.file, LOAD.line, "")
    likely = STEPS * ms * MS
    one = Opportunity(
        1, f"{LOAD.text} makes memory again", site, {"fault.anon": likely}, "work", 0, 0, likely,
        Cure("reuse", "Keep the buffers."), Saving(likely, likely, likely), (),
    )  # fmt: skip
    return replace(run, found=(one,), savings=(saving(run, ms),))


def test_opportunities_of_all_ranks_are_one_list_by_what_the_job_saves() -> None:
    runs = ranks({1: 8, 2: 6})
    other = found(runs[0], 3)
    other = replace(other, found=(replace(other.found[0], site=Site("prepare", "prepare.py", 4, "")),))
    answer = explain([other, found(runs[1], 8), found(runs[2], 6)], "job.ranks", {})
    shared, alone = answer.opportunities
    assert (shared.ranks, shared.place, shared.cure) == ((1, 2), LOAD.text, "Keep the buffers.")
    assert shared.saves_ns == pytest.approx(8 * STEPS * MS, rel=0.01)
    assert (alone.ranks, alone.saves_ns, alone.rank_saves_ns) == ((0,), 0, 3 * STEPS * MS)
    assert answer.holds[0].saves_ns == shared.saves_ns
    assert "Keep the buffers. That saves the job 160 ms." in answer.headline


def test_without_a_hold_the_headline_says_what_the_job_gains_most_by() -> None:
    runs = [with_calls(found(run, 4), rank) for rank, run in enumerate(ranks({}, 2))]
    answer = explain(runs, "job.ranks", {})
    assert answer.verdict == "even"
    assert f"The job gains most by a change of ranks 0 and 1, 80 ms: {LOAD.text} makes memory again." in answer.headline
