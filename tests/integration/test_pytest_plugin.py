"""The pytest plugin in a user's project: the wheel is installed, this repository is not on the path."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pinprof.collect import RecordRequest, native, permission
from pinprof.errors import PinprofError
from pinprof.read import read

WITHOUT_PERF = Path(__file__).parents[1] / "support" / "without_perf.py"

PROJECT = '''
import mmap, sys, threading
import pytest

def test_nothing_is_imported_before_a_test_asks():
    assert "pinprof.pytest_plugin" in sys.modules
    assert not {"numpy", "click", "pinprof.collect", "pinprof.read"} & set(sys.modules)

def touch(mib):
    """First touch of as many pages, one fault each."""
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for place in range(0, len(memory), 4096):
        memory[place] = 1

@pytest.mark.pinprof(page_faults=30_000, cause={"fault": "99 %", "pin": "1 %"})
def test_holds():
    touch(64)

@pytest.mark.pinprof(page_faults=1000, findings=1000)
def test_broken():
    touch(32)

@pytest.mark.pinprof(cause={"fault": "1 %"})
def test_share_broken():
    touch(96)

@pytest.mark.pinprof(pairs=0, page_faults="1000000")
def test_calls():
    touch(1)

@pytest.mark.pinprof(page_falts=1)
def test_mistyped():
    raise AssertionError("its body must not run")

def test_blocks(pinprof_record):
    touch(16)
    with pinprof_record("load") as block:
        touch(32)
    touch(16)
    assert 8192 <= block.page_faults < 9000
    block.check(page_faults=9000)
    if not block.missing and block.memory_ns is not None:
        assert block.result.headline
        assert "touch" in {line.function for line in block.analysis.python[1].lines}

@pytest.mark.pinprof(page_faults=20_000)
def test_a_block_in_a_recorded_test(pinprof_record):
    with pinprof_record() as block:
        touch(32)
    block.check(page_faults=10)

attempts = []

@pytest.mark.flaky(reruns=2)
@pytest.mark.pinprof(page_faults=4000)
def test_second_attempt():
    attempts.append(1)
    if len(attempts) < 2:
        touch(32)

@pytest.fixture(scope="module")
def helper():
    """A thread that is older than the test."""
    asked, done = threading.Event(), threading.Event()
    def work():
        asked.wait(60)
        touch(32)
        done.set()
        asked.clear()
        asked.wait(60)
    thread = threading.Thread(target=work, name="older", daemon=True)
    thread.start()
    yield asked, done
    asked.set()
    thread.join()

@pytest.mark.pinprof(page_faults=4000)
def test_others_do_not_count(helper):
    asked, done = helper
    asked.set()
    assert done.wait(60)

@pytest.mark.pinprof(page_faults=4000)
def test_own_threads_count():
    thread = threading.Thread(target=touch, args=(32,))
    thread.start()
    thread.join()

@pytest.mark.pinprof(page_faults=0)
def test_fails_by_itself():
    assert touch(1) == 2

@pytest.mark.pinprof
def test_default():
    touch(96)

@pytest.mark.xfail(strict=True)
@pytest.mark.pinprof(page_faults=1)
def test_expected():
    touch(1)

def test_without_mark():
    touch(96)
'''
BROKEN = "page-faults is broken: 8,"
"""32 MiB in pages of 4 KiB: 8,192 faults, and some more."""
INI = """
[pytest]
pinprof_budgets = page_faults=20_000
pinprof_frequency = 4999
"""


def refused() -> str:
    """Why nothing can be sampled here."""
    try:
        native.check(RecordRequest(command=(sys.executable,)))
    except PinprofError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Ran:
    """One run of the project's tests."""

    status: int
    text: str
    failures: Mapping[str, str]
    """Test → its message, of those that did not pass."""
    passed: frozenset[str]
    folder: Path


def run(folder: Path, site: Path, *arguments: str, before: tuple[str, ...] = ()) -> Ran:
    """Run the project as its user would."""
    folder.mkdir(exist_ok=True)
    (folder / "test_memory.py").write_text(PROJECT)
    (folder / "pytest.ini").write_text(INI)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    quiet = [word for name in ("cov", "hypothesispytest", "timeout") for word in ("-p", f"no:{name}")]
    done = subprocess.run(
        [*before, sys.executable, "-m", "pytest", *quiet, "--junitxml=junit.xml", *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(site), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "junit.xml").exists(), done.stdout + done.stderr
    failures, passed = {}, set()
    for case in ET.parse(folder / "junit.xml").iter("testcase"):
        said = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        if said is None:
            passed.add(str(case.get("name")))
        else:
            failures[str(case.get("name"))] = f"{said.get('message')}\n{said.text}"
    return Ran(done.returncode, done.stdout, failures, frozenset(passed), folder)


@pytest.fixture(scope="module")
def sampled(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every test once, without any option that asks for it: marks alone."""
    if reason := refused():
        pytest.skip(reason)
    if not native.samples_kernel(RecordRequest(command=(sys.executable,))):
        pytest.skip("the kernel's part may not be sampled here")
    return run(tmp_path_factory.mktemp("project"), installed, "--pinprof-keep", "kept")


def test_budgets_that_hold_pass_and_others_fail(sampled: Ran) -> None:
    assert sampled.status == 1
    assert sampled.passed == {
        "test_nothing_is_imported_before_a_test_asks", "test_holds", "test_blocks", "test_second_attempt",
        "test_others_do_not_count", "test_without_mark",
    }  # fmt: skip


def test_a_broken_budget_says_what_where_and_what_next(sampled: Ran) -> None:
    said = sampled.failures["test_broken"]
    assert f"pinprof: {BROKEN}" in said
    assert "where: test_memory.py:14 (touch)" in said
    assert "pinprof report kept/test_memory-test_broken.pinprof" in said
    share = sampled.failures["test_share_broken"]
    assert "  share of fault is broken: " in share  # behind the default, which is broken as well
    assert "test_memory.py:14 (touch)" in share


def test_a_kept_capture_is_read_as_any_other(sampled: Ran) -> None:
    capture = read(sampled.folder / "kept" / "test_memory-test_broken.pinprof")
    assert list(capture.ranges.name) == ["test_broken"]
    assert len(capture.samples)
    assert not list((sampled.folder / "kept").glob("*holds*"))


def test_what_cannot_be_judged_does_not_pass(sampled: Ran) -> None:
    assert "pairs is not assessable: CUDA calls are not traced from within" in sampled.failures["test_calls"]
    assert "page-faults" not in sampled.failures["test_calls"]


def test_a_mistyped_budget_fails_before_the_body(sampled: Ran) -> None:
    said = sampled.failures["test_mistyped"]
    assert "Did you mean 'page-faults'?" in said
    assert "body must not run" not in said


def test_each_attempt_is_judged_for_itself(sampled: Ran) -> None:
    assert "test_second_attempt" in sampled.passed
    assert "1 rerun" in sampled.text


def test_a_tests_own_threads_count_and_no_older_ones(sampled: Ran) -> None:
    assert "test_others_do_not_count" in sampled.passed
    assert BROKEN in sampled.failures["test_own_threads_count"]


def test_a_failing_test_keeps_its_own_error(sampled: Ran) -> None:
    said = sampled.failures["test_fails_by_itself"]
    assert "assert None == 2" in said
    assert "page faults" not in said


def test_defaults_of_the_ini_file_hold_for_marked_tests(sampled: Ran) -> None:
    assert "page-faults is broken: 24," in sampled.failures["test_default"]
    assert "20,000 are allowed" in sampled.failures["test_default"]


def test_a_block_inside_a_recorded_test_is_judged_too(sampled: Ran) -> None:
    said = sampled.failures["test_a_block_in_a_recorded_test"]
    assert BROKEN in said
    assert "10 are allowed" in said
    assert "plugin" not in said  # its traceback is not shown


def test_nothing_is_left_behind(sampled: Ran) -> None:
    assert {path.name for path in sampled.folder.iterdir()} <= {
        "kept", "junit.xml", "test_memory.py", "pytest.ini", ".pytest_cache", "__pycache__",
    }  # fmt: skip


@pytest.fixture(scope="module")
def counted(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every test recorded, by two workers, where the kernel refuses samples."""
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("no filter of system calls for this processor")
    options = ("--pinprof", "--pinprof-allow-unassessable", "-n", "2", "-k", "broken or holds or calls or without")
    refusing = (sys.executable, str(WITHOUT_PERF))
    return run(tmp_path_factory.mktemp("counted"), installed, *options, before=refusing)


def test_exact_counts_are_judged_without_rights(counted: Ran) -> None:
    assert BROKEN in counted.failures["test_broken"]
    # With --pinprof the default holds for tests without a mark as well.
    assert "page-faults is broken: 24," in counted.failures["test_without_mark"]
    assert counted.passed == {"test_holds", "test_calls"}


def test_what_passes_unjudged_is_said_loudly(counted: Ran) -> None:
    loud = counted.text.partition("NOT ASSESSED")[2]
    assert "2 of 5 recorded tests passed although their budgets could not be judged" in loud
    assert "test_holds" in loud
    assert "pairs: CUDA calls are not traced" in loud


def test_workers_bring_their_figures_to_one_table(counted: Ran) -> None:
    table = counted.text.partition("pinprof: memory")[2].partition("!!!")[0]
    rows = [line.split() for line in table.splitlines() if "::" in line]
    assert len(rows) == 5
    # Those with most page faults first, where nobody knows what memory took.
    first = {word.partition("::")[2] for row in rows[:2] for word in row if "::" in word}
    assert first == {"test_share_broken", "test_without_mark"}
    assert "Exact counts alone: pinprof may not sample programs here" in counted.text
    assert "2 workers ran tests beside each other" in counted.text


def test_without_the_kernels_part_counts_hold_and_shares_are_not_judged(installed: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv") or permission.paranoid() != 2:
        pytest.skip("needs setpriv, root to give up rights, and kernel.perf_event_paranoid 2")
    if reason := refused():
        pytest.skip(reason)
    drop = [f"--{name}=-perfmon,-sys_admin" for name in ("bounding-set", "inh-caps")]
    ran = run(tmp_path / "project", installed, "-k", "broken", before=("setpriv", *drop))
    assert BROKEN in ran.failures["test_broken"]
    assert "share of fault is not assessable" in ran.failures["test_share_broken"]
    assert "`pinprof doctor` says what sampling needs here" in ran.failures["test_share_broken"]
    assert "time in the kernel (page faults, pinning) and off the processors is missing" in ran.text
