"""The agent in processes that ran already when their recording began, and what is left of it afterwards."""

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
from pinprof.machine.libraries import INSIDE, compiler
from pinprof.read.inside.layout import Kind
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
HERE = Path(__file__).parents[2]
NONE, SANITIZED = 0, 2
"""Of `enum refusal`."""

LATE = (
    agent.DECLARED
    + """
static int (*enter)(const char *, int);
static void (*leave)(void);
static void late(void)
{
    void *agent = dlopen(getenv("AGENT"), RTLD_NOW);
    enter = dlsym(agent, "pinprof_inside_enter");
    leave = dlsym(agent, "pinprof_inside_leave");
}
"""
)
"""A program that lets the agent in where it likes; `argv[1]` is the folder."""


def run_late(program: Path, driver: Path, *arguments: str | Path, status: int = 0) -> str:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "AGENT": str(INSIDE.find())}
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout


def called(folder: Path) -> Counter[str]:
    calls = agent.read(folder).activity.calls
    return Counter(calls.names[name] for name in calls.name)


def run_script(driver: Path, folder: Path, text: str, **more: str) -> str:
    """What a script of Python prints that records itself, in `folder`."""
    prelude = f"{agent.PRELUDE}import pinprof\nN, Q = ctypes.c_size_t, ctypes.c_uint64\n"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "PYTHONPATH": str(HERE), **more}
    script = folder / "script.py"
    script.write_text(prelude + text)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if "does not permit" in done.stderr or "perf_event_paranoid" in done.stderr:
        pytest.skip("the kernel does not permit recordings")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_recorded_block_has_its_calls_with_lines_and_no_others(driver: Path, tmp_path: Path) -> None:
    run_script(
        driver,
        tmp_path,
        """
for number in range(2):
    late = ctypes.CDLL("libcuda.so.1")
    with pinprof.record("block", output=f"{number}", calibrate=False):
        for size in range(1, 101):
            late.cuMemcpyHtoD_v2(Q(1 << 40), ctypes.create_string_buffer(size), N(size))  # copy
        late.cuInit(0)
    late.cuMemcpyHtoD_v2(Q(1 << 40), b"", N(1))
""",
    )
    line = next(n for n, text in enumerate((tmp_path / "script.py").read_text().splitlines(), 1) if "# copy" in text)
    for number in range(2):
        activity = read.read(tmp_path / f"{number}.pinprof").activity
        assert activity is not None
        calls = activity.calls
        assert calls.size_bytes is not None
        copies = np.flatnonzero(calls.name == calls.names.index("cuMemcpyHtoD"))
        assert calls.size_bytes[copies].tolist() == list(range(1, 101))
        assert set(agent.lines(calls.take(copies))) == {("cuMemcpyHtoD", line)}
        assert len(calls) == 101


def test_what_was_pinned_before_is_unknown_and_that_is_said(driver: Path, tmp_path: Path) -> None:
    text = """
place = P()
cuda.cuMemHostAlloc(ctypes.byref(place), N(4096), 0)
with pinprof.record("block", output="x", calibrate=False):
    cuda.cuMemcpyHtoD_v2(Q(1 << 40), place, N(7))
    cuda.cuMemHostAlloc(ctypes.byref(place), N(4096), 0)
    cuda.cuMemcpyHtoD_v2(Q(1 << 40), place, N(8))
"""
    run_script(driver, tmp_path, text.replace("cuda.cuMemHostAlloc", "ctypes.CDLL('libcuda.so.1').cuMemHostAlloc"))
    capture = read.read(tmp_path / "x.pinprof")
    assert capture.activity is not None
    calls = capture.activity.calls
    assert calls.size_bytes is not None
    assert calls.source_kind is not None
    kinds = dict(zip(calls.size_bytes.tolist(), calls.source_kind.tolist(), strict=True))
    assert (kinds[7], kinds[8]) == (MemoryKind.UNKNOWN, MemoryKind.PINNED)
    assert [note for note in capture.losses.notes if note.startswith("CUDA was loaded before the recording began")]


def test_a_preloaded_agent_is_not_entered_twice(driver: Path, tmp_path: Path, folder: Path) -> None:
    folder.mkdir()
    run_script(
        driver,
        tmp_path,
        """
with pinprof.record("block", output="x", calibrate=False):
    ctypes.CDLL("libcuda.so.1").cuInit(0)
ctypes.CDLL("libcuda.so.1").cuInit(0)
""",
        LD_PRELOAD=str(INSIDE.find()),
        PINPROF_INSIDE=str(folder),
    )
    capture = read.read(tmp_path / "x.pinprof")
    assert capture.activity is None
    assert [note for note in capture.manifest.outcome["notes"] if "for another recording" in note]
    assert called(folder) == {"cuInit": 2}


POINTERS = (
    LATE
    + """
static int (*kept)(void *, void *), (**in_heap)(void *);
int main(int count, char **argument)
{
    (void)count;
    kept = cuEventRecord;
    in_heap = malloc(sizeof *in_heap);
    *in_heap = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuEventQuery");
    void *before[] = {(void *)kept, (void *)cuLaunchKernel, (void *)dlsym, (void *)malloc, (void *)cuGetProcAddress_v2};
    late();
    for (int round = 1; round <= 2; round++) {
        int entered = enter(argument[round], 0);
        printf("%d", entered == 0 && (void *)kept != before[0]);
        int (*get)(const char *, void **, int, word, int *) = cuGetProcAddress_v2;
        void *copy = NULL;
        get("cuMemcpyHtoDAsync", &copy, 13000, 0, NULL);
        for (int i = 0; i < 10; i++) {
            kept(NULL, NULL);
            (*in_heap)(NULL);
            cuStreamSynchronize(NULL);
            ((int (*)(word, word, size_t, void *))copy)(DEVICE, 1, 5, NULL);
            ((int (*)(unsigned))dlsym(RTLD_DEFAULT, "cuInit"))(0);
        }
        leave();
        void *after[] = {(void *)kept, (void *)cuLaunchKernel, (void *)dlsym, (void *)malloc,
            (void *)cuGetProcAddress_v2};
        printf("%d", !memcmp(before, after, sizeof before));
        kept(NULL, NULL), ((int (*)(word, word, size_t, void *))copy)(DEVICE, 1, 5, NULL);
    }
    return 0;
}
"""
)


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_pointers_of_libraries_are_seen_and_have_their_values_afterwards(
    driver: Path, tmp_path: Path, binding: str
) -> None:
    """As CUDA's runtime keeps them, in its data; what is in other memory is not seen."""
    program = agent.build_program(tmp_path, driver, POINTERS, f"-Wl,-z,{binding},-z,relro", "-fPIE", "-pie")
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    assert run_late(program, driver, *folders) == "1111"
    for folder in folders:
        expected = {"cuEventRecord": 10, "cuStreamSynchronize": 10, "cuMemcpyHtoDAsync": 10, "cuInit": 10}
        assert called(folder) == expected


def test_libraries_that_are_loaded_later_are_seen(driver: Path, tmp_path: Path, folder: Path) -> None:
    library = agent.build_program(
        tmp_path, driver, agent.DECLARED + "int work(void) { return cuInit(0) + cuStreamSynchronize(NULL); }",
        "-shared", "-fPIC",
    ).rename(tmp_path / "liblater.so")  # fmt: skip
    text = (
        LATE
        + """
int main(int count, char **argument)
{
    (void)count;
    late();
    if (enter(argument[1], 0))
        return 1;
    int (*work)(void) = dlsym(dlopen(argument[2], RTLD_LAZY), "work");
    for (int i = 0; i < 10; i++)
        work();
    leave();
    return work();
}
"""
    )
    folder.mkdir()
    run_late(agent.program(tmp_path, text), driver, folder, library)
    assert called(folder) == {"cuInit": 10, "cuStreamSynchronize": 10}


STRESS = (
    LATE
    + """
static volatile int over;
static int (*kept)(void *, void *);
static atomic_long begun[4], ended[4];
#define COUNTED(which, call) atomic_fetch_add(&begun[which], 1), (void)(call), atomic_fetch_add(&ended[which], 1)
static void *work(void *n)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY);
    while (!over) {
        COUNTED(0, cuEventQuery(NULL));
        COUNTED(1, kept(NULL, NULL));
        COUNTED(2, cuMemcpyHtoDAsync_v2(DEVICE, n, 100, NULL));
        COUNTED(3, ((int (*)(void *))dlsym(cuda, "cuStreamSynchronize"))(NULL));
        free(malloc(300000));
    }
    return NULL;
}
static void look(long *to)
{
    for (int i = 0; i < 4; i++)
        to[i] = ended[i], to[4 + i] = begun[i];
}
int main(int count, char **argument)
{
    pthread_t threads[4];
    (void)count;
    kept = cuEventRecord;
    late();
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, &begun[i]);
    for (int round = 0; round < 30; round++) {
        char folder[1000];
        long at[4][8];
        snprintf(folder, sizeof folder, "%s/%d", argument[1], round);
        look(at[0]);
        if (enter(folder, 0))
            return 1;
        look(at[1]);
        do
            usleep(1000), look(at[2]);
        while (at[2][3] < at[1][7] + 200);
        leave();
        look(at[3]);
        /* At least what began after `enter` and ended before `leave`; no more than there was around them. */
        for (int i = 0; i < 4; i++)
            printf("%ld %ld ", at[2][i] - at[1][4 + i], at[3][4 + i] - at[0][i]);
        puts("");
        if (round % 10 == 9 && !fork()) {
            COUNTED(0, cuEventQuery(NULL)); /* when the recording is over, in a child as well */
            _exit(0);
        }
    }
    over = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    while (wait(NULL) > 0)
        ;
    return 0;
}
"""
)


def test_thirty_recordings_while_four_threads_call_count_exactly(driver: Path, tmp_path: Path) -> None:
    names = ("cuEventQuery", "cuEventRecord", "cuMemcpyHtoDAsync", "cuStreamSynchronize")
    folder = tmp_path / "rounds"
    for number in range(30):
        (folder / str(number)).mkdir(parents=True)
    program = agent.build_program(tmp_path, driver, "#include <stdatomic.h>\n" + STRESS)
    told = run_late(program, driver, folder).splitlines()
    assert len(told) == 30
    for number, line in enumerate(told):
        bounds = list(map(int, line.split()))
        (file,) = agent.all_files(folder / str(number))
        assert (file.lost, file.damaged) == (0, 0)
        records = file.records
        times = np.where(records["kind"] == Kind.SUM, records["address"], 1)
        counts = dict(zip(file.names, np.bincount(records["function"], times, len(file.names)), strict=True))
        for name, least, most in zip(names, bounds[::2], bounds[1::2], strict=True):
            assert max(least, 0) <= counts[name] <= most


def test_a_forked_child_is_recorded_and_can_record_itself(driver: Path, tmp_path: Path) -> None:
    text = (
        LATE
        + """
int main(int count, char **argument)
{
    (void)count;
    late();
    if (enter(argument[1], 0))
        return 1;
    cuInit(0);
    if (!fork()) {
        cuStreamSynchronize(NULL);
        int entered = enter(argument[2], 0);
        cuEventQuery(NULL);
        leave();
        cuInit(0);
        _exit(entered);
    }
    int status;
    wait(&status);
    cuInit(0);
    leave();
    return status;
}
"""
    )
    folders = [tmp_path / name for name in ("parent", "child")]
    for folder in folders:
        folder.mkdir()
    run_late(agent.build_program(tmp_path, driver, text), driver, *folders)
    assert called(folders[0]) == {"cuInit": 2, "cuStreamSynchronize": 1}
    assert called(folders[1]) == {"cuEventQuery": 1}
    assert len(agent.files(folders[0])) == 2


def test_a_program_with_a_sanitizer_is_left_alone(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = (
        LATE
        + """
int main(int count, char **argument)
{
    (void)count;
    late();
    printf("%d", enter(argument[1], 0));
    cuInit(0);
    leave();
    return 0;
}
"""
    )
    folder.mkdir()
    try:
        program = agent.build_program(tmp_path, driver, text, "-fsanitize=address")
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no address sanitizer")
    assert run_late(program, driver, folder) == str(SANITIZED)
    assert list(folder.iterdir()) == []


def test_an_allocator_of_the_programs_own_is_left_alone(driver: Path, tmp_path: Path, folder: Path) -> None:
    """Blocks go to those who made them, and what lies before one is not read."""
    own = """
static char heap[64 << 20];
static _Atomic size_t used;
void *malloc(size_t size) { return heap + __atomic_fetch_add(&used, (size + 15) & ~(size_t)15, __ATOMIC_RELAXED); }
void free(void *p) { if (p && ((char *)p < heap || (char *)p >= heap + sizeof heap)) abort(); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *p, size_t size) { void *to = malloc(size); return p ? memmove(to, p, size) : to; }
int main(int count, char **argument)
{
    (void)count;
    late();
    int entered = enter(argument[1], 0);
    for (int i = 0; i < 20; i++)
        free(malloc(1 << 20));
    munmap(mmap(NULL, 32 << 20, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 32 << 20);
    cuInit(0);
    leave();
    return entered;
}
"""
    folder.mkdir()
    run_late(agent.build_program(tmp_path, driver, LATE + own), driver, folder)
    found = agent.read(folder)
    assert called(folder) == {"cuInit": 1}
    assert found.memory is not None
    assert set(found.memory.table.size_bytes.tolist()) == {32 << 20}


def test_large_blocks_are_seen_and_those_from_before_may_be_freed(driver: Path, tmp_path: Path, folder: Path) -> None:
    text = (
        LATE
        + """
int main(int count, char **argument)
{
    (void)count;
    char *before = malloc(32 << 20);
    late();
    int entered = enter(argument[1], 0);
    char *kept = malloc(33 << 20);
    free(before);
    for (int i = 0; i < 5; i++)
        free(malloc(34 << 20));
    leave();
    free(kept);
    return entered;
}
"""
    )
    folder.mkdir()
    program = agent.build_program(tmp_path, driver, text, "-fno-builtin")
    run_late(program, driver, folder)
    found = agent.read(folder)
    assert found.memory is not None
    sizes = Counter(found.memory.table.size_bytes.tolist())
    assert sizes == {33 << 20: 1, 34 << 20: 10}


def test_a_function_that_another_tool_stands_before_stays_its(driver: Path, tmp_path: Path, folder: Path) -> None:
    """Its own dlsym is found first, so what the tool answers is what the program gets, while the agent is inside."""
    tool = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
static int hooked(unsigned flags) { return (int)flags + 1000; }
void *dlsym(void *restrict handle, const char *restrict name)
{
    static void *(*real)(void *, const char *);
    if (!real)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", VERSION);
    return strcmp(name, "cuInit") ? real(handle, name) : (void *)hooked;
}
"""
    version = subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True, check=True).stdout
    newer = tuple(map(int, version.split()[1].split("."))) >= (2, 34)
    old = "GLIBC_2.2.5" if os.uname().machine == "x86_64" else "GLIBC_2.17"
    library = agent.program(
        tmp_path, tool, "-shared", "-fPIC", f'-DVERSION="{"GLIBC_2.34" if newer else old}"', name="libtool.so"
    )
    text = (
        LATE
        + """
int main(int count, char **argument)
{
    (void)count;
    late();
    int entered = enter(argument[1], 0);
    printf("%d", ((int (*)(unsigned))dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuInit"))(1));
    cuStreamSynchronize(NULL);
    leave();
    return entered;
}
"""
    )
    folder.mkdir()
    program = agent.build_program(tmp_path, driver, text, f"-Wl,-rpath,{tmp_path}", str(library))
    assert run_late(program, driver, folder) == "1001"
    assert called(folder) == {"cuStreamSynchronize": 1}
