"""What happens around a test, in its report and at the end of the run.

The body of a test is recorded: what `pytest_runtest_call` runs, without fixtures. Every attempt of a rerun is recorded
and judged for itself. Figures travel in the report of the call (`report.pinprof`), which pytest-xdist brings from its
workers to the controller: there the table is made.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pinprof.pytest_plugin.recorder import Block, Blocks, SuiteRecorder
    from pinprof.pytest_plugin.settings import Asked, Settings

_FIGURES = pytest.StashKey[dict[str, Any] | None]()
_ATTEMPTS = pytest.StashKey[int]()
REPORTED = "pinprof"
"""The attribute of a report, a dict that JSON can hold (summary.py)."""


class Hooks:
    """The plugin at work in one process of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        _not_rewritten(config)
        self._recorder: SuiteRecorder | None = None
        self._calls = False
        """A test of this run asks for CUDA calls."""
        self.seen: list[tuple[str, str, dict[str, Any]]] = []
        """For each recorded attempt its test, the test's outcome and its figures: those of this process, or on
        pytest-xdist's controller all."""

    @cached_property
    def settings(self) -> Settings:
        """Read once, at the first test."""
        from pinprof.pytest_plugin.settings import Settings

        return Settings.of(self._config)

    def recorder(self) -> SuiteRecorder:
        """The one of this process."""
        if self._recorder is None:
            from pinprof.pytest_plugin.recorder import SuiteRecorder

            asked = self.settings
            self._recorder = SuiteRecorder(own_only=asked.own_only, frequency=asked.frequency, calls=self._calls)
        return self._recorder

    def blocks(self) -> Blocks:
        """For the fixture."""
        from pinprof.pytest_plugin.recorder import Blocks

        return Blocks(self.recorder)

    @pytest.hookimpl
    def pytest_sessionstart(self) -> None:
        """What cannot be meant in the ini file ends the run before its first test."""
        if self._every_known or self._config.getini("pinprof_budgets"):
            _ = self.settings

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Trace CUDA calls from before the first test and its fixtures on, where a test of this run asks for them."""
        if self._config.getoption("collectonly"):
            return
        self._calls = any(map(self._asks_for_calls, session.items))
        if self._calls:
            self.recorder().start()

    def _asks_for_calls(self, item: pytest.Item) -> bool:
        """By a budget of its own or of all; a block of its body may have one."""
        if "pinprof_record" in getattr(item, "fixturenames", ()):
            return True
        if not self._every_known and item.get_closest_marker("pinprof") is None:
            return False
        from pinprof.check.budgets import CALLS
        from pinprof.pytest_plugin.settings import asked_of

        asked = asked_of(item, self.settings)
        return asked is not None and any(budget.measure in CALLS or budget.call for budget in asked.budgets)

    @property
    def _every_known(self) -> bool:
        return bool(self._config.getoption("pinprof") or self._config.getini("pinprof"))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record and judge one attempt."""
        item.stash[_FIGURES] = None
        if not self._every_known and item.get_closest_marker("pinprof") is None:
            return (yield)
        from pinprof.pytest_plugin.settings import asked_of

        asked = asked_of(item, self.settings)
        if asked is None:
            return (yield)
        if asked.wrong:
            pytest.fail(asked.wrong, pytrace=False)
        attempt = item.stash[_ATTEMPTS] = item.stash.get(_ATTEMPTS, 0) + 1
        block = self.recorder().block(item.name)
        block.__enter__()
        try:
            result = yield
        except (KeyboardInterrupt, pytest.exit.Exception):
            block.drop()
            raise
        except BaseException as error:
            block.__exit__(type(error), error, error.__traceback__)
            item.stash[_FIGURES] = self._figures(block)
            raise
        block.__exit__(None, None, None)
        self._judge(item, block, asked, attempt)
        return result

    def _judge(self, item: pytest.Item, block: Block, asked: Asked, attempt: int) -> None:
        """Note the figures of a test that passed; pytest.fail where a budget does not hold."""
        from pinprof.check.verdicts import BudgetOutcome
        from pinprof.pytest_plugin.judging import judged, message

        try:
            checked = judged(block, asked.budgets)
            after = self._kept(item, block, attempt) if checked.of(BudgetOutcome.BROKEN) else ""
            sentence = message(checked, block, after) if checked.outcome is not BudgetOutcome.HOLDS else ""
        except Exception as error:  # a fault of ours is none of the test's
            block.missing = self.recorder().failed(error)
            sentence = f"pinprof: the budgets are not assessable: {block.missing}" if asked.budgets else ""
            unjudged = [f"all budgets: {block.missing}"] if sentence else []
            item.stash[_FIGURES] = self._figures(block, "not-assessable" if sentence else "", unjudged)
            if sentence and not self.settings.allow_unassessable:
                pytest.fail(sentence, pytrace=False)
            return
        outcome = str(checked.outcome) if asked.budgets else ""
        unjudged = [f"{one.budget.name}: {one.why} {one.remedy}" for one in checked.of(BudgetOutcome.UNASSESSABLE)]
        item.stash[_FIGURES] = self._figures(block, outcome, unjudged)
        allowed = checked.outcome is BudgetOutcome.UNASSESSABLE and self.settings.allow_unassessable
        if sentence and not allowed:
            pytest.fail(sentence, pytrace=False)

    def _kept(self, item: pytest.Item, block: Block, attempt: int) -> str:
        """Where the capture of a broken budget is, or how to have it."""
        from pinprof.base.terminal import printable
        from pinprof.streams.store import SUFFIX, file_name

        if block.path is None:
            return ""
        if self.settings.keep is None:
            return "more: run it with --pinprof-keep DIR, and explain the capture with `pinprof report`."
        again = f"-attempt-{attempt}" if attempt > 1 else ""
        name = file_name(item.nodeid.rpartition("/")[2].replace(".py::", "-").replace("::", "-"))
        target = self.settings.keep / f"{name}{again}{SUFFIX}"
        if not block.keep(target):
            return f"The capture could not be kept as {printable(str(target))}."
        return f"more: pinprof report {printable(os.path.relpath(target))}"

    def _figures(self, block: Block, outcome: str = "", unjudged: Sequence[str] = ()) -> dict[str, Any] | None:
        """What the report carries; None after a fault of ours."""
        from pinprof.pytest_plugin.summary import figures

        try:
            return figures(block, outcome, unjudged, samples=self.settings.every)
        except Exception as error:
            self.recorder().failed(error)
            return None
        finally:
            block.forget()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the figures of the call into its report."""
        report = yield
        if call.when == "call" and (found := item.stash.get(_FIGURES, None)) is not None:
            setattr(report, REPORTED, found)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather them."""
        found = getattr(report, REPORTED, None)
        if isinstance(found, dict):
            self.seen.append((report.nodeid, report.outcome, found))

    def pytest_sessionfinish(self) -> None:
        """End the recording."""
        if self._recorder is not None:
            self._recorder.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table, and what could not be judged."""
        if self.seen:
            from pinprof.pytest_plugin.summary import write

            workers = getattr(self._config.option, "numprocesses", None) or 0
            write(terminalreporter, self.seen, self.settings, workers)


def _not_rewritten(config: pytest.Config) -> None:
    """Let pinprof's modules be imported as they are: pytest rewrites the assertions of every package with a plugin.

    Without this, which pytest has no interface for, all the same happens, a second later.
    """
    with contextlib.suppress(AttributeError, TypeError):
        config.pluginmanager.rewrite_hook._must_rewrite.discard("pinprof")  # type: ignore[attr-defined]
