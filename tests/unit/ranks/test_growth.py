"""What an answer about a launch takes grows with its meetings and its ranks, and no faster: see report/test_growth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from pinprof.analyze import analyze
from pinprof.data.meeting_calls import Communicator, MeetingCalls
from pinprof.ranks.engine import explain
from pinprof.ranks.rank_run import RankRun, rank_run
from pinprof.report.ranks.sections import FORMS
from tests.support.launches import MS, launch, with_calls
from tests.support.scenes import ran, recorded, waited
from tests.support.work import calls, peak_bytes
from tests.unit.report.test_growth import EXPONENT, LOCK

Runs = Callable[[], list[RankRun]]


def waits(meetings: int, ranks: int = 4) -> Runs:
    """Waits that end together; one rank is late at every other meeting."""
    runs = launch([[20 * MS + n % 3 for n in range(meetings)]] * ranks, dict.fromkeys(_late(meetings), 10 * MS))
    return lambda: runs


def _late(meetings: int) -> list[tuple[int, int]]:
    return [(1, step) for step in range(0, meetings, 2)]


def collectives(meetings: int, ranks: int = 4) -> Runs:
    """The same by calls, in which ranks spin."""
    runs = launch([[20 * MS] * meetings] * ranks, dict.fromkeys(_late(meetings), 10 * MS), wait="user.app")
    called = [with_calls(run, rank) for rank, run in enumerate(runs)]
    return lambda: called


def recordings(meetings: int) -> Runs:
    """Two recordings of ranks that meet by calls, and what is read of these."""
    captures = []
    for rank in range(2):
        # Each comes first in turns.
        come = [10 * n + 2 + 4 * ((n + rank) % 2) for n in range(meetings)]
        samples = [each for n, at in enumerate(come) for each in (*ran(10 * n, at), *waited(at, 10 * n + 9, LOCK))]
        made = MeetingCalls.of(
            meetings, start_ns=[at * MS for at in come], end_ns=[(10 * n + 9) * MS for n in range(meetings)], pid=100,
            tid=100, communicator=0, number=range(1, meetings + 1), peer=-1, size_bytes=8, site=-1,
            names=("MPI_Barrier",), communicators=(Communicator(77, rank, 2),), sites=(),
        )  # fmt: skip
        captures.append(replace(recorded(samples), meetings=made))

    def read() -> list[RankRun]:
        runs = [rank_run(analyze(capture), number) for number, capture in enumerate(captures)]
        return [run for run in runs if run is not None]

    return read


def many_ranks(made: Callable[[int, int], Runs]) -> Callable[[int], Runs]:
    """The same meetings of more ranks."""
    return lambda ranks: made(8, ranks)


@pytest.mark.parametrize(
    "made",
    [waits, collectives, recordings, many_ranks(waits), many_ranks(collectives)],
    ids=["waits", "collectives", "recordings", "ranks that wait", "ranks that call"],
)
def test_work_grows_no_faster_than_meetings_and_ranks(made: Callable[[int], Runs]) -> None:
    answered, held, written = [], [], []
    for times in (1, 4, 16, 64):
        runs = made(4 * times)
        answer = explain(runs(), "job.ranks", {})
        answered.append(calls(lambda: explain(runs(), "job.ranks", {})))  # noqa: B023 — it is called at once
        held.append(peak_bytes(lambda: explain(runs(), "job.ranks", {})))  # noqa: B023
        written.append(calls(FORMS.of(answer).to_json))
    assert sum(rank.last for rank in answer.ranks) >= 4
    for counted in (answered, held, written):
        for fewer, more in pairwise(counted[1:]):
            assert more <= 4**EXPONENT * fewer, (answered, held, written)
