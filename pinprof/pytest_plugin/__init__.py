"""The pytest plugin: tests recorded, and judged by budgets of memory. It does nothing until a test asks for it.

    @pytest.mark.pinprof(page_faults=10_000, cause={"fault": "20 %"})
    def test_load(): ...

docs/pytest.md explains it. pytest imports this module in every run where pinprof is installed, so everything else is
imported when the first test is to be recorded.

    __init__.py    options, mark and fixture
    hooks.py       what happens around a test, in its report and at the end
    settings.py    options, the ini file, marks: what is asked of a test
    counts.py      exact counts, which need no rights
    recorder.py    a test recorded: counts, and samples where the kernel allows them
    judging.py     budgets judged by that, and the message of a broken one
    summary.py     what the terminal says at the end
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pinprof.pytest_plugin.recorder import Blocks

MARK = (
    "pinprof(page_faults=N, pinned_bytes='1GiB', pairs=N, cause={'fault': '20 %'}, range='load', ...): record the body "
    "of the test and judge it by budgets of memory"
)
OLDEST = 8
"""The first version of pytest whose hooks serve; with older ones the plugin stays away."""
INI = {
    "pinprof": ("bool", False, "record every test, as --pinprof does"),
    "pinprof_budgets": ("linelist", [], "budgets of every recorded test, written as in the mark"),
    "pinprof_allow_unassessable": ("bool", False, "as --pinprof-allow-unassessable"),
    "pinprof_top": ("string", "10", "how many tests the table shows"),
    "pinprof_keep": ("string", "", "as --pinprof-keep"),
    "pinprof_frequency": ("string", "999", "samples per second and thread"),
    "pinprof_threads": (
        "string",
        "own",
        "own: ignore Python threads and processes older than the test; all: include them",
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--pinprof` and its like; every one may stand in the ini file."""
    group = parser.getgroup("pinprof", "memory of tests (pinprof)")
    group.addoption("--pinprof", action="store_true", help="record every test, and show the most expensive at the end")
    group.addoption(
        "--pinprof-allow-unassessable",
        action="store_true",
        help="let tests pass whose budgets cannot be judged here, with a note at the end",
    )
    group.addoption("--pinprof-top", type=int, metavar="N", help="how many tests the table shows (10)")
    group.addoption(
        "--pinprof-keep", metavar="DIR", help="keep the capture of each test with a broken budget, for pinprof report"
    )
    for name, (kind, default, words) in INI.items():
        parser.addini(name, f"pinprof: {words}", type=kind, default=default)  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    """Announce the mark, and watch for tests that bear it."""
    config.addinivalue_line("markers", MARK)
    if int(pytest.version_tuple[0]) < OLDEST:
        if config.getoption("pinprof"):
            raise pytest.UsageError(f"--pinprof needs pytest {OLDEST} or later: pip install -U pytest.")
        return
    from pinprof.pytest_plugin.hooks import Hooks

    config.pluginmanager.register(Hooks(config), "pinprof-hooks")


@pytest.fixture
def pinprof_record(request: pytest.FixtureRequest) -> Iterator[Blocks]:
    """Blocks of a test that are recorded.

    `with pinprof_record("load") as block: …`, then `block.page_faults`, `block.share("fault")`, `block.result`, or
    `block.check(page_faults=1000)`.
    """
    hooks = request.config.pluginmanager.get_plugin("pinprof-hooks")
    if hooks is None:
        pytest.fail(f"pinprof_record needs pytest {OLDEST} or later.", pytrace=False)
    blocks = hooks.blocks()
    yield blocks
    blocks.forget()
