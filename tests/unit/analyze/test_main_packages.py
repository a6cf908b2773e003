"""Programs that are installed packages: `python -m package` and commands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pinprof.analyze.main_packages import ownership
from tests.support.stacks import Sample, capture

PACKAGES = "/v/lib/python3.11/site-packages"
RUNPY = ["_run_module_as_main (<frozen runpy>:198)@<frozen runpy>", "_run_code (<frozen runpy>:88)@<frozen runpy>"]
BENCH, WORK = f"{PACKAGES}/bench/__main__.py", f"{PACKAGES}/bench/work.py"
PYPERF, NUMPY = f"{PACKAGES}/pyperf/_runner.py", f"{PACKAGES}/numpy/core.py"
TEST, RUNNER = f"{PACKAGES}/numpy/tests/test_core.py", f"{PACKAGES}/_pytest/python.py"
COMMAND, OWN, STANDARD = "/v/bin/bench", "/home/me/train.py", "/v/lib/python3.11/threading.py"


def at(path: str, function: str = "run", line: int = 3) -> str:
    return f"{function} ({path.rpartition('/')[2]}:{line})@{path}"


def owned(*stacks: Sequence[str]) -> set[str]:
    owns = ownership(capture([Sample(stack) for stack in stacks]).stacks)
    return {path for path in (BENCH, WORK, PYPERF, NUMPY, TEST, RUNNER, COMMAND, OWN, STANDARD) if owns(path)}


THREAD = [at(STANDARD, "_bootstrap"), at(PYPERF), at(WORK)]


@pytest.mark.parametrize(
    "start",
    [
        [*RUNPY, at(BENCH, "<module>")],
        ["_start@/usr/bin/python3.11", "main@/usr/bin/python3.11", at(BENCH, "<module>")],
        [at(COMMAND, "<module>"), at(BENCH, "main")],
    ],
    ids=["module", "script", "command"],
)
def test_the_package_that_is_run_is_the_program(start: list[str]) -> None:
    assert owned([*start, at(PYPERF), at(NUMPY)], THREAD) == {OWN, BENCH, WORK}


def test_where_the_program_has_code_of_its_own_packages_are_libraries() -> None:
    """Also where one of its processes runs a module, as launchers and pools do."""
    assert owned([*RUNPY, at(BENCH, "<module>"), at(WORK)], [at(OWN, "<module>"), at(NUMPY)]) == {OWN, COMMAND}


def test_a_package_that_is_imported_or_begins_a_thread_is_a_library() -> None:
    imports = "_find_and_load (<frozen importlib._bootstrap>:1176)@<frozen importlib._bootstrap>"
    assert owned([imports, at(BENCH, "<module>")], THREAD, [at(WORK)]) == {OWN, COMMAND}


@pytest.mark.parametrize("start", [[*RUNPY, at(f"{PACKAGES}/pytest/__main__.py", "<module>")],
                                   [at("/v/bin/pytest", "<module>"), at(RUNNER, "main")]])  # fmt: skip
def test_the_program_of_a_test_runner_is_the_tests(start: list[str]) -> None:
    assert owned([*start, at(RUNNER), at(TEST), at(NUMPY)]) == {OWN, COMMAND, TEST}
