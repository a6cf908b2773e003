"""The agent's sampler: where threads spend processor time, in programs that go on as if it were not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.analyze.completeness import gaps_of
from pinprof.data.model import Capture
from pinprof.data.system_calls import kernel_functions
from pinprof.machine.libraries import INSIDE, compiler
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import Withdrew
from pinprof.read.inside.used import DENIED, Used
from tests.support import agent
from tests.support.situation import SITUATION

pytestmark = pytest.mark.skipif(
    not compiler() or tuple(map(int, os.uname().release.split(".")[:2])) < (5, 10),
    reason="there is no C compiler, or the kernel is older than 5.10",
)
MOST_NS = 100_000_000
"""By how much the samples may say more than was used: each stands for a period, which kernels make 1 to 10 ms long, and
a busy virtual machine looks at timers late."""
DECLARED = """
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
static volatile unsigned long sink;
static uint64_t used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
__attribute__((noinline)) static void spin(void)
{
    for (int i = 0; i < 100000; i++)
        sink += i;
}
__attribute__((noinline)) static void burn(unsigned ms)
{
    for (uint64_t end = used() + ms * 1000000ull; used() < end;)
        spin();
}
"""


def built(tmp_path: Path, text: str, *options: str) -> Path:
    """A program of C."""
    return agent.program(tmp_path, DECLARED + text, *options)


def run(command: list[str | Path], folder: Path, *, rate: int = 250, status: int = 0) -> str:
    """What a program prints that is sampled inside."""
    folder.mkdir()
    environment = {
        **os.environ, "LD_PRELOAD": str(INSIDE.find()), "PINPROF_INSIDE": str(folder), "PINPROF_INSIDE_RATE": str(rate),
    }  # fmt: skip
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout


def sampled(folder: Path) -> list[InsideFile]:
    """The files of processes that have samples."""
    return [file for file in agent.all_files(folder) if file.used is not None]


def only(folder: Path) -> tuple[InsideFile, Used]:
    """The file of the one process, and its samples."""
    (file,) = sampled(folder)
    assert file.damaged == 0
    assert file.used is not None
    return file, file.used


def of_thread(used: Used, tid: int) -> int:
    """The processor time of a thread's samples."""
    return int((used.user_ns + used.system_ns)[used.tid == tid].sum())


def agrees(found: int, used: int) -> bool:
    """Whether samples may be of a processor time: the last ones before an end are missing."""
    return used / 2 < found < used + MOST_NS


def test_every_thread_has_its_processor_time(tmp_path: Path, folder: Path) -> None:
    text = """
static void *work(void *ms)
{
    burn((unsigned)(uintptr_t)ms);
    printf("%d %llu\\n", gettid(), (unsigned long long)used());
    return NULL;
}
int main(void)
{
    pthread_t thread[2];
    pthread_create(&thread[0], NULL, work, (void *)200);
    pthread_create(&thread[1], NULL, work, (void *)300);
    work((void *)200);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
}"""
    said = {int(tid): int(ns) for tid, ns in map(str.split, run([built(tmp_path, text)], folder).splitlines())}
    _, used = only(folder)
    assert len(said) == 3
    assert all(agrees(of_thread(used, tid), ns) for tid, ns in said.items())
    assert set(used.names.values()) == {"program"}
    assert used.torn <= len(used.tid) // 10


def test_many_busy_threads_have_as_many_samples_as_few(tmp_path: Path, folder: Path) -> None:
    text = """
static void *work(void *none)
{
    burn(1000);
    printf("%d %llu\\n", gettid(), (unsigned long long)used());
    return NULL;
}
int main(void)
{
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%f\\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9);
}"""
    *said, wall_s = run([built(tmp_path, text)], folder).splitlines()
    _, used = only(folder)
    for tid, ns in (map(int, line.split()) for line in said):
        assert agrees(of_thread(used, tid), ns)
    # Half as many more as one thread has, and those of before it was known how many are busy.
    assert len(used.tid) < 1.5 * 250 * float(wall_s) + 100


def test_forked_processes_have_samples_of_their_own(tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    burn(100);
    pid_t child = fork();
    burn(child ? 100 : 200);
    printf("%d %llu\\n", getpid(), (unsigned long long)used());
    fflush(stdout);
    if (!child)
        _exit(0);
    wait(NULL);
}"""
    said = {int(pid): int(ns) for pid, ns in map(str.split, run([built(tmp_path, text)], folder).splitlines())}
    files = sampled(folder)
    assert {file.pid for file in files} == said.keys()
    assert all(file.used and agrees(of_thread(file.used, file.pid), said[file.pid]) for file in files)
    assert {file.parent for file in files} & {file.token for file in files}


def test_a_program_keeps_its_own_timers_and_handlers(tmp_path: Path, folder: Path) -> None:
    text = """
static volatile int profiled, alarms;
static void on_profile(int s) { profiled++; }
static void on_alarm(int s) { alarms++; }
int main(void)
{
    struct sigaction action = {.sa_handler = on_profile}, known;
    sigaction(SIGPROF, &action, NULL);
    signal(SIGVTALRM, on_alarm);
    struct itimerval each = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_PROF, &each, NULL);
    setitimer(ITIMER_VIRTUAL, &each, NULL);
    // A machine that stands still counts that as time of the thread, and signals that come meanwhile are one.
    do
        burn(200);
    while (used() < 5000000000 && (profiled <= 2 || alarms <= 2));
    sigaction(SIGPROF, NULL, &known);
    printf("%d %d %d %llu\\n", known.sa_handler == on_profile, profiled > 2, alarms > 2, (unsigned long long)used());
}"""
    printed = run([built(tmp_path, text)], folder).split()
    assert printed[:3] == ["1", "1", "1"]
    file, used = only(folder)
    assert agrees(of_thread(used, file.pid), int(printed[3]))


def test_the_sampler_withdraws_from_a_program_that_handles_every_signal(tmp_path: Path, folder: Path) -> None:
    text = """
static volatile int strange;
static void on_any(int s) { strange += s != SIGCHLD; }
static void *work(void *none) { burn(100); return NULL; }
int main(void)
{
    pthread_t thread;
    burn(60);
    pthread_create(&thread, NULL, work, NULL);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction known;
        if (sigaction(number, NULL, &known) || known.sa_handler != SIG_DFL)
            printf("%d is handled\\n", number);
        signal(number, on_any);
    }
    burn(100);
    pthread_join(thread, NULL);
    printf("%d\\n", strange);
}"""
    output = run([built(tmp_path, text)], folder)
    assert [line for line in output.splitlines() if not line.startswith(("32 ", "33 "))] == ["0"]
    assert only(folder)[0].withdrew is Withdrew.HANDLED


def test_a_program_with_thread_sanitizer_runs_unsampled_and_its_file_says_so(tmp_path: Path, folder: Path) -> None:
    text = """
static void *work(void *none) { burn(60); return none; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    puts("done");
}"""
    try:
        program = built(tmp_path, text, "-fsanitize=thread")
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no thread sanitizer")
    assert run([program], folder, rate=1000) == "done\n"
    (file,) = agent.all_files(folder)
    assert (file.used, file.withdrew) == (None, Withdrew.HELD_BACK)


def test_no_call_of_the_program_is_interrupted(tmp_path: Path, folder: Path) -> None:
    text = """
static int pipes[2];
static void *write_slowly(void *none)
{
    for (int i = 0; i < 50; i++) {
        usleep(2000);
        write(pipes[1], "x", 1);
    }
    return NULL;
}
int main(void)
{
    int ended_early = 0;
    pthread_t thread;
    pipe(pipes);
    for (uint64_t end = used() + 200000000; used() < end;) {
        struct timespec shortly = {0, 1000};
        ended_early += poll(NULL, 0, 0) < 0;
        ended_early += nanosleep(&shortly, NULL) < 0;
        spin();
    }
    pthread_create(&thread, NULL, write_slowly, NULL);
    for (int i = 0; i < 50; i++) {
        char byte;
        ended_early += read(pipes[0], &byte, 1) != 1;
        burn(3);
    }
    pthread_join(thread, NULL);
    printf("%d\\n", ended_early);
}"""
    assert run([built(tmp_path, text)], folder, rate=1000) == "0\n"
    assert len(only(folder)[1].tid) > 10


def test_a_program_that_waits_for_signals_meets_none_of_the_samplers(tmp_path: Path, folder: Path) -> None:
    text = """
static void *work(void *none)
{
    sigset_t all;
    struct timespec shortly = {0, 0};
    sigfillset(&all);
    burn(200);
    printf("%d\\n", sigtimedwait(&all, NULL, &shortly) < 0 && errno == EAGAIN);
    sigpending(&all);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigismember(&all, number) == 1)
            printf("%d is pending\\n", number);
    return NULL;
}
int main(void)
{
    sigset_t all;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_create(&thread, NULL, work, NULL);
    work(NULL);
    pthread_join(thread, NULL);
}"""
    assert run([built(tmp_path, text)], folder) == "1\n1\n"
    assert len(set(only(folder)[1].tid.tolist())) == 2


def test_many_short_threads_run_as_ever(tmp_path: Path, folder: Path) -> None:
    text = """
static void *work(void *none) { spin(); return (void *)7; }
int main(void)
{
    long sum = 0;
    for (int round = 0; round < 500; round++) {
        pthread_t thread[4];
        void *result;
        for (int i = 0; i < 4; i++)
            if (pthread_create(&thread[i], NULL, work, NULL))
                return 1;
        for (int i = 0; i < 4; i++) {
            pthread_join(thread[i], &result);
            sum += (long)result;
        }
    }
    burn(50);
    printf("%ld\\n", sum);
}"""
    assert run([built(tmp_path, text)], folder) == "14000\n"
    only(folder)


def test_stacks_that_lead_nowhere_end_there(tmp_path: Path, folder: Path) -> None:
    """A frame pointer that is none, in code without a description; and a stack whose neighbours can't be read."""
    text = """
#if defined __x86_64__
__asm__(".text\\nstray: push %rbp\\n mov $0x123456789, %rbp\\n mov $40000000, %ecx\\n1: dec %ecx\\n jnz 1b\\n"
        " mov $-8, %rbp\\n mov $40000000, %ecx\\n1: dec %ecx\\n jnz 1b\\n pop %rbp\\n ret\\n");
void stray(void);
#else
static void stray(void) { burn(50); }
#endif
static ucontext_t outside, inside;
static void on_own_stack(void) { burn(400); stray(); }
int main(void)
{
    for (int i = 0; i < 3; i++)
        stray();
    char *stack = mmap(NULL, 5 * 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack + 65536, 3 * 65536, PROT_READ | PROT_WRITE);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack + 65536;
    inside.uc_stack.ss_size = 3 * 65536;
    inside.uc_link = &outside;
    makecontext(&inside, on_own_stack, 0);
    swapcontext(&outside, &inside);
    puts("done");
}"""
    assert run([built(tmp_path, text)], folder, rate=1000) == "done\n"
    _, used = only(folder)
    assert len(used.tid) > 10


def test_a_thread_with_a_small_stack_is_left_alone(tmp_path: Path, folder: Path) -> None:
    text = """
static void *work(void *none) { burn(60); return NULL; }
int main(void)
{
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    pthread_create(&thread, &small, work, NULL);
    pthread_join(thread, NULL);
    burn(300);
    puts("done");
}"""
    assert run([built(tmp_path, text)], folder) == "done\n"
    file, used = only(folder)
    assert set(used.tid.tolist()) == {file.pid}


def test_calls_of_the_kernel_that_come_through_the_agent_are_known(tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    size_t size = 32 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, size);
    while (used() < 600000000)
        for (int i = 0; i < 100; i++)
            madvise(memory, size, MADV_DONTNEED);
}"""
    run([built(tmp_path, text)], folder, rate=1000)
    numbers = {name.partition("_sys_")[2]: number for number, name in kernel_functions(os.uname().machine).items()}
    assert (only(folder)[1].call == numbers["madvise"]).any()


def test_signals_for_protected_memory_count_where_it_is_touched(tmp_path: Path, folder: Path) -> None:
    text = """
static char *memory;
static void handle(int s, siginfo_t *info, void *context) { mprotect(memory, 4096, PROT_READ | PROT_WRITE); }
__attribute__((noinline, section("touching"))) static void touch(void)
{
    for (int i = 0; i < 1000; i++) {
        mprotect(memory, 4096, PROT_READ);
        *(volatile char *)memory = 1;
    }
}
extern char __start_touching[], __stop_touching[];
int main(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (used() < 1000000000)
        touch();
    printf("%lu %lu\\n", (unsigned long)__start_touching, (unsigned long)__stop_touching);
}"""
    begin, end = map(int, run([built(tmp_path, text)], folder, rate=1000).split())
    _, used = only(folder)
    denied = used.address[used.call == DENIED]
    assert len(denied)
    assert ((denied >= begin) & (denied < end)).all()


def test_what_of_writing_back_is_no_work_is_a_wait(tmp_path: Path, folder: Path) -> None:
    clock = """
static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}"""
    slow = """
int fsync(int file)
{
    uint64_t begun = now(), before = used();
    burn(20);
    usleep(30000);
    printf("%llu ", (unsigned long long)(now() - begun - (used() - before)));
    return 0;
}"""
    main = """
int main(void)
{
    burn(100);
    uint64_t begun = now();
    fsync(1);
    printf("%llu", (unsigned long long)(now() - begun));
}"""
    library = agent.program(tmp_path, DECLARED + clock + slow, "-shared", "-fPIC", name="libslow.so")
    program = built(tmp_path, clock + main, str(library), f"-Wl,-rpath,{tmp_path}")
    slept_ns, all_ns = map(int, run([program], folder).split())
    (file,) = sampled(folder)
    number = next(call for call, name in kernel_functions(os.uname().machine).items() if name.endswith("_sys_fsync"))
    (row,) = np.flatnonzero(file.waits.records["function"] == number + 1)
    waited_ns = int(file.waits.end_ns[row] - file.waits.begin_ns[row])
    assert slept_ns - 1_000_000 < waited_ns < all_ns - 19_000_000


def test_what_a_killed_process_used_is_there(tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    burn(200);
    printf("%llu\\n", (unsigned long long)used());
    fflush(stdout);
    kill(getpid(), SIGKILL);
}"""
    said = int(run([built(tmp_path, text)], folder, status=-signal.SIGKILL))
    file, used = only(folder)
    assert agrees(of_thread(used, file.pid), said)


def test_the_sampler_leaves_no_trace_where_it_is_not_asked_for(tmp_path: Path, folder: Path) -> None:
    program = built(tmp_path, "int main(void) { burn(50); }")
    folder.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(INSIDE.find()), "PINPROF_INSIDE": str(folder)}
    subprocess.run([program], env=environment, check=True)
    assert not list(folder.iterdir())


PYTHON = """
import sys, time
import numpy as np

def fresh():
    whole = np.ones(2_000_000)  # DOMINATES
    return whole[0]

def other():
    return sum(range(2000))

end = time.process_time() + 1
while time.process_time() < end:
    fresh()
    other()
print("done")
sys.exit(7)
"""


def recorded(tmp_path: Path, number: str, *options: str, program: list[str], status: int) -> tuple[str, str]:
    """What a program prints that is recorded where perf_event_open fails, and what pinprof says."""
    refused = [*SITUATION, f"refuse={number}:perf_event_open", "--", sys.executable, "-m", "pinprof", "record"]
    command = [*refused, "--no-calibrate", "--no-report", "-o", tmp_path / "out.pinprof", *options, "--", *program]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def by_line(capture: Capture, through: str = "") -> Counter[str]:
    """The CPU time by the innermost line of Python; `through`: only where that function is on the stack."""
    found: Counter[str] = Counter()
    stacks = capture.stacks
    rows = np.flatnonzero(capture.samples.event == 0)
    for node, weight in zip(capture.samples.stack[rows].tolist(), capture.samples.weight[rows].tolist(), strict=True):
        names = [stacks.frames.symbol[stacks.frame[each]] for each in stacks.chain(node)]
        if not through or through in names:
            found[next((name for name in names if "(program.py:" in name), "")] += weight
    return found


@pytest.mark.parametrize("number", ["EPERM", "ENOSYS"])
def test_where_perf_events_are_denied_lines_and_faults_are_recorded(number: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PYTHON)
    output, said = recorded(tmp_path, number, program=[sys.executable, str(tmp_path / "program.py")], status=7)
    assert output == "done\n"
    assert "Perf events are not permitted here: timers inside the program sample its CPU time" in said
    assert "docker run --cap-add PERFMON" in said
    capture = read.read(tmp_path / "out.pinprof")
    line = next(n for n, text in enumerate(PYTHON.splitlines(), 1) if "DOMINATES" in text)
    assert by_line(capture).most_common(1)[0][0] == f"fresh (program.py:{line})"
    assert by_line(capture, "asm_exc_page_fault (inferred)")[f"fresh (program.py:{line})"] > 0
    assert (capture.samples.event == 1).any()
    assert [gap.kind for gap in gaps_of(capture)] == ["timers"]


def test_a_program_of_c_has_its_functions_where_perf_events_are_denied(tmp_path: Path) -> None:
    text = """
__attribute__((noinline)) static void heavy(void) { burn(300); sink++; }
__attribute__((noinline)) static void light(void) { burn(30); sink++; }
int main(void)
{
    heavy();
    uint64_t first = used();
    light();
    printf("%llu %llu\\n", (unsigned long long)first, (unsigned long long)(used() - first));
    return 3;
}"""
    output, _ = recorded(tmp_path, "EPERM", program=[str(built(tmp_path, text))], status=3)
    heavy_ns, light_ns = map(int, output.split())
    capture = read.read(tmp_path / "out.pinprof")
    stacks = capture.stacks
    under = {
        name: stacks.under(np.array([each == name for each in stacks.frames.function])) for name in ("heavy", "light")
    }
    spent = {
        name: int(capture.samples.weight[(capture.samples.event == 0) & nodes[capture.samples.stack]].sum())
        for name, nodes in under.items()
    }
    assert agrees(spent["heavy"], heavy_ns)
    assert spent["light"] < light_ns + MOST_NS


def test_timers_can_be_asked_for(tmp_path: Path) -> None:
    program = built(tmp_path, "int main(void) { burn(300); }")
    command = [sys.executable, "-m", "pinprof", "record", "--with", "timers", "--no-calibrate", "--no-report", "-q"]
    subprocess.run([*command, "-o", tmp_path / "out.pinprof", "--", program], check=True)
    capture = read.read(tmp_path / "out.pinprof")
    assert [event.name for event in capture.events] == ["cpu-timer", "page-faults", "off-cpu"]
    assert [collector["name"] for collector in capture.manifest.collectors] == ["timers"]
