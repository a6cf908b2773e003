"""After a recording the answer comes first, and Ctrl-C costs only what is not made yet."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyze.attribution import matching
from pinprof.base.errors import CollectError
from pinprof.cli import explained, pipeline
from pinprof.collect import Outcome
from pinprof.collect.trouble import Trouble
from pinprof.data.rates import Rates
from pinprof.recording import EndedRecording
from pinprof.report.page import html
from tests.support.h200 import DATA, own_analysis
from tests.support.opportunities import with_opportunities

TARGET = Path("run.pinprof")
CAPTURE = "Capture: run.pinprof"
HEADLINE = "alloc_pairs.cu:11 pins and frees"
SIGNALS = {"Ctrl-C": KeyboardInterrupt(signal.SIGINT), "SIGTERM": KeyboardInterrupt(signal.SIGTERM)}


class Terminal:
    """What is printed, and what was when the page was written."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.shown = ""
        self.before_page = ""
        self.trouble = Trouble(print)

    def look(self) -> str:
        self.shown += "".join(self._capsys.readouterr())
        return self.shown

    def explain(self, *, quiet: bool = False, rates: Any = None) -> None:
        outcome = Outcome("complete", 0, "", 0, {}, {}, ())
        recorded = EndedRecording(outcome, TARGET, rates=rates)
        explained.explain(recorded, TARGET, [CAPTURE], self.trouble, quiet=quiet)
        self.look()


class Machine:
    """A machine of which some measures are missing, and what is there when they are taken."""

    notes = ()

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._missing = terminal, {"touch.huge", "memcpy.host", "file.read"}
        self.taken: list[tuple[list[str], bool, bool]] = []
        """What was, whether the answer had been printed, and whether the page had been written."""

    def measure(self, _: Path, measures: Collection[str] | None = None) -> Rates | None:
        chosen = self._missing if measures is None else self._missing.intersection(measures)
        self._missing = self._missing - chosen
        if not chosen:
            return None
        self.taken.append((sorted(chosen), "work" in self._terminal.look(), Path("run.html").exists()))
        return Rates({}, "host", "2026-01-01T00:00:00+00:00", (), "calibration")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    monkeypatch.chdir(tmp_path)
    made = Terminal(capsys)
    written = html.write_whole

    def write(page: str, path: Path) -> None:
        made.before_page = made.look()
        written(page, path)

    analysis = with_opportunities(own_analysis("alloc-loop-mistake"), 4)
    monkeypatch.setattr(pipeline, "explain", lambda *_: analysis)
    monkeypatch.setattr(html, "write_whole", write)
    return made


def instead(patch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    patch.setattr(pipeline, name, fail)


def test_the_answer_is_printed_before_the_page_is_made_and_nothing_twice(terminal: Terminal) -> None:
    terminal.explain()
    answer = terminal.before_page
    assert answer.startswith(HEADLINE)
    assert answer.count("   saves ") == 3
    assert "Page" not in answer
    assert Path("run.html").stat().st_size > 100_000
    assert terminal.shown == f"{answer}\nPage: run.html\n{CAPTURE}\n"


def test_quiet_prints_nothing_and_writes_the_page(terminal: Terminal) -> None:
    terminal.explain(quiet=True)
    assert terminal.shown == ""
    assert Path("run.html").exists()


def test_what_the_answer_rests_on_is_measured_before_it_and_the_rest_before_the_page(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "guessed", lambda _: {"touch.huge", "h2d.pinned"})
    machine = Machine(terminal)
    terminal.explain(rates=machine)
    assert machine.taken == [(["touch.huge"], False, False), (["file.read", "memcpy.host"], True, False)]
    assert terminal.shown.endswith(f"\nPage: run.html\n{CAPTURE}\n")


def test_a_measurement_that_fails_costs_neither_answer_nor_page(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(terminal)
    monkeypatch.setattr(machine, "measure", lambda *_: 1 / 0)
    terminal.explain(rates=machine)
    assert (
        "pinprof: This machine is not calibrated: pinprof has an error of its own (ZeroDivisionError" in terminal.shown
    )
    assert HEADLINE in terminal.shown
    assert Path("run.html").exists()


def test_ctrl_c_while_the_page_is_made_keeps_the_answer_and_says_what_is_missing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, "write_page", SIGNALS["Ctrl-C"])
    terminal.explain()
    assert terminal.shown.startswith(HEADLINE)
    assert "pinprof: stopped; the page is missing. To get it all: pinprof report run.pinprof" in terminal.shown
    assert "Page:" not in terminal.shown
    assert CAPTURE in terminal.shown


def test_ctrl_c_before_the_answer_names_that_too(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "explain", SIGNALS["Ctrl-C"])
    terminal.explain()
    assert "pinprof: stopped; the answer and the page are missing." in terminal.shown
    assert CAPTURE in terminal.shown


def test_any_other_signal_ends_pinprof(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "write_page", SIGNALS["SIGTERM"])
    with pytest.raises(KeyboardInterrupt):
        terminal.explain()


def test_a_page_that_cannot_be_written_costs_no_answer(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "write_page", CollectError("The disk is full.", "Free some.", "disk-full"))
    terminal.explain()
    assert terminal.shown.startswith(HEADLINE)
    assert "pinprof: The page is not written: The disk is full. Free some. [disk-full]" in terminal.shown
    assert terminal.shown.endswith(f"\n{CAPTURE}\n")


@pytest.mark.slow
def test_what_the_answer_needs_is_imported_ahead_and_nothing_else() -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from pinprof.cli import explained
        for step in explained.NEEDED:
            step()
        ahead = set(sys.modules)
        from pinprof import read
        from pinprof.cli import pipeline
        pipeline.answer([pipeline.explain(Path(sys.argv[1]), read.ReadOptions())], ())
        print(*sorted(set(sys.modules) - ahead))
        print(*sorted(ahead))
    """
    packed = DATA / "alloc-loop-mistake.pinprof.tar.xz"
    done = subprocess.run([sys.executable, "-c", code, packed], capture_output=True, text=True, check=True, timeout=120)
    *_, later, ahead = done.stdout.splitlines()
    assert [name for name in later.split() if name.startswith(("pinprof.analyze.", "pinprof.report."))] == []
    for unneeded in ("jinja2", "statistics", "numpy.polynomial", "concurrent.futures", "pinprof.report.page.html"):
        assert unneeded not in ahead.split()


def test_rules_can_be_prepared_before_their_first_name(monkeypatch: pytest.MonkeyPatch) -> None:
    matching.prepare()
    compiled: list[str] = []
    monkeypatch.setattr(re, "compile", lambda pattern, *_: compiled.append(pattern))
    for claims in matching.TABLES.claims.values():
        for claim in claims:
            claim.matches("do_anonymous_page")
    assert compiled == []
