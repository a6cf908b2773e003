"""Calls and sums of the agent as a table of calls: counts, bytes and times stay, and no two of a thread overlap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.data.activity import Activity, ApiCallTable, MemoryKind
from pinprof.read.inside import calls as inside_calls
from pinprof.read.inside import file as inside_file
from pinprof.read.inside import sums
from pinprof.read.inside.calls import InsideCalls
from pinprof.read.inside.layout import Flag
from pinprof.read.symbols.resolver import Resolver
from tests.support.agent_file import call, chunk, header, site, total

T = 2_000_000
COPY = "cuMemcpyHtoDAsync"


def combined(*files: bytes) -> InsideCalls:
    loaded = [inside_file.parse(file) for file in files]
    return inside_calls.combine(
        [file for file in loaded if file is not None], Resolver(), unreadable=loaded.count(None)
    )


def table(*units: bytes) -> ApiCallTable:
    return combined(header() + chunk(*units)).activity.calls


def test_a_sum_becomes_as_many_calls_with_all_bytes_and_time() -> None:
    calls = table(total(T, T + 10_000, 7, 703, COPY, bytes=1000))
    assert len(calls) == 7
    assert calls.size_bytes is not None
    assert int(calls.size_bytes.sum()) == 1000
    assert int((calls.end_ns - calls.start_ns).sum()) == 703
    assert (int(calls.start_ns.min()), int(calls.end_ns.max())) == (T, T + 10_000)


def test_summed_calls_make_way_for_others() -> None:
    calls = table(
        call(T + 1000, T + 9000, "cuMemAlloc", bytes=5),
        total(T, T + 10_000, 10, 1500, COPY, bytes=100),
        total(T + 10, T + 10_010, 4, 400, bytes=0),
    )
    assert len(calls) == 15
    assert (calls.start_ns[1:] >= calls.end_ns[:-1]).all()
    assert int((calls.end_ns - calls.start_ns).sum()) == 8000 + 1500 + 400


def test_a_call_within_a_nanosecond_is_in_no_summed_one_that_begins_with_it() -> None:
    calls = table(call(T + 1000, T + 1000, "cuMemAlloc"), total(T + 1000, T + 1020, 2, 20, COPY))
    assert (len(calls), calls.folded.tolist()) == (3, [0, 0, 0])
    assert (calls.start_ns[1:] >= calls.end_ns[:-1]).all()


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=5),
)
def test_no_time_and_no_call_is_lost(exact: list[tuple[int, int]], summed: list[tuple[int, int, int]]) -> None:
    units, at = [], T
    for gap, length in exact:
        at += gap
        units.append(call(at, at + length, "cuMemAlloc"))
        at += max(length, 1)  # else it could as well be a call within the next one
    units += [total(T + begin, T + begin + 20_000, count, count * each, COPY) for begin, count, each in summed]
    calls = table(*units)
    assert len(calls) == len(exact) + sum(count for _, count, _ in summed)
    took = sum(length for _, length in exact) + sum(count * each for _, count, each in summed)
    assert int((calls.end_ns - calls.start_ns).sum()) == took
    assert (calls.start_ns[1:] >= calls.end_ns[:-1]).all()


def test_more_sums_than_rows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "MOST_ROWS", 10)
    found = combined(header() + chunk(total(T, T + 10_000, 95, 950, COPY, bytes=9500)))
    calls = found.activity.calls
    assert calls.size_bytes is not None
    assert (len(calls), int(calls.size_bytes.sum()), int((calls.end_ns - calls.start_ns).sum())) == (10, 9500, 950)
    assert found.activity.lost_calls == 85
    assert found.notes == (
        "85 CUDA calls have no row of their own: their bytes and times are in those of calls like them.",
    )


def test_summed_copies_have_the_ends_and_stream_of_the_last_one_recorded_by_itself() -> None:
    calls = table(
        *(site(number, f"P\t{number}\tf\ta.py\n") for number in (1, 2, 3)),
        call(T, T + 1, "cuMemHostAlloc", bytes=4096, address=0x1000),
        call(T + 10, T + 11, COPY, bytes=100, address=0x7F << 56, source=0x1010, stream=3, site=1),
        call(T + 12, T + 13, COPY, bytes=100, address=0x7F << 56, source=0x9010, stream=4, site=2),
        total(T + 20, T + 30, 2, 2, COPY, bytes=200, site=1),
        total(T + 40, T + 50, 2, 2, COPY, bytes=200, site=2),
        total(T + 60, T + 70, 2, 2, COPY, bytes=200, site=3),
    )
    assert calls.source_kind is not None
    assert calls.stream is not None
    ends = [MemoryKind.PINNED, MemoryKind.PAGEABLE]
    assert calls.source_kind[1:].tolist() == [*ends, *[ends[0]] * 2, *[ends[1]] * 2, *[MemoryKind.UNKNOWN] * 2]
    assert calls.stream[1:7].tolist() == [3, 4, 3, 3, 4, 4]


def test_inner_calls_are_folded() -> None:
    calls = table(call(T, T + 100, "cuMemAlloc"), call(T + 10, T + 20), call(T + 30, T + 40), call(T + 200, T + 210))
    assert calls.folded.tolist() == [2, 0]


def test_a_line_is_the_programs_own_else_the_innermost() -> None:
    own = "P\t7\tforward\t/v/lib/python3.11/site-packages/torch/nn.py\nP\t12\tstep\t/home/me/train.py\n"
    library = "P\t7\tforward\t/v/lib/python3.11/site-packages/torch/nn.py\nP\t9\trun\t/usr/lib/python3.11/runpy.py\n"
    calls = table(
        site(1, own), site(2, library), site(3, "N\t10\t/opt/libmine.so\nN\t20\t/opt/libother.so\n"),
        call(T, T + 1, site=1), call(T + 2, T + 3, site=2), call(T + 4, T + 5, site=3), call(T + 6, T + 7),
    )  # fmt: skip
    assert calls.site is not None
    assert [calls.sites[row].text if row >= 0 else "" for row in calls.site.tolist()] == [
        "step (train.py:12)", "forward (torch/nn.py:7)", "[libmine.so] (libmine.so)", "",
    ]  # fmt: skip


def test_processes_are_told_apart_and_share_names() -> None:
    found = combined(
        header(pid=7) + chunk(call(T + 5, T + 6, COPY, bytes=1), site(1, "P\t1\tf\ta.py\n")),
        header(pid=8, token=2) + chunk(site(1, "P\t2\tg\tb.py\n"), call(T, T + 1, site=1)),
        b"damaged",
    )
    calls = found.activity.calls
    assert calls.pid.tolist() == [8, 7]
    assert [calls.names[row] for row in calls.name] == ["cuLaunchKernel", COPY]
    assert set(calls.names) == {"cuLaunchKernel", COPY}
    assert len(np.unique(calls.correlation_id)) == 2
    assert found.notes == ("1 part of the recording of CUDA calls left out as damaged.",)


def test_calls_of_other_processes_stay_beside_them() -> None:
    probed = combined(header(pid=5) + chunk(site(1, "P\t3\th\tc.py\n"), call(T + 3, T + 4, "cuMemAlloc", site=1)))
    both = combined(header(pid=5) + chunk(call(T, T + 1)), header(pid=7, token=2) + chunk(call(T + 2, T + 9)))
    activity = Activity("probes", calls=both.activity.calls)
    joined = inside_calls.added(activity, probed)
    calls = joined.calls
    assert [(calls.pid[row], calls.names[calls.name[row]]) for row in range(len(calls))] == [
        (7, "cuLaunchKernel"), (5, "cuMemAlloc"),
    ]  # fmt: skip
    assert calls.site is not None
    assert calls.sites[calls.site[1]].line == 3
    assert joined.source == f"{inside_calls.SOURCE}; probes"


def test_losses_are_said() -> None:
    found = combined(header(lost=4, stop=2, unsited=1) + chunk(call(T, T + 1)))
    assert found.activity.lost_calls == 4
    assert found.activity.may_lack("memory")
    assert found.notes == (
        "4 CUDA calls were not recorded: the file was full, or a signal interrupted the agent.",
        "Recording of CUDA calls ended early: a process had more of them than its file holds.",
        "1 call site without a line: a process has 65,535 with one at most.",
    )


def test_faults_are_those_of_calls_that_were_looked_at() -> None:
    calls = table(
        call(T, T + 1, flags=Flag.FAULTED, extra=2 << 24 | 70_000), call(T + 2, T + 3, extra=5),
        call(T + 4, T + 5, flags=Flag.FAULTED),
    )  # fmt: skip
    assert calls.minor_faults is not None
    assert calls.major_faults is not None
    assert calls.minor_faults.tolist() == [70_000, -1, 0]
    assert calls.major_faults.tolist() == [2, -1, 0]
