"""Opportunities and courses as an analysis returns them, written by hand: for the tests of what shows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze import Run
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.course.results import Course, Interval, Phase, Steps, WallTable
from pinprof.analyze.opportunities.results import (
    Cure,
    Evidence,
    Opportunities,
    Opportunity,
    PerStep,
    Refused,
    Saving,
    ToMeasure,
)
from pinprof.analyze.results import main_event
from pinprof.analyze.sites import Site
from pinprof.data.model import NO_NODE
from tests.support.facts import with_facts

MS = 1_000_000
POOL = """cudaMemPool_t pool;
cudaDeviceGetDefaultMemPool(&pool, device);
buffer = pool.take(bytes);  // once, before the loop"""


def opportunity(rank: int = 1, title: str = "", text: str = "", samples: frozenset[int] = frozenset()) -> Opportunity:
    """One that saves 1.3 of 1.41 s; `text` takes the place of every name from the program."""
    return Opportunity(
        rank=rank,
        title=title or f"{text or 'alloc_pairs.cu:11'} pins and frees 1,859 buffers of 1 MiB repeatedly",
        site=Site(text or "step", text or "alloc_pairs.cu", 11, text or "alloc_pairs", text),
        causes={"pin.faultin": 900 * MS, "pin.walk": 510 * MS},
        phase="work",
        count=1859,
        bytes=1859 << 20,
        cost_ns=1410 * MS,
        cure=Cure(
            "pool",
            f"Allocate one pinned buffer before the loop and use it again. {text}".strip(),
            f"{POOL}\n{text}" if text else POOL,
            f"PINPROF_POOL={text or 1}",
        ),
        saving=Saving(1100 * MS, 1300 * MS, 1400 * MS),
        basis=(f"759 µs a pair, measured in this run. {text}".strip(), "The first allocation stays."),
        evidence=(
            Evidence("1,859 cudaHostAlloc calls of 1 MiB take 1.2 s.", f"report --explain pin.faultin {text}".strip()),
        ),
        per_step=PerStep(22 * MS, 30 * MS, 60, 60),
        samples=samples,
    )


def opportunities(found: int = 2, text: str = "", samples: frozenset[int] = frozenset()) -> Opportunities:
    """So many, each smaller than the one before; with none, nothing to gain."""
    rows = []
    for rank in range(1, found + 1):
        one = opportunity(rank, text=text, samples=samples)
        part = replace(one.saving, **{key: value // rank for key, value in vars(one.saving).items()})
        rows.append(replace(one, saving=part, cost_ns=one.cost_ns // rank))
    headline = (
        f"{rows[0].title}: a pool saves 1.3 s of 1.8 s."
        if rows
        else "Nothing to gain in host memory: it costs 12 ms of 1.8 s of work (0.7 %)."
    )
    refused = (
        (Refused(f"Pin the weights {text}".strip(), rows[0].site, "Copied once: pinning costs 85 ms and saves 22 ms."),)
        if rows
        else ()
    )
    unknown = "It takes 40 ms. Depends on the caches."
    to_measure = tuple(
        ToMeasure(f"Fills memory {text}".strip(), one.site, 40 * MS, one.cure, unknown) for one in rows[:1]
    )
    return Opportunities(tuple(rows), to_measure, refused, ("Copies by other libraries were not traced.",), headline)


def course(
    start_ns: int, pid: int = 100, tid: int = 100, steps: bool = True, what: str = "cudaMemcpy in step (a.cu:20)"
) -> Course:
    """2.4 s from `start_ns`: start-up 300 ms, context 200 ms, work 1.8 s in two parts, exit 100 ms."""

    def part(first: int, last: int) -> Interval:
        return Interval(start_ns + first * MS, start_ns + last * MS)

    phases = (
        Phase("start-up", (part(0, 300),)),
        Phase("context", (part(300, 400), part(900, 1000))),
        Phase("work", (part(400, 900), part(1000, 2300))),
        Phase("exit", (part(2300, 2400),)),
    )
    empty64, empty32 = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return Course(
        pid=pid,
        tid=tid,
        start_ns=start_ns,
        end_ns=start_ns + 2400 * MS,
        phases=phases,
        steps=Steps("call", what, 60, 20_100_000, 31 * MS, start_ns + 2000 * MS) if steps else None,
        wall=WallTable(empty64, empty64, empty32, empty32, empty32),
    )


def with_opportunities(analysis: Run, found: int = 2, text: str = "") -> Run:
    """An analysis as if the search had found something in its heaviest cause's samples."""
    capture, main = analysis.capture, main_event(analysis.events)
    stacks: frozenset[int] = frozenset()
    if main is not None:
        samples, leaf = capture.samples, LEAF[next(iter(main.by_leaf))]
        rows = (analysis.attribution.leaf == leaf) & (samples.event == analysis.events.index(main))
        stacks = frozenset(np.unique(samples.stack[rows & (samples.stack != NO_NODE)]).tolist())
    pid, tid = (int(capture.samples.pid[0]), int(capture.samples.tid[0])) if len(capture.samples) else (1, 1)
    start = int(capture.samples.time_ns.min()) if len(capture.samples) else 0
    return with_facts(
        analysis, course=course(start, pid, tid), opportunities=opportunities(found, text=text, samples=stacks)
    )
