"""Whatever was recorded, promises stay within what was spent, and forged recordings break nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.course.course import course_of
from pinprof.analyze.course.results import PHASE_NAMES
from pinprof.analyze.opportunities.results import Opportunities
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.opportunities.search import search
from pinprof.data.activity import CallOverhead, CopyKind, MemoryKind
from pinprof.data.model import Capture
from tests.support.scenes import (
    COPIED,
    CREATED,
    FREE,
    HUGE,
    MAIN,
    MAPPED,
    MIB,
    MOVED,
    MS,
    PINNED,
    POLLS,
    SMALL,
    UVM,
    Traced,
    prices,
    ran,
    recorded,
    scene,
    waited,
)
from tests.support.stacks import Range, Sample

LOCK = (*MAIN, "cudaMalloc@/usr/lib/libcuda.so.1", "__x64_sys_ioctl", "rm_ioctl[nvidia]", "down_read", "schedule")
FUTEX = (*MAIN, "pthread_join@/libc.so.6", "__x64_sys_futex", "futex_wait", "schedule")
STACKS = (MAIN, SMALL, HUGE, FREE, COPIED, MAPPED, UVM, MOVED, PINNED, CREATED, POLLS, ("other@/app", *SMALL[1:]), ())
NAMES = (
    "cudaMallocHost", "cudaFreeHost", "cudaHostRegister", "cudaHostUnregister", "cudaMalloc", "cudaFree",
    "cudaMallocManaged", "cuMemcpyHtoD", "cuMemcpyDtoHAsync", "cuStreamSynchronize", "cuLaunchKernel",
)  # fmt: skip
KINDS = (MemoryKind.PAGEABLE, MemoryKind.PINNED, MemoryKind.DEVICE, MemoryKind.MANAGED, MemoryKind.UNKNOWN)


@st.composite
def loops(draw: st.DrawFn, length: int) -> list[Traced]:
    """A thread's calls, one after the other; some patterns repeat often."""
    made: list[Traced] = []
    now = float(draw(st.integers(0, 50)))
    for _ in range(draw(st.integers(0, 4))):
        body = [
            (
                draw(st.sampled_from(NAMES)), draw(st.sampled_from([0.01, 0.5, 3, 12])),
                draw(st.sampled_from([0, 0.02, 2])),
                draw(st.sampled_from([-1, 0, 4, 4096, MIB, 40 * MIB, 512 * MIB])), draw(st.integers(-1, 1)),
                draw(st.sampled_from(KINDS)), draw(st.booleans()),
            )
            for _ in range(draw(st.integers(1, 3)))
        ]  # fmt: skip
        for turn in range(draw(st.sampled_from([1, 3, 20, 300]))):
            for name, takes, apart, size, site, kind, file in body:
                if now + takes > length:
                    return made
                way = CopyKind.HOST_TO_DEVICE if "HtoD" in name else CopyKind.DEVICE_TO_HOST if "DtoH" in name else 255
                made.append(Traced(name, now, now + takes, size, site, way, kind, kind, turn % 3 * 4096, file))
                now += takes + apart
    return made


@st.composite
def runs(draw: st.DrawFn) -> Capture:
    """A program of one or two threads."""
    samples: list[Sample] = []
    now = 0
    for _ in range(draw(st.integers(1, 8))):
        takes = draw(st.integers(1, 120))
        stack = draw(st.sampled_from(STACKS))
        blocked = draw(st.sampled_from([None, None, None, LOCK, FUTEX]))
        samples += waited(now, now + takes, blocked) if blocked else ran(now, now + takes, stack)
        now += takes
    calls = draw(loops(now))
    if draw(st.booleans()):
        begin, end = sorted(draw(st.tuples(st.integers(0, now), st.integers(0, now))))
        samples += ran(begin, end, draw(st.sampled_from(STACKS)), tid=101)
        if draw(st.booleans()) and end > begin:
            calls.append(Traced("cudaMallocHost", begin, end, 1024 * MIB, 1, tid=101))
    ranges = [Range("part", 0, now * MS // 2, pid=100, tid=100)] if draw(st.booleans()) else []
    overhead = CallOverhead(5_000, 7_000) if draw(st.booleans()) else None
    return recorded(samples, calls, ranges=ranges, overhead=overhead)


def assert_within(answer: Opportunities) -> None:
    for one in answer.found:
        assert 0 <= one.saving.low_ns <= one.saving.likely_ns <= one.saving.high_ns
        assert one.saving.likely_ns <= one.cost_ns
        assert one.site.place
        assert one.title
        assert one.cure.text
        assert all(isinstance(sentence, str) and len(sentence) > 1 for sentence in one.basis)
    assert [one.rank for one in answer.found] == list(range(1, len(answer.found) + 1))
    for refused in answer.refused:
        assert refused.reason


def assert_promised_once(shown: Scene, answer: Opportunities) -> None:
    for phase in PHASE_NAMES:
        promised = [(one.saving.likely_ns, one.title) for one in answer.found if one.phase == phase]
        assert sum(likely for likely, _ in promised) <= 1.01 * shown.phase_ns(phase) + MS, promised


@pytest.mark.slow
@given(runs())
@settings(max_examples=40)
def test_promises_lie_within_costs_and_phases(made: Capture) -> None:
    shown = scene(made)
    answer = search(shown)
    assert_within(answer)
    assert_promised_once(shown, answer)


EXTREMES = st.sampled_from(
    [0, 1, -1, -(1 << 62), (1 << 62), (1 << 63) - 1, -(1 << 63), 10**9, 1 << 40, 1000, 50 * MS, 90 * MS]
)


@st.composite
def forged(draw: st.DrawFn) -> Capture:
    """A run whose calls' columns say what no recorder writes."""
    made = draw(runs())
    if made.activity is None:
        return made
    calls = made.activity.calls
    for name in draw(st.sets(st.sampled_from(["size_bytes", "start_ns", "end_ns", "host_address", "site", "status"]))):
        column = getattr(calls, name).copy()
        for _ in range(draw(st.integers(1, 5))):
            row, value = draw(st.integers(0, len(calls) - 1)), draw(EXTREMES)
            limits = np.iinfo(column.dtype)
            low, high = (-1, len(calls.sites) - 1) if name == "site" else (int(limits.min), int(limits.max))
            column[row] = min(max(value, low), high)
        calls = replace(calls, **{name: column})
    order = np.argsort(calls.start_ns, kind="stable")
    return replace(made, activity=replace(made.activity, calls=calls.take(order)))


@pytest.mark.slow
@given(forged())
@settings(max_examples=40)
def test_forged_calls_break_no_search(made: Capture) -> None:
    calls = prepare_calls(made.activity) if made.activity is not None else None
    if course_of(made, attribute(made), calls) is not None:
        assert_within(search(scene(made)))


def test_empty_tables_have_no_opportunity() -> None:
    shown = scene(recorded(ran(0, 1), [Traced("cuInit", 0, 0)]), prices())
    assert search(shown).found == ()
