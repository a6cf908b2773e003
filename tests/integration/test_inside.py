"""The agent inside programs, before a stand-in for CUDA's driver: every call, its bytes, its line, whatever they do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.data.activity import MemoryKind
from pinprof.machine.libraries import compiler
from pinprof.read.inside.layout import Kind
from pinprof.streams import share, store
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
PROGRAM = Path(__file__).with_name("agent_program.py")
MEMORY_PROGRAM = Path(__file__).with_name("memory_program.py")
PYTHONS = sorted(Path(sys.base_prefix).parent.glob("3.1[1-5].*/bin/python3")) or [Path(sys.executable)]


def test_every_argument_arrives_and_results_come_back(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    word from[2] = {1, 2}, to[2] = {3, 4};
    size_t sizes[2] = {10, 300};
    for (int i = 0; i < 3; i++) {
        errno = 7;
        printf("%d ", cuLaunchKernel((void *)1, 2, 3, 4, 5, 6, 7, 8, (void *)9, (void **)10, (void **)11));
        printf("%d ", cuMemcpyBatchAsync_v2(to, from, sizes, 2, NULL, NULL, 7, (void *)8));
        printf("%d ", cuEventQuery((void *)1));
        printf("%d ", errno);
        cuEventRecord((void *)13, NULL);
        printf("%d\\n", errno);
    }
    return 5;
}
"""
    program = agent.of_c(tmp_path, driver, text)
    expected = ["506", "0", "600", "7", "13"] * 3
    assert agent.run([program], driver, None, status=5).split() == expected
    assert agent.run([program], driver, folder, status=5).split() == expected
    calls = agent.read(folder).activity.calls
    assert [calls.names[name] for name in calls.name] == [
        "cuLaunchKernel", "cuMemcpyBatchAsync", "cuEventQuery", "cuEventRecord",
    ] * 3  # fmt: skip
    assert calls.size_bytes is not None
    assert calls.stream is not None
    assert calls.size_bytes[calls.name == calls.names.index("cuMemcpyBatchAsync")].tolist() == [310] * 3
    assert calls.status.tolist() == [506, 0, 600, 0] * 3
    assert calls.stream[0] == 9


def test_whose_context_a_call_takes_is_known(driver: Path, folder: Path) -> None:
    text = (
        agent.PRELUDE
        + """
place = P()
for gpu in (0, 3, 0):
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(place), gpu)
cuda.cuDevicePrimaryCtxRelease_v2(3)
cuda.cuInit(0)
"""
    )
    agent.run_python(driver, folder, text)
    calls = agent.read(folder).activity.calls
    assert calls.device is not None
    named = [calls.names[name] for name in calls.name.tolist()]
    assert list(zip(named, calls.device.tolist(), strict=True)) == [
        *(("cuDevicePrimaryCtxRetain", gpu) for gpu in (0, 3, 0)), ("cuDevicePrimaryCtxRelease", 3), ("cuInit", -1),
    ]  # fmt: skip


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_every_call_of_python_has_its_line(driver: Path, folder: Path, python: Path) -> None:
    told = agent.run([python, "-S", PROGRAM], driver, folder)
    said = {int(size): int(count) for size, count in (line.split() for line in told.splitlines())}
    found = agent.read(folder)
    assert found.notes == ()
    calls = found.activity.calls
    assert calls.size_bytes is not None
    assert Counter(calls.size_bytes.tolist()) == said
    assert len(said) == 13
    assert len(calls) >= 100_000
    assert agent.misplaced(calls, PROGRAM) == []
    assert {site.path for site in calls.sites} == {str(PROGRAM), "text.py"}


FREQUENT = """
static __attribute__((noinline)) void copy(size_t size)
{
    cuMemcpyHtoDAsync_v2(DEVICE, &size, size, NULL); /* line */
}
static void *work(void *count)
{
    for (long i = 0; i < (long)count; i++) {
        copy(1000 + (size_t)i % 7);
        cuLaunchKernel(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
        if (i % 1000 == 0)
            copy(100000);
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, (void *)(30000 * (i + 1)));
    for (long i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
"""


def line_of_copy() -> int:
    return next(n for n, text in enumerate((agent.DECLARED + FREQUENT).splitlines(), 1) if "/* line */" in text)


def test_frequent_calls_are_summed_and_nothing_is_lost(driver: Path, tmp_path: Path, folder: Path) -> None:
    program = agent.of_c(tmp_path, driver, FREQUENT)
    agent.run([program], driver, folder)
    (file,) = agent.files(folder)
    sums = file.records["kind"] == Kind.SUM
    assert 0 < sums.sum() < 20_000
    assert len(file.records) < 180_000
    found = agent.read(folder)
    assert found.notes == ()
    calls = found.activity.calls
    assert calls.size_bytes is not None
    small, large = ([1000 + i % 7 for i in range(180_000)], [100_000] * 180)
    copies = calls.name == calls.names.index("cuMemcpyHtoDAsync")
    launches = calls.name == calls.names.index("cuLaunchKernel")
    assert copies.sum() == len(small) + len(large)
    by_thread = [sum(1000 + i % 7 for i in range(30_000 * n)) + 100_000 * 30 * n for n in (1, 2, 3)]
    threads = np.unique(calls.tid)
    sizes = sorted(int(calls.size_bytes[copies & (calls.tid == tid)].sum()) for tid in threads)
    assert sizes == by_thread
    assert sorted(int(launches[calls.tid == tid].sum()) for tid in threads) == [30_000, 60_000, 90_000]
    line = line_of_copy()
    assert set(agent.lines(calls.take(np.flatnonzero(copies)))) == {("cuMemcpyHtoDAsync", line)}
    for tid in threads:
        mine = calls.tid == tid
        took = calls.end_ns[mine] - calls.start_ns[mine]
        assert took.min() >= 0
        assert took.sum() <= calls.end_ns[mine].max() - calls.start_ns[mine].min()
        assert (calls.start_ns[mine][1:] >= calls.end_ns[mine][:-1]).all()
    assert calls.target_kind is not None
    assert set(calls.target_kind[copies].tolist()) == {MemoryKind.DEVICE}


@pytest.mark.parametrize("seed", [0, 1])
def test_both_ends_of_every_copy(driver: Path, tmp_path: Path, folder: Path, seed: int) -> None:
    (tmp_path / "weights").write_bytes(bytes(1 << 20))
    told = agent.run_python(driver, folder, MEMORY_PROGRAM, str(seed), "5000", str(tmp_path / "weights"))
    found = agent.read(folder)
    assert found.notes == ()
    made, wrong = agent.wrong_ends(found.activity.calls, told)
    assert made > 1000
    assert wrong == []


def recorded(target: Path, driver: Path, *command: str | Path, status: int = 0) -> str:
    asked = [sys.executable, "-m", "pinprof", "record", "--inside", "on", "--python", "off", "--no-calibrate", "-q"]
    done = subprocess.run(
        [*asked, "-o", target, "--", *command],
        env={**os.environ, "LD_LIBRARY_PATH": str(driver)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_a_recording_has_the_calls_and_reads_the_same_when_it_is_shared(driver: Path, tmp_path: Path) -> None:
    target = tmp_path / "calls.pinprof"
    told = recorded(target, driver, sys.executable, PROGRAM, "20000")
    said = {int(size): int(count) for size, count in (line.split() for line in told.splitlines() if line[0] == "1")}
    capture = read.read(target)
    assert capture.activity is not None
    calls = capture.activity.calls
    assert calls.size_bytes is not None
    assert Counter(calls.size_bytes.tolist()) == said
    assert not (target / store.CALLS_DATA).exists()
    size_of = agent.marked(PROGRAM)
    assert {size_of.get(site.line) for site in calls.sites if site.path == str(PROGRAM)} == {*said} - {112}
    copy = read.read(share.share(target, tmp_path / "given")).activity
    assert copy is not None
    assert copy.calls.sites == calls.sites
    assert copy.calls.start_ns.tolist() == calls.start_ns.tolist()


def test_native_lines_are_in_the_capture(driver: Path, tmp_path: Path) -> None:
    target = tmp_path / "calls.pinprof"
    program = agent.of_c(tmp_path, driver, FREQUENT)
    recorded(target, driver, program)
    program.unlink()
    activity = read.read(target).activity
    assert activity is not None
    assert {site.text for site in activity.calls.sites} >= {f"copy (program.c:{line_of_copy()})"}


def test_a_program_that_the_agent_cannot_come_into_runs_and_that_is_said(driver: Path, tmp_path: Path) -> None:
    static = agent.program(tmp_path, "int main(void) { return 0; }", "-static")
    said = recorded(tmp_path / "x.pinprof", driver, static)
    assert "is linked statically" in said
    assert "Leave out --inside" in said


def test_a_program_without_cuda_leaves_no_folder(tmp_path: Path) -> None:
    recorded(tmp_path / "x.pinprof", tmp_path, sys.executable, "-c", "print(sum(range(10**6)))")
    assert not (tmp_path / "x.pinprof" / store.INSIDE).exists()


def test_page_faults_of_calls_that_pin_or_take_long_are_known(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = """
int cuMemHostRegister_v2(void *, size_t, unsigned);
static __attribute__((noinline)) void pin(void *start) { cuMemHostRegister_v2(start, 64 * 4096, 0); }
static __attribute__((noinline)) void spend(long ns) { cuStreamSynchronize((void *)ns); }
int main(void)
{
    char *memory = mmap(NULL, 2 * 64 * 4096, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, 2 * 64 * 4096, MADV_NOHUGEPAGE);
    memset(memory, 1, 64 * 4096);
    for (volatile int i = 0; i < 2; i++)
        pin(memory);
    pin(memory + 64 * 4096);
    cuMemcpyHtoDAsync_v2(DEVICE, memory, 10 << 10, NULL);
    cuMemcpyHtoDAsync_v2(DEVICE, memory, 100 << 10, NULL);
    for (volatile int i = 0; i < 3; i++)
        spend(200000);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld", usage.ru_majflt);
    return 0;
}"""
    major = int(agent.run([agent.of_c(tmp_path, driver, text)], driver, folder))
    calls = agent.read(folder).activity.calls
    assert calls.minor_faults is not None
    assert calls.major_faults is not None
    faults: dict[str, list[int]] = {}
    for name, count in zip(calls.name.tolist(), calls.minor_faults.tolist(), strict=True):
        faults.setdefault(calls.names[name], []).append(count)
    _, again, new = faults["cuMemHostRegister"]
    assert 0 <= again < 8
    assert 64 <= new < 72
    assert [count >= 0 for count in faults["cuMemcpyHtoDAsync"]] == [False, True]
    assert [count >= 0 for count in faults["cuStreamSynchronize"]] == [False, True, True]
    # None, unless the machine had no room for what a library's file holds.
    assert 0 <= calls.major_faults[calls.minor_faults >= 0].sum() <= major
