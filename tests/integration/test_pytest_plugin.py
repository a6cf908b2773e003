"""The pytest plugin in a user's project: the wheel is installed, this repository is not on the path."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from pinprof.collect import RecordRequest, native, permission
from pinprof.read import read
from tests.integration.test_cuda_calls import build
from tests.support.recorded_programs import native_missing
from tests.support.situation import SITUATION

PROJECT = '''
import mmap, sys, threading
import pytest

def test_nothing_is_imported_before_a_test_asks():
    assert "pinprof.pytest_plugin" in sys.modules
    assert not {"numpy", "click", "pinprof.collect", "pinprof.read"} & set(sys.modules)

def touch(mib, work=0):
    """First touch of as many pages, one fault each; with work, a second: samplers may stand still for a part of it."""
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for place in range(0, len(memory), 4096):
        memory[place] = 1 + sum(range(work)) % 2

@pytest.mark.pinprof(page_faults=30_000, cause={"fault": "99 %", "pin": "1 %"})
def test_holds():
    touch(64, 1000)

@pytest.mark.pinprof(page_faults=1000, findings=1000)
def test_broken():
    touch(32, 10_000)

@pytest.mark.pinprof(cause={"fault": "1 %"})
def test_share_broken():
    for _ in range(15):
        touch(96)

@pytest.mark.pinprof(pairs=0, page_faults="1000000")
def test_calls():
    touch(1)

@pytest.mark.pinprof(page_faults=1000, range="lode")
def test_no_such_range():
    touch(1)

@pytest.mark.pinprof(page_falts=1)
def test_mistyped():
    raise AssertionError("its body must not run")

def test_blocks(pinprof_record):
    touch(16)
    with pinprof_record("load") as block:
        for _ in range(8):
            touch(32, 1000)
    touch(16)
    assert 65_536 <= block.page_faults < 67_000
    block.check(page_faults=67_000)
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
        asked.clear()
        done.set()
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
CUDA_PROJECT = """
import ctypes, os, threading
import pytest

MIB = 1 << 20
P, N = ctypes.c_void_p, ctypes.c_size_t

def granted(function, size, *more):
    place = P()
    assert function(ctypes.byref(place), N(size), *more) == 0
    return place.value

@pytest.fixture(scope="module")
def cuda():
    return [ctypes.CDLL(os.environ["STANDS_IN"] + "/" + name) for name in ("libcuda.so.1", "libcudart.so.13")]

@pytest.fixture(scope="module")
def pool(cuda):
    driver, runtime = cuda
    return granted(runtime.cudaMallocHost, 64 * MIB), granted(driver.cuMemAlloc_v2, MIB)

@pytest.mark.pinprof(pinned_bytes=0, pairs=0, calls=0, pageable_bytes=0, pageable_async_calls=0)
def test_no_call():
    bytes(MIB)

@pytest.mark.pinprof(pinned_bytes=0, pairs=0, calls=5, pageable_bytes=0)
def test_a_fixtures_pool_is_pinned(cuda, pool):
    for _ in range(5):
        cuda[1].cudaMemcpy(P(pool[1]), P(pool[0] + 4096), N(1000), 1)

@pytest.mark.pinprof(pageable_bytes=1000)
def test_pageable(cuda, pool):
    plain = ctypes.create_string_buffer(MIB)
    for _ in range(2):
        cuda[1].cudaMemcpy(P(pool[1]), P(ctypes.addressof(plain)), N(1000), 1)

@pytest.mark.pinprof(pinned_bytes="8 MiB", pairs=2)
def test_pins_too_much(cuda):
    places = [granted(cuda[1].cudaMallocHost, 6 * MIB) for _ in range(2)]
    for place in places:
        cuda[1].cudaFreeHost(P(place))

@pytest.mark.pinprof(pinned_bytes="6 MiB", pairs=1)
def test_one_pair_too_many(cuda):
    for _ in range(2):
        cuda[1].cudaFreeHost(P(granted(cuda[1].cudaMallocHost, 6 * MIB)))

attempts = []

@pytest.mark.flaky(reruns=1)
@pytest.mark.pinprof(calls=0)
def test_second_attempt(cuda):
    attempts.append(1)
    if len(attempts) < 2:
        granted(cuda[1].cudaMallocHost, MIB)

@pytest.mark.pinprof(calls=1)
def test_older_threads_do_not_count(cuda, helper):
    helper[0].set()
    assert helper[1].wait(60)
    granted(cuda[1].cudaMallocHost, MIB)

@pytest.fixture
def helper(cuda):
    asked, done = threading.Event(), threading.Event()
    def work():
        asked.wait(60)
        for _ in range(3):
            granted(cuda[1].cudaMallocHost, MIB)
        done.set()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield asked, done
    thread.join()

def test_block(cuda, pinprof_record):
    granted(cuda[1].cudaMallocHost, 4 * MIB)
    with pinprof_record("pins") as block:
        granted(cuda[1].cudaMallocHost, 2 * MIB)
    granted(cuda[1].cudaMallocHost, 4 * MIB)
    block.check(pinned_bytes="2 MiB", calls=1)
    block.check(pinned_bytes="1 MiB")
"""
BROKEN = "page-faults is broken: 8,"
"""32 MiB in pages of 4 KiB: 8,192 faults, and some more."""
INI = """
[pytest]
pinprof_budgets = page_faults=20_000
pinprof_frequency = 4999
"""


@dataclass(frozen=True)
class Ran:
    """One run of the project's tests."""

    status: int
    text: str
    failures: Mapping[str, str]
    """Test → its message, of those that did not pass."""
    passed: frozenset[str]
    folder: Path


def run(
    folder: Path,
    site: Path,
    *arguments: str,
    before: tuple[str, ...] = (),
    project: str = PROJECT,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Ran:
    """Run the project as its user would; `more`: variables of its environment."""
    folder.mkdir(exist_ok=True)
    (folder / "test_memory.py").write_text(project)
    (folder / "pytest.ini").write_text(INI)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    quiet = [word for name in ("cov", "hypothesispytest", "timeout") for word in ("-p", f"no:{name}")]
    done = subprocess.run(
        [*before, sys.executable, "-m", "pytest", *quiet, "--junitxml=junit.xml", *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(site), "COLUMNS": "200", **more},
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
    if reason := native_missing():
        pytest.skip(reason)
    if not native.samples_kernel(RecordRequest(command=(sys.executable,))):
        pytest.skip("the kernel's part may not be sampled here")
    chosen = ("-k", "not nothing_is_imported and not calls")
    return run(tmp_path_factory.mktemp("project"), installed, "--pinprof-keep", "kept", *chosen)


def test_nothing_is_imported_before_a_test_asks(installed: Path, tmp_path: Path) -> None:
    ran = run(tmp_path / "project", installed, "-k", "nothing_is_imported")
    assert ran.passed == {"test_nothing_is_imported_before_a_test_asks"}


def test_budgets_that_hold_pass_and_others_fail(sampled: Ran) -> None:
    assert sampled.status == 1
    assert sampled.passed == {
        "test_holds", "test_blocks", "test_second_attempt",
        "test_others_do_not_count", "test_without_mark",
    }, sampled.text  # fmt: skip


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
    said = sampled.failures["test_no_such_range"]
    assert "page-faults in lode is not assessable: The run has no range 'lode'." in said
    assert "cause" not in said


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
    assert "the budget is 20,000" in sampled.failures["test_default"]


def test_a_block_inside_a_recorded_test_is_judged_too(sampled: Ran) -> None:
    said = sampled.failures["test_a_block_in_a_recorded_test"]
    assert BROKEN in said
    assert "the budget is 10." in said
    assert "plugin" not in said  # its traceback is not shown


def test_nothing_is_left_behind(sampled: Ran) -> None:
    assert {path.name for path in sampled.folder.iterdir()} <= {
        "kept", "junit.xml", "test_memory.py", "pytest.ini", ".pytest_cache", "__pycache__",
    }  # fmt: skip


@pytest.fixture(scope="module")
def stands_in(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a program that finds what stands in for CUDA's libraries."""
    folder = str(build(tmp_path_factory.mktemp("cuda")))
    return {"STANDS_IN": folder, "LD_LIBRARY_PATH": folder}


@pytest.fixture(scope="module")
def traced(installed: Path, stands_in: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every test of the project that calls CUDA."""
    folder = tmp_path_factory.mktemp("traced")
    return run(folder, installed, "--pinprof-keep", "kept", project=CUDA_PROJECT, more=stands_in)


def test_calls_in_the_body_of_a_test_are_judged_and_no_others(traced: Ran) -> None:
    assert traced.passed == {
        "test_no_call", "test_a_fixtures_pool_is_pinned", "test_second_attempt", "test_older_threads_do_not_count",
    }, traced.text  # fmt: skip
    for test, words in {
        "test_pageable": "pageable-bytes is broken: 1.953 KiB",
        "test_pins_too_much": "pinned-bytes is broken: 12 MiB",
        "test_one_pair_too_many": "pairs is broken: 2 pairs",
        "test_block": "pinned-bytes is broken: 2 MiB",
    }.items():
        assert f"pinprof: {words}" in traced.failures[test]
        assert "not assessable" not in traced.failures[test]
    assert "1 rerun" in traced.text


def test_a_kept_capture_has_the_tests_calls_and_what_was_granted_before(traced: Ran) -> None:
    activity = read(traced.folder / "kept" / "test_memory-test_pageable.pinprof").activity
    assert activity is not None
    assert [activity.calls.names[name] for name in activity.calls.name.tolist()] == ["cudaMemcpy"] * 2
    assert activity.part


def test_calls_of_a_test_are_judged_from_outside_too(
    installed: Path, stands_in: Mapping[str, str], tmp_path: Path
) -> None:
    """The test's name is the range; its own budgets are judged inside at the same time."""
    (tmp_path / "test_memory.py").write_text(CUDA_PROJECT)
    (tmp_path / "pinprof.toml").write_text(
        '[[budget]]\nrange = "test_one_pair_too_many"\npairs = 1\n'
        '[[budget]]\nrange = "test_a_fixtures_pool_is_pinned"\ncalls = 5\npageable-bytes = 0\n'
    )
    tests = [f"test_memory.py::{name}" for name in ("test_a_fixtures_pool_is_pinned", "test_one_pair_too_many")]
    run_tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=", "--pinprof", *tests]
    status = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]) not in (0, 1))"  # one of them fails
    command = [sys.executable, "-m", "pinprof", "check", "--write", "json=out.json", "--", sys.executable, "-c", status]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(
        [*command, *run_tests[3:]],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(installed), **stands_in},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    verdicts = json.loads((tmp_path / "out.json").read_text())["verdicts"]
    assert {(one["measure"], one["found"], one["outcome"]) for one in verdicts} == {
        ("pairs", 2, "broken"), ("calls", 5, "holds"), ("pageable-bytes", 0, "holds"),
    }  # fmt: skip


def test_calls_are_judged_without_rights(installed: Path, stands_in: Mapping[str, str], tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs setpriv, and root to give up rights")
    if reason := native_missing():
        pytest.skip(reason)
    drop = [f"--{name}=-sys_admin,-perfmon" for name in ("bounding-set", "inh-caps")]
    only = ("-k", "too_many or no_call")
    ran = run(tmp_path / "p", installed, *only, before=("setpriv", *drop), project=CUDA_PROJECT, more=stands_in)
    assert ran.passed == {"test_no_call"}, ran.text
    assert "pinprof: pairs is broken: 2 pairs" in ran.failures["test_one_pair_too_many"]


@pytest.fixture(scope="module")
def counted(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every test recorded, by two workers, where the kernel refuses samples."""
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("no filter of system calls for this processor")
    options = ("--pinprof", "--pinprof-allow-unassessable", "-n", "2", "-k", "broken or holds or calls or without")
    refusing = (*SITUATION, "refuse=EPERM:perf_event_open", "--")
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
    assert "pairs: pinprof is not permitted to sample programs: " in loud


def test_workers_bring_their_figures_to_one_table(counted: Ran) -> None:
    table = counted.text.partition("pinprof: memory")[2].partition("!!!")[0]
    rows = [line.split() for line in table.splitlines() if "::" in line]
    assert len(rows) == 5
    # Those with most page faults first, where nobody knows what memory took.
    first = {word.partition("::")[2] for row in rows[:2] for word in row if "::" in word}
    assert first == {"test_share_broken", "test_without_mark"}
    assert "Only exact counts: pinprof is not permitted to sample programs: " in counted.text
    assert "2 workers ran tests in parallel" in counted.text


def test_without_the_kernels_part_counts_hold_and_shares_are_not_judged(installed: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv") or permission.paranoid() != 2:
        pytest.skip("needs setpriv, root to give up rights, and kernel.perf_event_paranoid 2")
    if reason := native_missing():
        pytest.skip(reason)
    drop = [f"--{name}=-perfmon,-sys_admin" for name in ("bounding-set", "inh-caps")]
    ran = run(tmp_path / "project", installed, "-k", "broken", before=("setpriv", *drop))
    assert BROKEN in ran.failures["test_broken"]
    assert "share of fault is not assessable" in ran.failures["test_share_broken"]
    assert "Run `pinprof doctor` to see what sampling needs here" in ran.failures["test_share_broken"]
    assert "without time in the kernel (page faults, pinning) and off the CPU" in ran.text
