"""Which rank of a launch the others wait for, how often, why and at what cost."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from pinprof.analyze.activity.sampled import GpuSample, SampledShare
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.course.results import Interval, Steps
from pinprof.analyze.intervals import Intervals
from pinprof.base.columns import Int64
from pinprof.base.errors import CaptureError
from pinprof.ranks.engine import explain
from pinprof.ranks.rank_run import RangeSpans, RankRun
from pinprof.ranks.results import Launch
from pinprof.ranks.waits import RankWaits
from tests.support.launches import LOAD, MS, Doing, launch, memory_of, rank_of, with_calls

STEPS = 40


def noisy(ranks: int, steps: int = STEPS, mean_ns: int = 20 * MS, seed: int = 1) -> list[list[int]]:
    """Steps of about the same length."""
    chance = random.Random(seed)  # no secret
    return [[round(mean_ns * chance.uniform(0.97, 1.03)) for _ in range(steps)] for _ in range(ranks)]


def told(runs: list[RankRun]) -> Launch:
    return explain(runs, "job.ranks", {})


def first_sentence(answer: Launch) -> str:
    return answer.headline.split(". ")[0]


def test_a_rank_that_is_always_late_is_named_with_line_cause_and_cost() -> None:
    late = {(1, step): 10 * MS for step in range(STEPS)}
    work = noisy(4)
    answer = told(launch(work, late))
    (hold,) = answer.holds
    assert (hold.ranks, hold.how, hold.held) == ((1,), "always", hold.meetings)
    truth = sum(
        work[1][step] + 10 * MS - max(work[rank][step] for rank in (0, 2, 3))
        for step in range(STEPS - hold.meetings, STEPS)
    )
    assert hold.cost_ns == pytest.approx(truth, rel=0.02)
    assert hold.low_ns <= truth <= hold.high_ns
    assert hold.lines[0].place == LOAD
    assert hold.lines[0].ns == pytest.approx(10 * MS * hold.held, rel=0.01)
    assert hold.lines[0].others_ns == 0
    assert hold.causes[0].cause == "fault.anon"
    sentence = first_sentence(answer)
    assert sentence.startswith("Rank 1 delays the other 3 ranks")
    assert "load.py:31" in sentence
    assert "fault.anon" in sentence
    assert "costs the job" in sentence


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_that_are_alike_are_not_accused(ranks: int, seed: int) -> None:
    answer = told(launch(noisy(ranks, seed=seed), {}))
    assert answer.verdict in ("even", "turns")
    assert "No " in answer.headline


def test_two_late_ranks_are_named_together() -> None:
    late = {(rank, step): 10 * MS for rank in (1, 2) for step in range(STEPS)}
    (hold,) = told(launch(noisy(6), late)).holds
    assert (hold.ranks, hold.how) == ((1, 2), "always")


def test_ranks_that_are_late_in_turns_are_named_one_after_the_other() -> None:
    late = {(1 + step % 2, step): 10 * MS for step in range(STEPS)}
    holds = told(launch(noisy(4), late)).holds
    assert {hold.ranks for hold in holds} == {(1,), (2,)}


def test_what_happened_once_is_said_to_have_happened_once() -> None:
    answer = told(launch(noisy(4), {(2, 30): 300 * MS}))
    (hold,) = answer.holds
    assert (hold.ranks, hold.how, hold.chance) == ((2,), "once", None)
    assert hold.cost_ns == pytest.approx(300 * MS, rel=0.05)
    assert "once, at meeting" in answer.headline
    assert "does not show whether it will recur" in hold.tested


def test_every_tenth_step_is_seen_as_that() -> None:
    answer = told(launch(noisy(4), {(3, step): 100 * MS for step in range(9, STEPS, 10)}))
    (hold,) = answer.holds
    assert (hold.ranks, hold.how, hold.every) == ((3,), "every", 10)
    assert "once every 10 meetings" in answer.headline


def test_waits_that_are_for_nobody_in_the_launch_accuse_nobody() -> None:
    """Each rank waits for a service of its own: as often as others' waits, and never together with them."""
    runs = []
    for number in range(4):
        chance, doing = random.Random(number), Doing(10_000 * MS + number)  # no secret
        for _ in range(STEPS):
            doing.spend(chance.randrange(15 * MS, 25 * MS), "user.app", 0)
            doing.spend(chance.randrange(2 * MS, 20 * MS), "wait.ipc", 2, outside=True)
        runs.append(rank_of(number, doing))
    answer = told(runs)
    assert answer.verdict == "unknown"
    assert not answer.holds


def test_what_ranks_wait_for_at_the_start_is_no_step() -> None:
    runs = launch(noisy(4), {(1, 0): 2000 * MS})
    answer = told(runs)
    assert not answer.holds
    assert answer.start is not None
    assert (answer.start.rank, answer.start.waited_ns) == (1, pytest.approx(2000 * MS, rel=0.02))
    assert "At the start, the others wait" in answer.headline


def test_ranks_that_met_all_the_time_worked_whatever_their_phases_say() -> None:
    late = {(1, step): 10 * MS for step in range(STEPS)}
    runs = [
        replace(run, phases={"work": (Interval(run.end_ns - 50 * MS, run.end_ns),)}) for run in launch(noisy(2), late)
    ]
    (hold,) = told(runs).holds
    assert hold.ranks == (1,)
    assert hold.meetings > STEPS / 2


def test_who_gets_its_processor_late_is_not_accused() -> None:
    runs = launch(noisy(2), {(1, step): 10 * MS for step in range(STEPS)})
    assert told(runs).holds
    cause = np.where(runs[1].spent.place == 1, LEAF["wait.runnable"], runs[1].spent.cause).astype(np.int16)
    answer = told([runs[0], replace(runs[1], spent=replace(runs[1].spent, cause=cause))])
    assert not answer.holds
    assert answer.headline.startswith("No rank does more than the others. Rank 1 comes last at 39 of 39 meetings")
    assert (
        "because it gets a CPU 10 ms each time later than the others. Give each rank its own CPUs." in answer.headline
    )


def crowded(more: int) -> list[RankRun]:
    """Two ranks that meet in calls: rank 1 waits 8 ms for its processor in each step, and has `more` samples more."""
    runs = []
    for rank in range(2):
        doing = Doing(10_000 * MS)
        for step in range(STEPS):
            doing.spend(MS, "user.app", 0)
            if rank and step < more:
                doing.spend(MS, "user.app", 1)
            doing.spend(8 * MS * rank, "wait.runnable", 0)
            doing.spend(10_000 * MS + (step + 1) * 12 * MS - doing.now, "wait.ipc", 2, outside=True)
        runs.append(with_calls(rank_of(rank, doing), rank))
    return runs


def test_a_few_samples_more_do_not_tell_that_a_rank_does_more() -> None:
    answer = told(crowded(5))
    assert not answer.holds
    assert "gets a CPU" in answer.headline
    assert told(crowded(STEPS)).holds


def test_waits_for_a_processor_do_not_choose_the_line() -> None:
    runs = []
    for rank in range(2):
        doing = Doing(10_000 * MS)
        for step in range(STEPS):
            doing.spend(4 * MS, "user.app", 0)
            doing.spend(6 * MS * rank, "wait.runnable", 0)
            doing.spend(5 * MS * rank, "fault.anon", 1)
            doing.spend(10_000 * MS + (step + 1) * 20 * MS - doing.now, "wait.ipc", 2, outside=True)
        runs.append(with_calls(rank_of(rank, doing), rank))
    (hold,) = told(runs).holds
    assert hold.lines[0].place == LOAD


def test_steps_are_counted_by_the_range_that_repeats() -> None:
    runs = launch(noisy(2), {(1, step): 10 * MS for step in range(STEPS)})
    ends = runs[1].spent.end_ns[runs[1].spent.place == 2]
    starts = np.append(runs[1].start_ns, ends[:-1])
    spans = RangeSpans(starts, ends, np.zeros(len(ends), np.int32), np.zeros(len(ends), np.int32))
    steps = steps_of("range", "train", starts)
    answer = told([runs[0], replace(runs[1], spans=spans, range_names=("train",), steps=steps)])
    assert answer.holds[0].unit == "train"
    assert answer.holds[0].meetings == len(ends)
    assert answer.holds[0].lines[0].range == "train"
    assert "range train" in answer.headline


def steps_of(by: Literal["range", "call"], what: str, starts: Int64) -> Steps:
    """Steps that begin then."""
    return Steps(by, what, len(starts), MS, MS, 0, tuple(starts.tolist()))


def pipeline(seed: int) -> list[RankRun]:
    """Two ranks that hand each other what they make: one takes ten times as long, and each waits for the other."""
    chance = random.Random(seed)  # no secret
    doing = [Doing(10_000 * MS) for _ in range(2)]
    for turn in range(4 * STEPS):
        slow = turn % 2
        doing[slow].spend(round((12 if slow else 1.4) * MS * chance.uniform(0.97, 1.03)), "fault.anon", 1)
        release = max(one.now for one in doing) + MS // 50
        for one in doing:
            one.spend(release - one.now, "wait.ipc", 2, outside=True)
    return [with_calls(rank_of(number, one), number) for number, one in enumerate(doing)]


@pytest.mark.parametrize("seed", range(3))
def test_the_slow_stage_of_a_pipeline_is_named_though_both_wait_equally_often(seed: int) -> None:
    (hold,) = told(pipeline(seed)).holds
    assert hold.ranks == (1,)
    assert hold.cost_ns == pytest.approx(2 * STEPS * 12 * MS, rel=0.05)


def test_steps_are_counted_by_calls_where_meetings_have_no_pattern() -> None:
    """Three meetings in each step, the rank is late at the first, but in one step."""
    steps = [step for step in range(STEPS) if step != 17]
    runs = launch(noisy(2, 3 * STEPS, 5 * MS), {(1, 3 * step): 30 * MS for step in steps})
    ends = runs[1].spent.end_ns[runs[1].spent.place == 2]
    starts = np.append(runs[1].start_ns, ends[2:-1:3])
    (hold,) = told([runs[0], replace(runs[1], steps=steps_of("call", "cudaLaunchKernel", starts))]).holds
    assert (hold.unit, hold.how, hold.meetings) == ("step", "always", STEPS)
    assert hold.held >= len(steps) - 1, "the first meeting is of the start"


def collectives(runs: list[RankRun], late: int, late_ns: int, clock_ns: int) -> list[RankRun]:
    """The same meetings as kernels: each rank's begins when it comes, all end together; the late one's clock is off."""
    made = []
    for run in runs:
        offset = clock_ns if run.number == late else 0
        release = np.arange(1, STEPS + 1) * 30 * MS + 10_000 * MS
        came = release - (0 if run.number == late else late_ns)
        kernels = RankWaits(came + offset, release + MS + offset, np.zeros(STEPS, np.int32))
        none = np.zeros(0, np.int64)
        made.append(
            replace(
                run,
                waits=RankWaits.empty(),
                collectives=kernels,
                collective_names=("ncclDevKernel_AllReduce_Sum_f32_RING_LL",),
                computing=Intervals(none, none),
                utc_offset_ns=1_700_000_000_000_000_000 - offset,
                start_ns=run.start_ns + offset,
                end_ns=run.end_ns + offset,
                spent=run.spent.moved(offset),
                phases={"work": (Interval(run.start_ns + offset, run.end_ns + offset),)},
            )
        )
    return made


def test_the_shortest_collective_tells_who_came_last_whatever_the_clocks() -> None:
    runs = collectives(launch(noisy(2), {}), late=1, late_ns=8 * MS, clock_ns=5_000 * MS)
    answer = told(runs)
    (hold,) = answer.holds
    assert hold.ranks == (1,)
    assert hold.cost_ns == pytest.approx(8 * MS * hold.meetings, rel=0.01)
    assert "2 machines" in answer.clock
    assert answer.uncertainty_ns < MS
    assert answer.ranks[0].start_ns == pytest.approx(answer.ranks[1].start_ns, abs=MS)


def test_a_collective_that_waits_beside_a_kernel_loses_nothing() -> None:
    runs = collectives(launch(noisy(2), {}), late=1, late_ns=8 * MS, clock_ns=0)
    whole = Intervals(np.array([runs[0].start_ns]), np.array([runs[0].end_ns + 10_000 * MS]))
    assert told([replace(runs[0], computing=whole), runs[1]]).verdict == "even"


def test_clocks_that_nothing_aligns_say_so() -> None:
    runs = launch(noisy(2), {})
    alone = [replace(run, waits=RankWaits.empty()) for run in runs]
    other = replace(alone[1], utc_offset_ns=alone[1].utc_offset_ns + 10_000 * MS if alone[1].utc_offset_ns else 0)
    answer = told([alone[0], other])
    assert "only UTC" in answer.clock
    assert answer.verdict == "unknown"


def test_ranks_that_behave_alike_are_one_row_and_the_node_adds_them_up() -> None:
    runs = launch(noisy(8), {(7, step): 10 * MS for step in range(STEPS)})
    begin = runs[0].start_ns
    runs = [
        replace(run, memory=memory_of([begin, begin + 100 * MS, begin + 200 * MS], [1 << 30] * 3, [0, 1 << 20, 0]))
        for run in runs
    ]
    answer = told(runs)
    assert [group.ranks for group in answer.groups] == [tuple(range(7)), (7,)]
    assert "fault.anon" in answer.groups[1].differs
    assert "load.py:31" in answer.groups[1].differs
    (node,) = answer.nodes
    assert node.together == {"rss": 8 << 30, "pinned": 8 << 20}
    assert node.memory_bytes == 64 << 30


def test_missing_and_unreadable_ranks_are_told() -> None:
    runs = launch(noisy(3), {})
    sized = replace(runs[0].manifest, outcome={"rank": {"number": 0, "size": 5}})
    answer = explain([replace(runs[0], manifest=sized), *runs[1:]], "job.ranks", {3: "It is damaged."})
    assert answer.missing == (3, 4)
    assert any("Rank 3 is left out: It is damaged." in note for note in answer.notes)
    assert any("No capture of rank 4" in note for note in answer.notes)
    with pytest.raises(CaptureError, match="needs two"):
        explain(runs[:1], "job.ranks", {})


def sampled(share: float, error: float) -> GpuSample:
    """What windows say of a GPU that is in collectives for so much of the time."""
    part = SampledShare(share, share - error, share + error)
    return GpuSample(7, 0, 40, 800 * MS, 40_000 * MS, part, part, part, part, ())


def by_windows(*shares: float) -> str:
    runs = launch([[5 * MS] * 20] * len(shares), {})
    known = [
        replace(run, uses_nccl=True, sampled=(sampled(share, 0.02),)) for run, share in zip(runs, shares, strict=True)
    ]
    return next(note for note in told(known).notes if "windows" in note)


def test_windows_tell_for_whom_gpus_wait_in_collectives() -> None:
    note = by_windows(0.4, 0.05, 0.42)
    assert "rank 1 5.0 % (3.0 % to 7.0 %), rank 0 40 % (38 % to 42 %), rank 2 42 % (40 % to 44 %)." in note
    assert note.endswith("The others' GPUs wait for rank 1.")


def test_windows_name_nobody_where_ranks_are_alike() -> None:
    assert "wait for" not in by_windows(0.4, 0.41, 0.42)
    assert "wait for" not in by_windows(0.05, 0.06)


def test_a_recording_of_the_start_alone_shows_no_collectives() -> None:
    unknown = replace(sampled(0, 0), collectives=None)
    runs = [replace(run, uses_nccl=True, sampled=(unknown,)) for run in launch([[5 * MS] * 20] * 2, {})]
    assert any("only at the start" in note for note in told(runs).notes)


def test_ranks_that_wait_much_longer_for_their_gpus_are_told_where_no_meeting_is_seen() -> None:
    runs = launch([[50 * MS] * 20, [5 * MS] * 20], {}, wait="sync.poll")
    runs = [replace(run, uses_nccl=True, waits=run.waits.take(slice(0))) for run in runs]
    answer = told(runs)
    assert answer.verdict == "unknown"
    (note,) = (note for note in answer.notes if "waits for its GPU" in note)
    assert note.startswith("Rank 1 waits for its GPU for 9")
    assert any("Record again without --inside off." in note for note in answer.notes)
