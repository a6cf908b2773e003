"""The agent inside programs, before a stand-in for CUDA's driver: every call, its bytes, its line, whatever they do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from pinprof import read
from pinprof.data.activity import MemoryKind
from pinprof.machine.libraries import INSIDE, compiler
from pinprof.read.inside.file import Kind, Stop
from pinprof.streams import share, store
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
PROGRAM = Path(__file__).with_name("agent_program.py")
PYTHONS = sorted(Path(sys.base_prefix).parent.glob("3.1[1-5].*/bin/python3")) or [Path(sys.executable)]
DECLARED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
typedef uint64_t word;
int cuInit(unsigned), cuMemcpyHtoDAsync_v2(word, const void *, size_t, void *), cuEventQuery(void *),
    cuEventRecord(void *, void *), cuMemAlloc_v2(word *, size_t), cuMemHostAlloc(void **, size_t, unsigned),
    cuMemcpyBatchAsync_v2(word *, word *, size_t *, size_t, void *, size_t *, size_t, void *),
    cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
        void **),
    cuGetProcAddress_v2(const char *, void **, int, word, int *), cuStreamSynchronize(void *);
#define DEVICE ((word)0x7f << 56)
"""
PRELUDE = "import ctypes, os, sys\ncuda = ctypes.CDLL('libcuda.so.1', use_errno=True)\nP = ctypes.c_void_p\n"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent.build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "inside"


def of_c(tmp_path: Path, driver: Path, text: str, *options: str) -> Path:
    return agent.build_program(tmp_path, driver, DECLARED + text, *options)


def marked(source: Path) -> dict[int, int]:
    """Line → the number in the comment that it ends in."""
    found = (re.search(r"# (\d+)$", line) for line in source.read_text("utf-8").splitlines())
    return {number: int(match[1]) for number, match in enumerate(found, 1) if match}


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
    program = of_c(tmp_path, driver, text)
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


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_every_call_of_python_has_its_line(driver: Path, folder: Path, python: Path) -> None:
    told = agent.run([python, "-S", PROGRAM], driver, folder)
    said = {int(size): int(count) for size, count in (line.split() for line in told.splitlines())}
    size_of = marked(PROGRAM)
    found = agent.read(folder)
    assert found.notes == ()
    calls = found.activity.calls
    assert calls.size_bytes is not None
    assert calls.site is not None
    seen = Counter(calls.size_bytes.tolist())
    assert seen == said
    assert len(said) == 12
    assert len(calls) >= 100_000
    for size, site in zip(calls.size_bytes.tolist(), calls.site.tolist(), strict=True):
        caller = calls.sites[site]
        expected = 112 if caller.path == "text.py" else size_of[caller.line]
        assert expected == size
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
    return next(n for n, text in enumerate((DECLARED + FREQUENT).splitlines(), 1) if "/* line */" in text)


def test_frequent_calls_are_summed_and_nothing_is_lost(driver: Path, tmp_path: Path, folder: Path) -> None:
    program = of_c(tmp_path, driver, FREQUENT)
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


def test_both_ends_of_every_copy(driver: Path, folder: Path) -> None:
    script = (
        PRELUDE
        + """
import random, threading
Q, N = ctypes.c_uint64, ctypes.c_size_t
kinds, lock = {}, threading.Lock()
def granted(function, size, *more):
    place = P()
    assert function(ctypes.byref(place), N(size), *more) == 0
    return place.value
def work(seed, steps):
    chosen, live, plain = random.Random(seed), [], [ctypes.create_string_buffer(1 << 16) for _ in range(64)]
    registered = set()
    for step in range(steps):
        size = 4096 * chosen.randrange(1, 16)
        what = chosen.randrange(8)
        if what == 0: live.append(("pinned", granted(cuda.cuMemHostAlloc, size, 0), size))
        elif what == 1: live.append(("managed", granted(cuda.cuMemAllocManaged, size, 1), size))
        elif what == 2: live.append(("device", granted(cuda.cuMemAlloc_v2, size), size))
        elif what == 3:
            at = chosen.randrange(64)
            (cuda.cuMemHostUnregister if at in registered else cuda.cuMemHostRegister_v2)(
                P(ctypes.addressof(plain[at])), *([] if at in registered else [N(1 << 16), 0]))
            registered ^= {at}
        elif what == 4 and live:
            kind, place, _ = live.pop(chosen.randrange(len(live)))
            (cuda.cuMemFreeHost if kind == "pinned" else cuda.cuMemFree_v2)(P(place))
        elif live:
            at = chosen.randrange(64)
            ends = [("registered" if at in registered else "pageable", ctypes.addressof(plain[at]), 1 << 16)]
            ends.append(chosen.choice(live))
            chosen.shuffle(ends)
            with lock:
                number = len(kinds) + 1
                kinds[number] = [kind for kind, _, _ in ends]
            to, source = (place + chosen.randrange(size - 100) for _, place, size in ends)
            cuda.cuMemcpyAsync(Q(to), Q(source), N(number), None)
threads = [threading.Thread(target=work, args=(seed, 2500)) for seed in range(4)]
work(9, 5000)
for thread in threads: thread.start()
for thread in threads: thread.join()
if not os.fork():
    kinds.clear()
    plain = ctypes.create_string_buffer(100)
    cuda.cuMemcpyAsync(Q(granted(cuda.cuMemHostAlloc, 4096, 0)), Q(ctypes.addressof(plain)), N(100001), None)
    os._exit(0)
os.wait()
for number, (to, source) in kinds.items(): print(number, to, source)
"""
    )
    told = agent.run_python(driver, folder, script)
    kind_of = {
        "pinned": MemoryKind.PINNED, "registered": MemoryKind.PINNED, "managed": MemoryKind.MANAGED,
        "device": MemoryKind.DEVICE, "pageable": MemoryKind.PAGEABLE,
    }  # fmt: skip
    said = {int(number): (kind_of[to], kind_of[source]) for number, to, source in map(str.split, told.splitlines())}
    said[100_001] = MemoryKind.PINNED, MemoryKind.PAGEABLE
    calls = agent.read(folder).activity.calls
    assert calls.size_bytes is not None
    assert calls.target_kind is not None
    assert calls.source_kind is not None
    copies = np.flatnonzero(calls.name == calls.names.index("cuMemcpyAsync"))
    sizes, ends = (
        calls.size_bytes[copies].tolist(),
        zip(calls.target_kind[copies], calls.source_kind[copies], strict=True),
    )
    assert len(copies) > 4000
    assert dict(zip(sizes, ends, strict=True)) == said


def test_a_forked_child_has_a_file_of_its_own(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    for (int i = 0; i < 10; i++)
        cuEventQuery(NULL);
    for (int i = 0; i < 3; i++)
        if (!fork()) {
            for (int k = 0; k < 100 * (i + 1); k++)
                cuInit(0);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    for (int i = 0; i < 5; i++)
        cuEventQuery(NULL);
    return 0;
}
"""
    agent.run([of_c(tmp_path, driver, text)], driver, folder)
    counts = [Counter(file.names[row] for row in file.records["function"]) for file in agent.files(folder)]
    assert sorted(map(dict, counts), key=str) == [
        {"cuEventQuery": 15}, {"cuInit": 100}, {"cuInit": 200}, {"cuInit": 300},
    ]  # fmt: skip


def test_what_a_process_becomes_records_too(driver: Path, folder: Path) -> None:
    again = "import ctypes; ctypes.CDLL('libcuda.so.1').cuEventQuery(None)"
    script = PRELUDE + f"cuda.cuInit(0)\nos.execv(sys.executable, [sys.executable, '-S', '-c', {again!r}])"
    agent.run_python(driver, folder, script)
    files = agent.files(folder)
    assert len({file.pid for file in files}) == 1
    assert sorted(file.names[row] for file in files for row in file.records["function"]) == ["cuEventQuery", "cuInit"]


def test_threads_that_end_leave_their_calls(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = """
static pthread_key_t key;
static void last(void *unused) { (void)unused, cuEventRecord(NULL, NULL); }
static void *work(void *n)
{
    pthread_setspecific(key, n);
    for (long i = 0; i < (long)n % 50; i++)
        cuEventQuery(NULL);
    return NULL;
}
int main(void)
{
    pthread_t threads[8];
    pthread_key_create(&key, last);
    for (long i = 0; i < 1000; i += 8) {
        for (int k = 0; k < 8; k++)
            pthread_create(&threads[k], NULL, work, (void *)(i + k + 1));
        for (int k = 0; k < 8; k++)
            pthread_join(threads[k], NULL);
    }
    return 0;
}
"""
    agent.run([of_c(tmp_path, driver, text)], driver, folder)
    (file,) = agent.files(folder)
    counts = Counter(file.names[row] for row in file.records["function"])
    assert counts == {"cuEventQuery": sum(n % 50 for n in range(1, 1001)), "cuEventRecord": 1000}
    assert file.lost == 0
    assert len(np.unique(file.tid)) == 1000
    assert next(folder.iterdir()).stat().st_size < 4 << 20


def test_calls_before_sigkill_are_there(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    for (long i = 1;; i++) {
        cuEventQuery(NULL);
        if (i % 1000 == 0)
            dprintf(1, "%ld\\n", i);
    }
}
"""
    program = of_c(tmp_path, driver, text)
    folder.mkdir()
    with subprocess.Popen([program], env=agent.environment(driver, folder), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        until = time.monotonic() + 60
        while int(said := process.stdout.readline()) < 50_000:
            assert time.monotonic() < until
        process.kill()
        last = int(([said, *process.stdout.read().splitlines()])[-1])
    calls = agent.read(folder).activity.calls
    assert last <= len(calls) <= last + 1001


def test_calls_of_signal_handlers_are_recorded_or_counted(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = """
static volatile long handled;
static void handle(int number) { (void)number, errno = 3, cuEventRecord(NULL, NULL), handled++; }
int main(void)
{
    struct itimerval often = {{0, 50}, {0, 50}};
    long wrong = 0;
    signal(SIGALRM, handle);
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = 0; i < 300000 || handled < 100; i++)
        wrong += cuEventQuery((void *)1) != 600;
    signal(SIGALRM, SIG_IGN);
    printf("%ld %ld\\n", handled, wrong);
    return 0;
}
"""
    handled, wrong = map(int, agent.run([of_c(tmp_path, driver, text)], driver, folder).split())
    assert wrong == 0
    (file,) = agent.files(folder)
    found = agent.read(folder)
    calls = found.activity.calls
    records = int((file.records["function"] == file.names.index("cuEventRecord")).sum())
    assert records + file.lost >= handled
    assert len(calls) + int(calls.folded.sum()) + file.lost >= 300_000 + handled
    assert file.damaged == 0


def test_calls_while_and_after_python_ends(driver: Path, folder: Path) -> None:
    script = (
        PRELUDE
        + """
import atexit, threading
atexit.register(lambda: cuda.cuInit(0))
def wait():
    while True: cuda.cuStreamSynchronize(P(20_000))
for _ in range(4): threading.Thread(target=wait, daemon=True).start()
cuda.cuEventQuery(None)
ctypes.CDLL(None).on_exit(cuda.cuEventQuery, None)
"""
    )
    for _ in range(5):
        agent.run_python(driver, folder, script)
    for file in agent.files(folder):
        counts = Counter(file.names[row] for row in file.records["function"])
        assert counts["cuEventQuery"] == 2
        assert counts["cuInit"] == 1


def test_calls_while_modules_are_torn_down(driver: Path, folder: Path) -> None:
    script = (
        PRELUDE
        + """
class Last:
    def __init__(self, call): self.call = call
    def __del__(self): self.call(None, None)
keep = Last(cuda.cuEventRecord)
sys.keep = Last(cuda.cuEventRecord)
"""
    )
    agent.run_python(driver, folder, script)
    (file,) = agent.files(folder)
    assert [file.names[row] for row in file.records["function"]] == ["cuEventRecord"] * 2


def test_dlsym_and_the_driver_answer_with_wrappers_and_else_as_without(
    driver: Path, tmp_path: Path, folder: Path
) -> None:
    text = """
int main(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY), *address = NULL, *stream = NULL;
    int (*get)(const char *, void **, int, word, int *) = dlsym(cuda, "cuGetProcAddress_v2");
    printf("%d", dlsym(cuda, "cuNothing") == NULL);
    printf("%d", dlsym(RTLD_DEFAULT, "cuMemAllocPitch_v2") == NULL);
    printf("%d", dlsym(RTLD_NEXT, "malloc") == dlsym(RTLD_DEFAULT, "malloc"));
    printf("%d", dlsym(dlopen(NULL, RTLD_LAZY), "cuInit") != NULL);
    printf("%d", get("cuMemcpyHtoDAsync", &address, 13000, 0, NULL) == 0);
    printf("%d", get("cuMemcpyHtoDAsync", &stream, 13000, 2, NULL) == 0 && stream != address);
    ((int (*)(word, word, size_t, void *))address)(DEVICE, 1, 5, NULL);
    ((int (*)(word, word, size_t, void *))stream)(DEVICE, 1, 6, NULL);
    printf("%d", get("cuGetProcAddress", &address, 13000, 0, NULL) == 0);
    get = address;
    printf("%d", get("cuUnknown", &address, 13000, 0, NULL) == 500 && !address);
    get("cuLaunchKernel", &address, 13000, 0, NULL);
    printf("%d\\n", ((int (*)(word, ...))address)(1, 2, 3, 4, 5, 6, 7, 8, (word)9, (word)10, (word)11) == 506);
    return 0;
}
"""
    source = tmp_path / "dynamic.c"
    source.write_text(DECLARED + text)
    program = agent.compiled(tmp_path / "dynamic", source)
    assert agent.run([program], driver, None) == "111111111\n"
    assert agent.run([program], driver, folder) == "111111111\n"
    calls = agent.read(folder).activity.calls
    assert [calls.names[name] for name in calls.name] == ["cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync", "cuLaunchKernel"]


def test_a_program_without_cuda_finds_no_driver(tmp_path: Path, driver: Path, folder: Path) -> None:
    script = "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuInit'), hasattr(ctypes.CDLL(None), 'malloc'))"
    assert agent.run_python(tmp_path, folder, script) == "False True\n"
    assert list(folder.iterdir()) == []


def test_only_the_drivers_names_dlsym_and_those_of_memory_are_exported() -> None:
    with INSIDE.find().open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        names = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name}
    assert {"dlsym", "cuGetProcAddress_v2", "cuMemcpyHtoDAsync_v2_ptsz"} <= names
    assert all(re.fullmatch(r"dlsym|mmap(64)?|munmap|mremap|madvise|shm_open|[mc]alloc|realloc|free|(posix_)?memalign|aligned_alloc|cu[A-Z]\w+", name) for name in names)


def test_a_file_that_may_not_grow_ends_the_recording_and_not_the_program(
    driver: Path, tmp_path: Path, folder: Path
) -> None:
    text = """
int main(void)
{
    struct rlimit limit = {300000, 300000};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 10000; i++)
        if (cuMemcpyHtoDAsync_v2(DEVICE, &i, 100000, NULL))
            return 1;
    return 0;
}
"""
    agent.run([of_c(tmp_path, driver, text)], driver, folder)
    (file,) = agent.files(folder)
    assert file.stop == Stop.NO_ROOM
    assert file.lost + len(file.records) == 10_000
    found = agent.read(folder)
    assert found.activity.lost_calls == file.lost
    assert "Recording of CUDA calls ended early for lack of space." in found.notes


def test_closed_descriptors_are_not_the_programs(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    cuInit(0);
    closefrom(3);
    FILE *own[60];
    for (int i = 0; i < 60; i++)
        own[i] = fopen("/dev/null", "w");
    for (int i = 0; i < 10000; i++)
        cuMemcpyHtoDAsync_v2(DEVICE, &i, 100000, NULL);
    for (int i = 0; i < 60; i++)
        if (fclose(own[i]))
            return 1;
    return 0;
}
"""
    agent.run([of_c(tmp_path, driver, text)], driver, folder)
    (file,) = agent.files(folder)
    assert len(file.records) == 10_001


SANITIZED = """
static void handle(int number) { (void)number, cuEventQuery(NULL); }
static void *work(void *n)
{
    char pattern[64];
    for (long i = 0; i < 20000; i++) {
        word device;
        memset(pattern, (int)i, sizeof pattern);
        if (i % 100 == 0)
            cuMemAlloc_v2(&device, 64);
        cuMemcpyHtoDAsync_v2(DEVICE, pattern, (size_t)(i % 60 + 1), NULL);
        cuLaunchKernel(n, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
    }
    return NULL;
}
int main(void)
{
    struct itimerval often = {{0, 1000}, {0, 1000}};
    pthread_t threads[4];
    signal(SIGALRM, handle);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < 3; round++) {
        for (long i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, work, NULL);
        for (long i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    signal(SIGALRM, SIG_IGN);
    if (!fork()) {
        work(NULL);
        _exit(0);
    }
    int status;
    wait(&status);
    return status;
}
"""


@pytest.mark.parametrize("sanitizer", ["address", "undefined", "thread"])
def test_sanitizers_find_nothing(driver: Path, tmp_path: Path, folder: Path, sanitizer: str) -> None:
    options = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    flags = ("-shared", "-fPIC", "-fvisibility=hidden", "-O1", *options, f"-I{INSIDE.source.parent}")
    try:
        program = of_c(tmp_path, driver, SANITIZED, *options)
        built = agent.compiled(tmp_path / "libagent.so", INSIDE.source, *flags)
    except subprocess.CalledProcessError:
        pytest.skip(f"the compiler has no {sanitizer} sanitizer")
    runtime = {"address": "libasan.so", "thread": "libtsan.so", "undefined": ""}[sanitizer]
    preloads = [built]
    if runtime:
        asked = subprocess.run(
            [*compiler(), f"-print-file-name={runtime}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        preloads = [Path(asked).resolve(), built]
    folder.mkdir()
    environment = {
        **agent.environment(driver, folder), "LD_PRELOAD": ":".join(map(str, preloads)),
        "TSAN_OPTIONS": "report_signal_unsafe=0", "ASAN_OPTIONS": "detect_leaks=0",
    }  # fmt: skip
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sum(len(file.records) for file in agent.files(folder)) > 10_000


def test_sigterm_and_exit_statuses_stay(driver: Path, folder: Path) -> None:
    script = PRELUDE + "cuda.cuInit(0); os.kill(os.getpid(), 15)"
    agent.run_python(driver, folder, script, status=-signal.SIGTERM)
    assert [len(file.records) for file in agent.files(folder)] == [1]
    assert os.environ.get("PINPROF_INSIDE") is None


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
    size_of = marked(PROGRAM)
    assert {size_of.get(site.line) for site in calls.sites if site.path == str(PROGRAM)} == {*said} - {112}
    copy = read.read(share.share(target, tmp_path / "given")).activity
    assert copy is not None
    assert copy.calls.sites == calls.sites
    assert copy.calls.start_ns.tolist() == calls.start_ns.tolist()


def test_native_lines_are_in_the_capture(driver: Path, tmp_path: Path) -> None:
    target = tmp_path / "calls.pinprof"
    program = of_c(tmp_path, driver, FREQUENT)
    recorded(target, driver, program)
    program.unlink()
    activity = read.read(target).activity
    assert activity is not None
    assert {site.text for site in activity.calls.sites} >= {f"copy (program.c:{line_of_copy()})"}


def test_a_program_that_the_agent_cannot_come_into_runs_and_that_is_said(driver: Path, tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("int main(void) { return 0; }")
    static = agent.compiled(tmp_path / "plain", source, "-static")
    said = recorded(tmp_path / "x.pinprof", driver, static)
    assert "is linked statically" in said
    assert "Leave out --inside" in said


def test_a_program_without_cuda_leaves_no_folder(tmp_path: Path) -> None:
    recorded(tmp_path / "x.pinprof", tmp_path, sys.executable, "-c", "print(sum(range(10**6)))")
    assert not (tmp_path / "x.pinprof" / store.INSIDE).exists()
