"""The terminal summary: the whole answer, as wide as asked, without control characters."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from pinprof.base.errors import PinprofError
from pinprof.data.model import Event
from pinprof.report.terminal.layout import as_typed, tidy
from tests.support.sample_report import rebuilt, sample_report, text_of

HOSTILE = "\x1b]0;owned\x07[bold]x\u202e" + "long" * 2500


def written(width: int, **options: str) -> str:
    return text_of(sample_report(**options), width)


def test_summary_tells_headline_causes_ranges_findings_and_losses() -> None:
    text = written(100)
    for part in (
        "70 % of cudaMallocHost is pin_user_pages", "host emulation", "60 %  600 ms", "pin.faultin", "fault.anon",
        "iteration", "warning: Pages are created inside the pin", "3 lost samples", "not assessable", "clear_page_erms",
    ):  # fmt: skip
        assert part in text


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in written(width, function=HOSTILE, text=HOSTILE).splitlines()) <= width


def test_names_reach_the_terminal_without_escape_sequences_or_markup() -> None:
    text = written(100, function=HOSTILE, text=HOSTILE)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]x" in text


def test_colours_are_used_where_there_are_colours() -> None:
    stream = io.StringIO()
    sample_report().show(Console(file=stream, width=90, force_terminal=True, color_system="truecolor"))
    assert "\x1b[38;2;" in stream.getvalue()


def test_a_file_gets_plain_text(tmp_path: Path) -> None:
    sample_report().save("text", tmp_path / "summary.txt")
    text = (tmp_path / "summary.txt").read_text("utf-8")
    assert "\x1b" not in text
    assert "pin.faultin" in text


def test_an_unwritable_file_is_a_clean_error(tmp_path: Path) -> None:
    with pytest.raises(PinprofError, match="cannot be written"):
        sample_report().save("text", tmp_path)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_end_with_their_text_and_figures_keep_their_units(width: int) -> None:
    lines = written(width).splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert not any(line.lstrip().startswith(("% ", "ms ", "GiB ", "samples of ")) for line in lines)
    assert "\ue000" not in "".join(lines)


def test_what_helps_against_time_is_not_said_of_faults() -> None:
    data = sample_report()
    event = replace(data.events[0], event=Event("page-faults", "faults", None, None))
    stream = io.StringIO()
    for events in ((data.events[0],), (event,)):
        console = Console(file=stream, width=200, no_color=True, highlight=False, markup=False)
        rebuilt(data, events=events, ranges=(), flame=None, findings=()).show(console)
    timed, counted = stream.getvalue().split("Data quality")[:2]
    assert " → " in timed
    assert " → " not in counted


def test_ranges_without_samples_are_told_by_their_clock() -> None:
    data = sample_report()
    bare = tuple(replace(entry, events=(), wall=None) for entry in data.ranges)
    stream = io.StringIO()
    rebuilt(data, events=(), flame=None, ranges=bare).show(Console(file=stream, width=80, no_color=True))
    table = stream.getvalue().split("Ranges\n")[1].splitlines()
    assert table[0].split() == ["range", "count", "wall", "each", "fastest", "median", "slowest"]
    assert table[1].split()[0] == "iteration"


def test_neighbours_of_one_colour_are_told_apart() -> None:
    data = sample_report()
    event = replace(
        data.events[0],
        event=Event("off-cpu", "ns", None, None, spans=True),
        by_leaf={"pin.faultin": 60, "pin.walk": 40},
        total=100,
    )
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="truecolor")
    rebuilt(data, events=(event,), ranges=(), flame=None, findings=()).show(console)
    assert "▏pin.walk 40 %" in stream.getvalue()


def test_a_line_to_copy_is_neither_broken_nor_cut() -> None:
    stream, setting = io.StringIO(), "MALLOC_TOP_PAD_=268435456 " * 5 + "x"
    console = Console(file=stream, width=40)
    with tidy(console):
        console.print(Padding(Text("    " + as_typed(setting)), (0, 0, 0, 3)))
        console.print(Text("words " * 10))
    first, *others = stream.getvalue().splitlines()
    assert first == " " * 7 + setting
    assert max(map(len, others)) <= 40


def test_the_answer_is_above_the_counts() -> None:
    text = written(100)
    assert text.index("cudaMallocHost is pin_user_pages") < text.index("samples of") < text.index("60 %  600 ms")
