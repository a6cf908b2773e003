"""The agent while processes fork, execute others, start threads, take signals and end: nothing is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from pinprof.data.meeting_functions import MEETING_FUNCTIONS
from pinprof.machine.libraries import INSIDE, compiler
from pinprof.read.inside.layout import Stop
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")


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
    agent.run([agent.of_c(tmp_path, driver, text)], driver, folder)
    counts = [Counter(file.names[row] for row in file.records["function"]) for file in agent.files(folder)]
    assert sorted(map(dict, counts), key=str) == [
        {"cuEventQuery": 15}, {"cuInit": 100}, {"cuInit": 200}, {"cuInit": 300},
    ]  # fmt: skip


@pytest.mark.parametrize(("how", "processes"), [("os.execv(command[0], ", 1), ("subprocess.run(", 2)])
def test_what_a_process_becomes_or_starts_records_too(driver: Path, folder: Path, how: str, processes: int) -> None:
    again = "import ctypes; ctypes.CDLL('libcuda.so.1').cuEventQuery(None)"
    script = f"import subprocess\ncuda.cuInit(0)\ncommand = [sys.executable, '-S', '-c', {again!r}]\n{how}command)"
    agent.run_python(driver, folder, agent.PRELUDE + script)
    files = agent.files(folder)
    assert len({file.pid for file in files}) == processes
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
    agent.run([agent.of_c(tmp_path, driver, text)], driver, folder)
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
    program = agent.of_c(tmp_path, driver, text)
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
    handled, wrong = map(int, agent.run([agent.of_c(tmp_path, driver, text)], driver, folder).split())
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
        agent.PRELUDE
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
        agent.PRELUDE
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
    program = agent.program(tmp_path, agent.DECLARED + text)
    assert agent.run([program], driver, None) == "111111111\n"
    assert agent.run([program], driver, folder) == "111111111\n"
    calls = agent.read(folder).activity.calls
    assert [calls.names[name] for name in calls.name] == ["cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync", "cuLaunchKernel"]


def test_a_program_without_cuda_finds_no_driver(tmp_path: Path, driver: Path, folder: Path) -> None:
    script = "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuInit'), hasattr(ctypes.CDLL(None), 'malloc'))"
    assert agent.run_python(tmp_path, folder, script) == "False True\n"
    assert list(folder.iterdir()) == []


def test_only_names_of_what_it_sees_and_of_its_beginnings_are_exported() -> None:
    with INSIDE.find().open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        names = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name}
    assert {"dlsym", "cuGetProcAddress_v2", "cuMemcpyHtoDAsync_v2_ptsz"} <= names
    of_mappings = "mmap(64)?|munmap|mremap|madvise|shm_open"
    of_blocks = "[mc]alloc|realloc|free|(posix_)?memalign|aligned_alloc|malloc_usable_size"
    of_signals = r"pthread_(create|sigmask)|sigprocmask|sigaction|signal"
    of_calls = "|".join(MEETING_FUNCTIONS) + r"|cu[A-Z]\w+|ncclCommInitRank(Config|Scalable)?"
    of_beginnings = r"pinprof_inside_(enter|leave|part)|InitializeInjection(Nvtx2)?"
    of_waits = r"fork|wait(pid|[34]|id)?|sem_(timed|clock)?wait|read|poll|epoll_wait|select|[mf]sync|fdatasync"
    known = rf"dlsym|dlclose|{of_waits}|{of_mappings}|{of_blocks}|{of_signals}|{of_calls}|{of_beginnings}"
    assert [name for name in names if not re.fullmatch(known, name)] == []


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
    agent.run([agent.of_c(tmp_path, driver, text)], driver, folder)
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
    agent.run([agent.of_c(tmp_path, driver, text)], driver, folder)
    (file,) = agent.files(folder)
    assert len(file.records) == 10_001


def test_loaded_behind_the_c_library_it_records_no_calls(driver: Path, tmp_path: Path, folder: Path) -> None:
    """As NVTX and CUDA's driver load it, for its other parts."""
    folder.mkdir()
    program = agent.of_c(
        tmp_path, driver,
        "int main(int count, char **words) { return count != 2 || !dlopen(words[1], RTLD_NOW) || cuInit(0); }",
    )  # fmt: skip
    loads = [program, INSIDE.find()]
    own = {**agent.environment(driver, folder), "LD_PRELOAD": "", "PINPROF_INSIDE_RATE": "1000"}
    subprocess.run(loads, env=own, check=True)
    assert list(folder.iterdir()) == []
    agent.run(loads, driver, folder)
    assert len(agent.files(folder)) == 1


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


@pytest.mark.parametrize(
    ("sanitizer", "rate"),
    [("address", ""), ("undefined", ""), ("thread", ""), ("address", "1000"), ("undefined", "1000")],
)
def test_sanitizers_find_nothing(driver: Path, tmp_path: Path, folder: Path, sanitizer: str, rate: str) -> None:
    options = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    flags = ("-shared", "-fPIC", "-fvisibility=hidden", "-O1", *options, f"-I{INSIDE.source.parents[1] / 'machine'}")
    try:
        program = agent.of_c(tmp_path, driver, SANITIZED, *options)
        built = agent.compiled(tmp_path / "libagent.so", INSIDE.source, *map(str, INSIDE.parts), *flags)
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
        "PINPROF_INSIDE_RATE": rate,
    }  # fmt: skip
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sum(len(file.records) for file in agent.files(folder)) > 10_000


def test_sigterm_and_exit_statuses_stay(driver: Path, folder: Path) -> None:
    script = agent.PRELUDE + "cuda.cuInit(0); os.kill(os.getpid(), 15)"
    agent.run_python(driver, folder, script, status=-signal.SIGTERM)
    assert [len(file.records) for file in agent.files(folder)] == [1]
    assert os.environ.get("PINPROF_INSIDE") is None
