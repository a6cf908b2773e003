"""Ranks of a launch, built from what each did: no recording, no capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.course.results import Interval
from pinprof.analyze.intervals import Intervals, union
from pinprof.analyze.memory import MemoryResult
from pinprof.data.manifest import Manifest
from pinprof.ranks.calls import ALL, RankCalls
from pinprof.ranks.rank_run import RangeSpans, RankRun
from pinprof.ranks.spent import ProgramPlace, Spent
from pinprof.ranks.waits import RankWaits, waits_for_others

MS = 1_000_000
WORK = ProgramPlace("step.py:10", "step.py", "step", 10)
LOAD = ProgramPlace("load.py:31", "load.py", "load", 31)
BARRIER = ProgramPlace("comm.py:7", "comm.py", "barrier", 7)
PLACES = (WORK, LOAD, BARRIER)
HOST = {"kernel": "6.12", "cpu": "test", "memory_bytes": 64 << 30, "cores": 8, "numa_nodes": 2, "page_bytes": 4096}


@dataclass
class Doing:
    """One rank while it is built: pieces of its thread's time one after the other."""

    now: int
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    cause: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    outside: list[bool] = field(default_factory=list)

    def spend(self, ns: int, cause: str, place: int, *, outside: bool = False) -> None:
        """So much time on a cause at a place."""
        if ns <= 0:
            return
        self.start.append(self.now)
        self.now += ns
        self.end.append(self.now)
        self.cause.append(LEAF[cause])
        self.place.append(place)
        self.outside.append(outside)


def launch(
    work_ns: Sequence[Sequence[int]],
    late_ns: Mapping[tuple[int, int], int],
    *,
    begin_ns: int = 10_000 * MS,
    wait: str = "wait.ipc",
) -> list[RankRun]:
    """Ranks that work for `work_ns[rank][step]`, then as much longer at `LOAD` as `late_ns[rank, step]`, and meet."""
    ranks, steps = len(work_ns), len(work_ns[0])
    doing = [Doing(begin_ns) for _ in range(ranks)]
    for step in range(steps):
        for rank, one in enumerate(doing):
            one.spend(work_ns[rank][step], "user.app", 0)
            one.spend(late_ns.get((rank, step), 0), "fault.anon", 1)
        release = max(one.now for one in doing) + MS // 50
        for one in doing:
            one.spend(release - one.now, wait, 2, outside=True)
    return [rank_of(number, one) for number, one in enumerate(doing)]


def rank_of(number: int, doing: Doing, **changes: object) -> RankRun:
    """A rank that did this."""
    spent = Spent(
        start_ns=np.array(doing.start, np.int64),
        end_ns=np.array(doing.end, np.int64),
        ns=np.array(doing.end, np.int64) - np.array(doing.start, np.int64),
        cause=np.array(doing.cause, np.int16),
        place=np.array(doing.place, np.int32),
        outside=np.array(doing.outside, np.bool_),
    )
    none = np.zeros(0, np.int64)
    begin, end = int(spent.start_ns[0]), int(spent.end_ns[-1])
    run = RankRun(
        number=number,
        path=f"job.ranks/rank-{number}.pinprof",
        manifest=Manifest(1, "test", ("train.py",), {}, HOST, (), {"rank": {"number": number, "launch": "job"}}),
        utc_offset_ns=1_700_000_000_000_000_000,
        start_ns=begin,
        end_ns=end,
        phases={"work": (Interval(begin, end),)},
        places=PLACES,
        spent=spent,
        waits=waits_for_others(spent, union(none, none)),
        collectives=RankWaits.empty(),
        collective_names=(),
        computing=Intervals(none, none),
        uses_nccl=False,
        spans=RangeSpans.empty(),
        range_names=(),
        steps=None,
        memory=None,
        machine={},
    )
    return replace(run, **changes)  # type: ignore[arg-type]


def with_calls(run: RankRun, rank: int) -> RankRun:
    """A rank that meets others by calls of its thread alone: by its samples it works all the time."""
    waits = run.spent.outside
    start, end = run.spent.start_ns[waits], run.spent.end_ns[waits]
    calls = RankCalls.of(
        len(start), start_ns=start, end_ns=end, number=np.arange(1, len(start) + 1), waits=ALL, own=True, place=2,
        groups=((77,),), roles=((77, rank),),
    )  # fmt: skip
    return replace(
        run,
        waits=RankWaits.empty(),
        calls=calls,
        busy=union(run.spent.start_ns, run.spent.end_ns),
        blocking=union(start, end),
    )


def memory_of(time_ns: Sequence[int], rss: Sequence[int], pinned: Sequence[int]) -> MemoryResult:
    """What a rank held at these times."""
    together = {"rss": np.array(rss, np.int64), "pinned": np.array(pinned, np.int64)}
    return MemoryResult(
        looks=len(time_ns),
        time_ns=np.array(time_ns, np.int64),
        together=together,
        peak={name: int(values.max()) for name, values in together.items()},
        processes=1,
        lowest_free_bytes=None,
        growth={},
        program_faults=None,
    )
