"""What the ini file and marks ask of tests."""

from __future__ import annotations

import contextlib
import mmap
import threading

import pytest

from pinprof.base.errors import UsageError
from pinprof.check.budgets import budgets_of
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked, JudgedSite
from pinprof.pytest_plugin.counts import Counting, Others, others_now
from pinprof.pytest_plugin.judging import message
from pinprof.pytest_plugin.recorder import SuiteRecorder
from pinprof.pytest_plugin.settings import _keywords


def test_a_line_of_defaults_is_what_stands_in_a_mark() -> None:
    line = 'page_faults=10_000, cause={"fault": "20 %"}, range="load"'
    assert _keywords(line) == {"page_faults": 10_000, "cause": {"fault": "20 %"}, "range": "load"}


@pytest.mark.parametrize(
    "line",
    ["page_faults", "1", "**{}", "a=1), g(b=2", "a=__import__('os')", "a=[0]*9**9", "(" * 5000, "a=1\0", ""],
    ids=lambda line: line[:20].replace("\0", "NUL"),
)
def test_any_other_line_is_refused_and_never_run(line: str) -> None:
    with pytest.raises(UsageError, match="not valid in a mark"):
        _keywords(line)


def test_threads_that_were_there_before_do_not_count() -> None:
    asked, done, ended = threading.Event(), threading.Event(), threading.Event()

    pages = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # One fault for each of 16,384 pages: no work of the counting itself comes near.
    with contextlib.suppress(OSError):  # a kernel without huge pages
        pages.madvise(mmap.MADV_NOHUGEPAGE)

    def work() -> None:
        asked.wait()
        pages[:: mmap.PAGESIZE].count(b"x")
        done.set()
        ended.wait()

    thread = threading.Thread(target=work, name="older")
    thread.start()
    others = others_now()
    assert "older" in others.threads.values()
    assert threading.get_native_id() not in others.threads
    everybody = Others({}, frozenset())
    mine, both = Counting(others), Counting(everybody)
    asked.set()
    done.wait()
    # Begun first and ended last, so that it counts whatever the other counts.
    all_of_them, own = both.end(), mine.end()
    ended.set()
    thread.join()
    assert own.page_faults + own.left_out_faults >= all_of_them.page_faults
    assert own.left_out_faults > 0
    assert own.page_faults < all_of_them.page_faults


def test_a_message_says_it_in_its_first_line_and_shows_no_control_characters() -> None:
    (budget,) = budgets_of({"page_faults": 10})
    sites = (JudgedSite("_pytest/python.py", 1, "call", 99), JudgedSite("a\x1b[31m.py", 3, "f", 90))
    verdict = BudgetVerdict(
        budget, BudgetOutcome.BROKEN, 99, (99,), 10, "faults", "99 page faults, 10 are allowed.", "Less.", sites
    )
    block = SuiteRecorder().block("test")
    said = message(Checked((verdict,), ("test",)), block).splitlines()
    assert said[0] == "pinprof: page-faults is broken: 99 page faults, 10 are allowed."
    assert said[1:] == ["    where: a␛[31m.py:3 (f) 90 faults", "    to do: Less."]
    two = message(Checked((verdict, verdict), ("test",)), block).splitlines()
    assert two[0] == "pinprof: 2 of 2 budgets are broken."


def test_a_recorder_that_fails_costs_samples_and_never_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("pinprof.pytest_plugin.recorder.Portions", broken)
    recorder = SuiteRecorder()
    with recorder.block("first") as block:
        bytes(1 << 20).count(1)
    assert block.page_faults >= 0
    assert block.analysis is None
    assert block.missing == "pinprof failed with ZeroDivisionError: oh. The test is not affected."
    recorder.close()
