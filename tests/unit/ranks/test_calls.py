"""Meetings by the ranks' own calls: who waits for whom, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.intervals import Intervals
from pinprof.data.activity import Caller
from pinprof.data.meeting_calls import Communicator, MeetingCalls
from pinprof.data.model import BY_THREAD, NO_NODE, OFF_CPU, READY, SampleTable, WakeupTable
from pinprof.ranks import calls as of_calls
from pinprof.ranks import meetings as of_meetings
from pinprof.ranks.calls import ALL, GATHER, LATER, NEVER, PAIR, ROOT, Group, RankCalls, matched, rank_calls
from pinprof.ranks.clocks import clocks_of
from pinprof.ranks.engine import explain
from pinprof.ranks.meetings import meetings_of
from pinprof.ranks.rank_run import RankRun, moved
from pinprof.ranks.spent import NO_PLACE, ProgramPlace, Spent
from pinprof.ranks.waits import RankWaits
from tests.support.launches import BARRIER, HOST, LOAD, MS, WORK, Doing, launch, rank_of, with_calls
from tests.support.stacks import capture

WORLD: Group = (77,)
NOBODY = np.zeros(5, np.bool_)
STEPS = 30


def calls(
    times: Sequence[tuple[int, int]],
    waits: int = ALL,
    *,
    rank: int = 0,
    is_root: bool = False,
    group: Group = WORLD,
    first: int = 1,
) -> RankCalls:
    """Calls of one kind by one rank of a communicator, from begin to end in milliseconds."""
    count = len(times)
    start, end = (np.array([pair[side] * MS for pair in times], np.int64) for side in (0, 1))
    return RankCalls.of(
        count, start_ns=start, end_ns=end, number=np.arange(first, first + count), waits=waits, is_root=is_root,
        own=True, place=2, groups=(group,), roles=((group[0], rank),),
    )  # fmt: skip


def releases(*ranks: RankCalls) -> list[tuple[float, list[int]]]:
    """Per meeting when the last had come, in milliseconds, and who takes part."""
    named = [replace(one, roles=((WORLD[0], number),)) for number, one in enumerate(ranks)]
    met = matched(named, later=False)
    return [
        (float(met.release_ns[rows][0] / MS), met.rank[rows].tolist())
        for rows in (np.flatnonzero(met.meeting == number) for number in np.unique(met.meeting))
    ]


def spinning(late_ms: int, *, ranks: int = 3) -> list[RankRun]:
    """Ranks that meet by calls and spin in them: by their samples they work all the time. The last one is late."""
    runs = launch([[10 * MS] * STEPS] * ranks, {(ranks - 1, step): late_ms * MS for step in range(STEPS)})
    return [with_calls(run, rank) for rank, run in enumerate(runs)]


def test_a_late_rank_is_known_by_calls_though_all_spin() -> None:
    answer = explain(spinning(20), "job.ranks", {})
    (hold,) = answer.holds
    assert (hold.ranks, hold.held, hold.meetings) == ((2,), STEPS - 1, STEPS - 1)  # the first is the start
    assert hold.place == BARRIER
    assert hold.lines[0].place == LOAD
    assert hold.cost_ns == pytest.approx((STEPS - 1) * 20 * MS, rel=0.01)
    assert hold.shown == 1


def test_ranks_that_spin_alike_are_not_accused() -> None:
    answer = explain(spinning(0), "job.ranks", {})
    assert (answer.verdict, answer.holds) == ("even", ())


def test_in_a_barrier_all_wait_for_the_last() -> None:
    assert releases(calls([(0, 9)]), calls([(5, 9)]), calls([(8, 9)])) == [(8, [0, 1, 2])]


def test_for_a_broadcast_nobody_waits_but_for_the_root() -> None:
    root = calls([(5, 6)], ROOT, is_root=True)
    assert releases(root, calls([(0, 6)], ROOT), calls([(90, 91)], ROOT)) == [(5, [0, 1])]
    assert releases(root, calls([(7, 8)], ROOT), calls([(90, 91)], ROOT)) == []


def test_in_a_reduction_the_root_waits_for_the_last_and_others_for_nobody() -> None:
    root = calls([(2, 9)], GATHER, is_root=True)
    assert releases(root, calls([(0, 1)], GATHER), calls([(8, 9)], GATHER)) == [(8, [0, 2])]
    late = calls([(20, 21)], GATHER, is_root=True)
    assert releases(late, calls([(0, 1)], GATHER), calls([(8, 20)], GATHER)) == [(20, [0, 2])]


def test_a_message_is_awaited_by_whoever_comes_first() -> None:
    pair: Group = (77, 0, 1, 5)
    sent, received = calls([(4, 5), (30, 41)], PAIR, group=pair), calls([(0, 5), (40, 41)], PAIR, group=pair)
    assert releases(sent, received) == [(4, [0, 1]), (40, [0, 1])]
    eager = calls([(0, 1)], PAIR, group=pair)
    assert releases(eager, calls([(3, 4)], PAIR, group=pair)) == []


def test_a_communicator_that_two_ranks_know_as_the_same_rank_of_is_none() -> None:
    assert len(matched([calls([(0, 9)], rank=1), calls([(5, 9)], rank=1)], later=False)) == 0
    assert len(matched([calls([(0, 9)], rank=0), calls([(5, 9)], rank=1)], later=False)) == 2


def test_calls_of_another_number_are_another_meeting() -> None:
    assert releases(calls([(0, 9)]), calls([(5, 9)], first=2)) == []


def enqueueing(begin: Sequence[int], busy: Sequence[tuple[int, int]], rank: int) -> RankRun:
    """A rank that enqueues collectives, and works at these times; it lives from 0 to 100 ms."""
    doing = Doing(0)
    doing.spend(100 * MS, "wait.gpu", 2)
    run = rank_of(rank, doing)
    start, end = (np.array([part[side] * MS for part in busy], np.int64) for side in (0, 1))
    times = [(one, one) for one in begin]
    return replace(run, calls=calls(times, LATER, rank=rank), busy=Intervals(start, end))


def test_time_in_which_a_rank_waits_for_the_gpu_is_lost_once_for_all_collectives() -> None:
    early, late = enqueueing([10, 11, 12], [(0, 12)], 0), enqueueing([50, 51, 52], [(0, 52)], 1)
    met = meetings_of([early, late])
    assert met.release_ns.tolist() == [50 * MS, 51 * MS, 52 * MS]
    assert met.lost_ns[:, 0].sum() == pytest.approx(40 * MS)
    assert met.wait_ns[:, 1].tolist() == [0, 0, 0]


def test_time_in_which_a_rank_works_on_is_not_lost() -> None:
    early, late = enqueueing([10], [(0, 45)], 0), enqueueing([50], [(0, 50)], 1)
    met = meetings_of([early, late])
    assert met.wait_ns[0, 0] == 40 * MS
    assert met.lost_ns[0, 0] == 5 * MS


def test_clocks_of_machines_are_joined_by_numbers() -> None:
    runs = [replace(run, utc_offset_ns=None) for run in spinning(20, ranks=2)]
    other = moved(runs[1], -(10**12))
    host = {**HOST, "cpu": "another"}
    other = replace(other, manifest=replace(other.manifest, host=host))
    clocks = clocks_of([runs[0], other])
    assert clocks.machines == 2
    assert clocks.offset_ns == (0, 10**12)


def recorded(rows: Sequence[tuple[str, int, int, int]]) -> MeetingCalls:
    """Calls of thread 7 of process 7, one after another: function, communicator, number, peer; one more of thread 8."""
    start = np.arange(len(rows), dtype=np.int64) * 10 * MS
    names = tuple(dict.fromkeys(row[0] for row in rows))
    return MeetingCalls.of(
        len(rows), start_ns=start, end_ns=start + 4 * MS, pid=7, tid=[7] * (len(rows) - 1) + [8],
        name=[names.index(row[0]) for row in rows], communicator=[row[1] for row in rows],
        number=[row[2] for row in rows], peer=[row[3] for row in rows], tag=3, size_bytes=-1,
        site=[0] * (len(rows) - 1) + [-1], names=names, sites=(Caller("step", "train.py", 9, "/home/me/train.py"),),
        communicators=(Communicator(77, 1, 4), Communicator(78, 0, 2)),
    )  # fmt: skip


def test_a_recording_says_which_calls_wait_for_whom_and_where() -> None:
    gloo = "_ZN4gloo7barrierERNS_14BarrierOptionsE"
    rows = [
        ("MPI_Init", -1, 0, -1), ("MPI_Allreduce", 0, 1, -1), ("MPI_Bcast", 0, 2, 1), ("MPI_Send", 0, 0, 3),
        ("MPI_Recv", 0, 0, 3), ("MPI_Send", 0, 0, 3), ("MPI_Recv", 0, 0, -1), ("ncclAllReduce", 1, 1, -1),
        (gloo, 1, 5, -1),
    ]  # fmt: skip
    found, blocking, meeting, places = rank_calls(recorded(rows), 7, 7, (WORK,))
    assert places[1:] == (ProgramPlace("train.py:9", "/home/me/train.py", "step", 9),)
    groups = [found.groups[one] for one in found.group.tolist()]
    assert groups == [(77,), (77,), (77, 1, 3, 3), (77, 3, 1, 3), (77, 1, 3, 3), (78,), (78,)]
    assert found.number.tolist() == [1, 2, 1, 1, 2, 1, 5]
    assert found.waits.tolist() == [ALL, ROOT, PAIR, PAIR, PAIR, LATER, ALL]
    assert found.is_root.tolist() == [False, True, False, False, False, False, False]
    assert found.own.tolist() == [True] * 6 + [False]
    assert found.place.tolist() == [1] * 6 + [NO_PLACE]
    # A call with an unknown partner is a wait, too; one of NCCL, or of another thread, is none.
    assert (blocking.total, meeting.total) == (7 * 4 * MS, 8 * 4 * MS)
    nothing, none, never, same = rank_calls(None, 7, 7, (WORK,))
    assert (len(nothing), none.total, never.total, same) == (0, 0, 0, (WORK,))


def done(*pieces: tuple[int, str, int]) -> Spent:
    """A thread's time: milliseconds, cause and place of each piece."""
    doing = Doing(0)
    for ms, cause, place in pieces:
        doing.spend(ms * MS, cause, place)
    return rank_of(0, doing).spent


def test_in_a_call_a_thread_waits_but_not_while_it_could_run() -> None:
    spent = done((10, "user.app", 0), (4, "user.app", 2), (3, "wait.runnable", 2), (10, "user.app", 0))
    call = Intervals(np.array([10 * MS]), np.array([17 * MS]))
    assert of_calls.outside(spent, NOBODY[:4], call, call).tolist() == [False, True, False, False]


def test_in_a_call_of_another_thread_a_thread_waits_only_where_it_does_nothing() -> None:
    pieces = (4, "user.app", 0), (3, "wait.lock", 2), (2, "wait.runnable", 2), (5, "wait.disk", 0), (6, "wait.lock", 2)
    call = Intervals(np.array([0]), np.array([14 * MS]))
    assert of_calls.outside(done(*pieces), NOBODY, NEVER, call).tolist() == [False, True, False, False, False]


def test_what_the_thread_does_that_makes_a_call_is_a_part_of_the_meeting() -> None:
    pieces = (4, "user.app", 0), (3, "user.app", 2), (2, "wait.runnable", 2), (5, "user.app", 2), (6, "user.app", 2)
    call, caller = Intervals(np.array([0]), np.array([14 * MS])), np.array([False, True, True, False, True])
    assert of_calls.outside(done(*pieces), caller, NEVER, call).tolist() == [False, True, False, False, False]


def woken(*, wake: int, waits: Sequence[tuple[int, int, int, int]]) -> float:
    """When a rank came, in milliseconds, whose thread 8 makes a call at 50 ms after it was woken at `wake`.

    `waits` are (thread, begin, end, bits) in milliseconds.
    """
    waits = sorted(waits, key=lambda wait: wait[1])
    tid, begin, end, bits = (np.array(column) for column in zip(*waits, strict=True))
    samples = SampleTable.of(
        len(waits), time_ns=begin * MS, weight=(end - begin) * MS, pid=7, tid=tid, wait=bits.astype(np.uint8),
        cpu=-1, event=0, stack=NO_NODE,
    )  # fmt: skip
    wakes = WakeupTable.of(1, time_ns=wake * MS, pid=7, tid=7, woken=8, context=BY_THREAD, stack=NO_NODE)
    recording = replace(capture([], events=(OFF_CPU,)), samples=samples, wakeups=wakes)
    made = MeetingCalls.of(
        1, start_ns=50 * MS, end_ns=60 * MS, pid=7, tid=8, communicator=0, number=1, peer=-1, size_bytes=-1, site=-1,
        names=("gloo",), communicators=(Communicator(77, 0, 2),), sites=(),
    )  # fmt: skip
    return float(of_calls.woken(made, recording, 7, 7).start_ns[0] / MS)


def test_a_rank_comes_when_the_thread_is_woken_that_makes_its_call_not_when_it_gets_a_processor() -> None:
    main = (7, 41, 60, 0)
    assert woken(wake=41, waits=[main, (8, 10, 50, 0)]) == 41
    # It is preempted once more, before it makes the call.
    assert woken(wake=41, waits=[main, (8, 10, 45, 0), (8, 45, 50, READY)]) == 41


def test_what_a_thread_does_or_waits_for_after_it_was_woken_makes_its_rank_late() -> None:
    main = (7, 41, 60, 0)
    assert woken(wake=41, waits=[main, (8, 10, 42, 0)]) == 50
    assert woken(wake=41, waits=[main, (8, 10, 42, 0), (8, 42, 50, 0)]) == 50


def test_a_thread_that_is_woken_before_the_work_is_done_comes_when_the_critical_thread_waits() -> None:
    assert woken(wake=20, waits=[(7, 41, 60, 0), (8, 10, 50, 0)]) == 41
    assert woken(wake=20, waits=[(7, 5, 60, 0), (8, 10, 50, 0)]) == 20


def test_to_be_ready_is_a_part_of_what_a_thread_does_most_at_a_place() -> None:
    spent = done((10, "user.app", 0), (5, "wait.runnable", 0), (9, "wait.lock", 2), (3, "wait.runnable", 2))
    assert of_calls.busy(spent).total == 15 * MS


def test_whoever_goes_on_late_after_a_meeting_comes_late_to_the_next_for_want_of_a_processor() -> None:
    """All do the same; rank 1 gets its processor back 6 ms after each meeting, still in its call."""
    runs = []
    for rank in range(3):
        doing = Doing(10_000 * MS + (6 * MS if rank == 1 else 0))
        for _ in range(STEPS):
            doing.spend(10 * MS, "user.app", 0)
            doing.spend(0 if rank == 1 else 6 * MS, "user.app", 2, outside=True)
            doing.spend(MS, "user.app", 2, outside=True)
            doing.spend(6 * MS if rank == 1 else 0, "wait.runnable", 2)
        run = rank_of(rank, doing)
        call = run.spent.place == 2
        first = np.flatnonzero(call & ~np.append(False, call[:-1]))
        last = np.flatnonzero(call & ~np.append(call[1:], False))
        start, end = run.spent.start_ns[first], run.spent.end_ns[last]
        met = RankCalls.of(
            STEPS, start_ns=start, end_ns=end, number=np.arange(1, STEPS + 1), waits=ALL, own=True, place=2,
            groups=(WORLD,), roles=((WORLD[0], rank),),
        )  # fmt: skip
        busy = of_calls.busy(run.spent)
        runs.append(replace(run, waits=RankWaits.empty(), calls=met, busy=busy, blocking=Intervals(start, end)))
    answer = explain(runs, "job.ranks", {})
    assert not answer.holds
    assert answer.headline.startswith("No rank does more than the others. Rank 1 comes last")
    assert "because it gets a CPU" in answer.headline


def test_rows_of_ranks_are_found_in_one_pass() -> None:
    met = matched([calls([(0, 9), (10, 19)], rank=rank) for rank in range(3)], later=False)
    assert [met.rank[rows].tolist() for rows in met.by_rank(4)] == [[0, 0], [1, 1], [2, 2], []]
    assert [met.meeting[rows].tolist() for rows in met.by_rank(4)][1] == [0, 1]


@pytest.mark.parametrize("ranks", [4, 16])
def test_matching_takes_one_row_for_each_call(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_rows = []
    lexsort = np.lexsort
    monkeypatch.setattr(of_calls.np, "lexsort", lambda keys: sorted_rows.append(len(keys[0])) or lexsort(keys))
    times = [(10 * step, 10 * step + 5) for step in range(50)]
    met = matched([calls(times, rank=rank) for rank in range(ranks)], later=False)
    assert len(met) == 50 * ranks
    assert sum(sorted_rows) == 2 * 50 * ranks


def test_waits_where_calls_are_made_are_no_meetings_of_their_own() -> None:
    (run,) = launch([[10 * MS] * STEPS], {})
    at = np.arange(1, 4) * 15 * MS
    run = replace(run, waits=RankWaits(at, at + MS, np.array([2, 0, 2], np.int32)))
    none = matched([RankCalls.empty()], later=False)
    assert of_meetings._without(run, none, {BARRIER.key}).waits.place.tolist() == [0]
    assert len(of_meetings._without(run, none, set()).waits) == 3
