"""What the printed times of samples mean: padded or not, and of a clock that was set back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pinprof.read.perf.script import read_perf_script
from pinprof.read.perf.text_times import TextTimes
from tests.support.perf_file import frames

MS = 1_000_000


def read_times(*printed: str) -> tuple[list[int], tuple[str, ...]]:
    times = TextTimes()
    for text in printed:
        times.add(*text.split("."))
    found, notes, jumps = times.times()
    return found.tolist(), (*notes, *jumps)


def test_padded_fractions_are_parts_of_a_second() -> None:
    assert read_times("1.000005", "1.000050", "2.500000") == ([1_000_005_000, 1_000_050_000, 2_500_000_000], ())
    assert read_times("1.000000005", "1.000005000")[0] == [1_000_000_005, 1_000_005_000]
    assert read_times("1.5", "1.6")[0] == [1_500 * MS, 1_600 * MS]


def test_fractions_of_all_lengths_are_microseconds_where_only_so_times_ascend() -> None:
    printed = [f"{us // 10**6}.{us % 10**6}" for us in range(900_000, 1_100_000, 1000)]
    found, notes = read_times(*printed)
    assert found == [us * 1000 for us in range(900_000, 1_100_000, 1000)]
    assert len(notes) == 1
    assert read_times("1.25", "1.500000", "1.75")[0] == [1_250 * MS, 1_500 * MS, 1_750 * MS]


def test_samples_behind_a_clock_that_was_set_back_follow_those_before() -> None:
    first, second = ([f"{start}.{at:03}000" for at in range(0, 100, 10)] for start in (100, 50))
    found, notes = read_times(*first, *second)
    assert [later - earlier for earlier, later in pairwise(found)] == [
        *[10 * MS] * 9,
        MS,
        *[10 * MS] * 9,
    ]
    assert "goes back by 50.1 s" in notes[0]


@pytest.mark.parametrize(
    "printed",
    [("2.5", "1.5"), [f"{at % 3}.{at:03}000" for at in range(60)], [f"{9 - at}.000000" for at in range(10)]],
    ids=["one odd sample", "by thread", "backwards"],
)
def test_texts_in_another_order_than_that_of_time_keep_their_times(printed: list[str]) -> None:
    assert read_times(*printed) == ([round(float(text) * 1e9) for text in printed], ())


def test_names_of_a_thread_change_when_its_samples_say_so() -> None:
    text = "".join(
        f"{name} 5/5 [000] 1.{us}: 1 cpu-clock:\n\t 40 f (/x)\n\n"
        for us, name in ((5, "a"), (90_000, "a"), (100_000, "b"), (200_000, "b"))
    )
    capture = read_perf_script(text.splitlines(), "text")
    assert capture.renamed == {(5, 5): ((1_000_005_000, "a"), (1_100_000_000, "b"))}
    assert frames(capture, 0) == ["f"]
