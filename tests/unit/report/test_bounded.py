"""A text of at most 120 lines: what each section begins with, what is left out in words, and all of it if asked."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Group
from rich.text import Text

from pinprof.cli import cli
from pinprof.report.terminal import bounded as bounded_text
from pinprof.report.terminal.bounded import MOST_LINES, SectionLines, bounded, section_lines
from pinprof.report.terminal.layout import plain_console, plain_table, rendered, titled

LONG = ("first", 400), ("second", 90), ("third", 3)


def sections(*sizes: tuple[str, int], room: int = 1) -> list[SectionLines]:
    return [SectionLines([f"{name} {number}" for number in range(size)], room) for name, size in sizes]


def fitted(blocks: list[SectionLines], most: int = MOST_LINES) -> list[str]:
    return bounded(blocks, plain_console(io.StringIO()), most).splitlines()


def test_a_text_that_fits_is_as_it_is() -> None:
    lines = fitted(sections(("first", 60), ("second", 60)))
    assert lines == [f"{name} {number}" for name in ("first", "second") for number in range(60)]


def test_each_section_keeps_its_beginning_and_all_lines_are_accounted_for() -> None:
    lines = fitted(sections(*LONG))
    assert MOST_LINES - 3 < len(lines) <= MOST_LINES
    assert {"first 0", "second 0", "third 0", "third 2"} < set(lines)
    shown = sum(bool(re.match(r"(first|second|third) \d+$", line)) for line in lines)
    more = [int(count) for line in lines for count in re.findall(r"^  … (\d+) more lines$", line)]
    assert shown + sum(more) == 493
    assert lines[-1].startswith(f"{sum(more)} lines are left out. --all prints them")


def test_a_section_with_more_room_has_more_lines() -> None:
    lines = fitted([*sections(("wide", 300), room=3), *sections(("narrow", 300))])
    wide, narrow = (sum(line.startswith(name) for line in lines) for name in ("wide", "narrow"))
    assert wide > 2 * narrow > 20


def test_the_head_of_a_table_is_never_the_last_line_of_a_section() -> None:
    table = plain_table("count", "bytes")
    for number in range(50):
        table.add_row(f"row {number}", "1 GiB")
    console = plain_console(io.StringIO())
    parts = [*titled("Blocks", Group(Text("One sentence."), table))]
    block = section_lines(parts, console, 1)
    assert "\n".join(block.lines) == rendered(parts, console).rstrip("\n")
    for most in range(10, 50):
        lines = fitted([block, *sections(("others", 100))], most)
        assert len(lines) <= most
        head = next((place for place, line in enumerate(lines) if "bytes" in line), None)
        assert head is None or "row 0" in lines[head + 1]


def test_what_is_left_over_is_used_and_few_lines_are_shown_rather_than_counted() -> None:
    lines = fitted(sections(*((f"section {number}", 5) for number in range(3)), ("long", 300)), 40)
    assert len(lines) == 40
    assert {f"section {number} 4" for number in range(3)} < set(lines)


@pytest.mark.parametrize("count", [0, 1, 29])
def test_few_lines_for_many_sections_are_still_few(count: int) -> None:
    assert len(fitted(sections(*((f"section {n}", 50) for n in range(count))))) <= MOST_LINES


COMMANDS = {
    "report": (24, ["report", "after.folded", "--format", "text"]),
    "diff": (15, ["diff", "before.folded", "after.folded", "--any-program"]),
    "check": (24, ["check", "after.folded"]),
    "check --self-test": (24, ["check", "after.folded", "--self-test"]),
}


@pytest.mark.parametrize(("most", "command"), COMMANDS.values(), ids=list(COMMANDS))
def test_the_command_prints_a_part_and_all_on_request(
    most: int, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_text, "MOST_LINES", most)
    monkeypatch.chdir(tmp_path)
    for name, more in (("before", 7), ("after", 0)):
        lines = (f"main;work_{n};asm_exc_page_fault_[k];f{n}_[k] {70 - n + more * n}\n" for n in range(50))
        Path(f"{name}.folded").write_text("".join(lines))
    budgets = (f'[[budget]]\nname = "budget {n}"\ncause = {{ fault = "{n + 1} %" }}\n' for n in range(40))
    Path("pinprof.toml").write_text("".join(budgets))

    def printed(*options: str) -> list[str]:
        cli.main([*command, *options], standalone_mode=False)
        return capsys.readouterr().out.splitlines()

    few, every = printed(), printed("--all")
    assert most // 2 < len(few) <= most < len(every)
    assert {line for line in few[:-1] if "more line" not in line} - {""} <= set(every)
    assert "--all prints them" in few[-1]
    assert not any("--all" in line for line in every)
