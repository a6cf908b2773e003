"""Large memory in files of the agent: who made it, who gave it back, how long it lived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pinprof.data.host_memory import HostEvent, LargeMemory, Maker
from pinprof.data.time_window import TimeWindow
from pinprof.read.inside import calls as inside_calls
from pinprof.read.inside import file as inside_file
from pinprof.read.inside.calls import InsideCalls
from pinprof.read.inside.layout import Flag, Kind
from pinprof.read.symbols.resolver import Resolver
from tests.support.agent_file import TICKS_A_NS, block, call, chunk, header, site
from tests.support.stacks import Sample, capture

T = 2_000_000
MAKES, GIVES = "P\t3\tmake\t/home/me/train.py\n", "P\t9\tdrop\t/home/me/train.py\n"


def combined(*units: bytes, **facts: int) -> InsideCalls:
    file = inside_file.parse(header(**facts) + chunk(site(1, MAKES), site(2, GIVES), *units))
    assert file is not None
    return inside_calls.combine([file], Resolver())


def memory(*units: bytes, **facts: int) -> LargeMemory:
    found = combined(*units, **facts).memory
    assert found is not None
    return found


def test_what_is_made_and_given_back_has_its_lines_and_its_life() -> None:
    found = memory(
        block(Kind.MADE, T, T + 500, bytes=4096, address=7 << 20, site=1, function=Maker.CALLOC),
        block(Kind.GIVEN, T + 500, T + 900, bytes=4096, address=7 << 20, site=1, function=Maker.CALLOC, extra=2,
              stream=TICKS_A_NS * 30, flags=Flag.ELSEWHERE),
    )  # fmt: skip
    table = found.table
    assert table.event.tolist() == [HostEvent.MADE, HostEvent.GIVEN]
    assert table.time_ns.tolist() == [T, T + 900]
    assert table.maker.tolist() == [Maker.CALLOC] * 2
    assert [found.sites[number].caller.line for number in table.site.tolist()] == [3, 3]
    assert table.given_at[0] == -1
    assert found.sites[table.given_at[1]].caller.text == "drop (train.py:9)"
    assert table.lifetime_ns.tolist() == [0, 400]
    assert table.took_ns.tolist() == [500, 30]
    assert table.elsewhere.tolist() == [False, True]
    assert table.address.tolist() == [7 << 20] * 2


def test_sums_have_all_their_events() -> None:
    table = memory(
        block(Kind.MADE_SUM, T, T + 1000, bytes=5000, address=50, site=1, source=TICKS_A_NS * 70),
        block(Kind.GIVEN_SUM, T + 10, T + 990, bytes=4900, address=49, site=1, extra=1, source=TICKS_A_NS * 600,
              stream=TICKS_A_NS * 80),
    ).table  # fmt: skip
    assert table.count.tolist() == [50, 49]
    assert table.size_bytes.tolist() == [5000, 4900]
    assert table.lifetime_ns.tolist() == [0, 600]
    assert table.took_ns.tolist() == [70, 80]
    assert table.address.tolist() == [0, 0]


def test_what_was_made_before_and_what_the_kernel_was_told_are_events_of_their_own() -> None:
    table = memory(
        block(Kind.MADE_SUM, T, T + 1, bytes=9000, address=3, flags=Flag.SAMPLE),
        block(Kind.ADVISED, T + 2, T + 9, bytes=4096, site=2, function=Maker.DONTNEED),
        block(Kind.GIVEN, T, T + 20, bytes=10, extra=2, flags=Flag.INHERITED),
    ).table
    assert table.event.tolist() == [HostEvent.BEFORE, HostEvent.ADVISED, HostEvent.GIVEN]
    assert table.site.tolist() == [-1, table.given_at[2], -1]


def test_a_file_of_memory_alone_has_no_calls() -> None:
    found = combined(block(Kind.MADE, T, T + 1, bytes=1, site=1))
    assert found.activity.sited == found.activity.recorded == frozenset()
    both = combined(block(Kind.MADE, T, T + 1, bytes=1, site=1), call(T, T + 1))
    assert both.activity.sited == {7}
    assert both.memory is not None


@pytest.mark.parametrize(
    "wrong",
    [
        block(Kind.MADE, T + 5, T),
        block(Kind.MADE, T, T + 5, function=99),
        block(Kind.MADE, T, T + 5, bytes=2**60),
        block(Kind.GIVEN_SUM, T, T + 5, address=0),
        block(Kind.GIVEN_SUM, T, T + 5, address=1, source=2**63),
    ],
    ids=["backwards", "no maker", "too large", "of nothing", "lives for ever"],
)
def test_damaged_records_are_left_out_and_counted(wrong: bytes) -> None:
    found = combined(wrong, call(T, T + 1))
    assert found.memory is None
    assert found.notes == ("1 part of the recording of CUDA calls left out as damaged.",)


def test_what_is_missing_is_said() -> None:
    found = combined(block(Kind.MADE, T, T + 1, bytes=1, site=1), lost_blocks=2, stop=1)
    assert found.memory is not None
    assert found.memory.lost == 2
    assert found.notes == (
        "Recording of large blocks of memory ended early for lack of space.",
        "2 events of large memory were not recorded: the file was full, or a signal interrupted the agent.",
    )


def test_a_window_of_time_has_the_memory_of_its_time() -> None:
    known = memory(*(block(Kind.MADE, T + n, T + n + 1, bytes=1, site=1) for n in range(10)))
    whole = replace(capture([Sample(("main@/app",))]), host_memory=known)
    part = TimeWindow(T + 2, T + 6).cut(whole).host_memory
    assert part is not None
    assert part.table.time_ns.tolist() == [T + 2, T + 3, T + 4, T + 5]
