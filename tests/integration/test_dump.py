"""`pinprof dump` of real programs: what threads do, what they wait for and on whom, and that no program is harmed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pinprof.collect import permission
from pinprof.collect.proc import alive
from pinprof.dump import Dump, dump, system
from pinprof.dump.results import ThreadNow
from pinprof.machine.libraries import compiler
from pinprof.report.dump.sections import FORMS
from tests.support import agent
from tests.support.command import pinprof
from tests.support.other_user import AS_NOBODY, reachable_python
from tests.support.schemas import problems, written

needs_compiler = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
needs_samples = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root sees stacks inside the kernel")
PATIENCE_S = 120

NATIVE = """
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void called(const char *name) { pthread_setname_np(pthread_self(), name); }
__attribute__((noinline)) static int with_frame_pointer(int size)
{
    volatile char *piece = alloca((size_t)size);
    piece[0] = 1;
    pause();
    return piece[0];
}
static void *holder(void *it)
{
    called("holder");
    pthread_mutex_lock(&lock);
    with_frame_pointer(*(int *)it);
    return it;
}
static void *locker(void *it) { called("locker"); pthread_mutex_lock(&lock); return it; }
static void *reader(void *it) { called("reader"); char byte; return (void *)(intptr_t)read(0, &byte, 1); }
static void *toucher(void *it)
{
    called("toucher");
    for (;;) {
        char *piece = mmap(0, 1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(piece, 1 << 24, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < 1 << 24; at += 4096)
            piece[at] = 1;
        munmap(piece, 1 << 24);
    }
    return it;
}
int main(void)
{
    static int size = 4096;
    pthread_t all[4];
    pthread_create(&all[0], 0, holder, &size);
    while (pthread_mutex_trylock(&lock) == 0) { pthread_mutex_unlock(&lock); usleep(1000); }
    pthread_create(&all[1], 0, locker, 0);
    pthread_create(&all[2], 0, reader, 0);
    pthread_create(&all[3], 0, toucher, 0);
    puts("ready");
    fflush(stdout);
    pthread_join(all[0], 0);
}
"""

PYTHON = """
import os, subprocess, sys, threading, time
held = threading.Lock()
held.acquire()

def waits_for_lock():
    held.acquire()  # lock

def spins():
    while True:
        sum(range(10000))  # spin

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
for target in (waits_for_lock, spins):
    threading.Thread(target=target, name=target.__name__, daemon=True).start()
print(child.pid, flush=True)
child.wait()  # child
"""


@contextlib.contextmanager
def running(*command: str | Path, environment: dict[str, str] | None = None) -> Iterator[tuple[int, str]]:
    """A program that has said a line; its pid and the line."""
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    ) as program:  # fmt: skip
        try:
            assert program.stdout is not None
            yield program.pid, program.stdout.readline()
        finally:
            os.killpg(program.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent.program(tmp_path_factory.mktemp("native"), NATIVE)


def dumped(pid: int, until: Callable[[dict[str, ThreadNow]], bool]) -> tuple[Dump, dict[str, ThreadNow]]:
    """A dump, repeated until its threads by name are as wanted, or for long enough: a thread may stand still anywhere,
    also before it does what the program makes it for."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = dump(pid)
        named = {thread.name: thread for thread in found.processes[0].threads}
        if until(named) or time.monotonic() > deadline:
            return found, named


def line_of(text: str, mark: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {mark}"))


@needs_compiler
@needs_root
def test_waits_name_the_thread_that_they_are_for(native: Path) -> None:
    with running(native) as (pid, _):
        _, threads = dumped(
            pid,
            lambda one: (
                {"holder", "locker", "reader"} <= one.keys()
                and all(one[name].waits_on for name in ("locker", "program"))
                and all(one[name].cause == cause for name, cause in (("holder", "wait.sleep"), ("reader", "wait.ipc")))
            ),
        )
        pipe = system.file_of(pid, 0)
    holder = threads["holder"].tid
    locker, main = threads["locker"], threads["program"]
    assert (locker.doing, locker.waits_on) == (f"waits for a lock that thread {holder} (holder) holds", (holder,))
    assert (main.doing, main.waits_on) == (f"waits for thread {holder} (holder) to end", (holder,))
    assert threads["reader"].doing == f"waits in read of {pipe}"
    assert [locker.cause, threads["reader"].cause] == ["wait.lock", "wait.ipc"]
    assert (locker.system_call, threads["reader"].system_call) == ("futex", "read")
    # Whole stacks, also through a function whose frame is found by its frame pointer alone.
    for name in ("holder", "locker", "reader"):
        functions = [frame.function for frame in threads[name].stack]
        assert functions[-2:] == ["start_thread", "clone3"] or functions[-2:] == ["start_thread", "clone"]
        assert name in functions
    assert "with_frame_pointer" in [frame.function for frame in threads["holder"].stack]


@needs_compiler
@needs_samples
def test_a_thread_that_faults_pages_is_said_to(native: Path) -> None:
    with running(native) as (pid, _):
        found, threads = dumped(
            pid, lambda one: "toucher" in one and one["toucher"].doing.startswith("faults pages of")
        )
    toucher = threads["toucher"]
    assert re.fullmatch(r"faults pages of anonymous memory, [\d,.]+ ?\w* a second", toucher.doing)
    assert toucher.cause.startswith("fault.")
    assert toucher.faults_per_s > 0
    assert toucher.cpu > 0
    memory = found.processes[0].memory
    assert memory.rss is not None
    assert memory.anonymous is not None
    assert memory.rss >= memory.anonymous > 0


def test_lines_of_python_and_children_are_seen(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    with running(sys.executable, script) as (pid, child):
        found, threads = dumped(
            pid, lambda one: {"waits_for_lock", "spins"} <= one.keys() and all(
                any(frame.file == str(script) for frame in thread.stack) for thread in one.values()
            ),
        )  # fmt: skip
    seen = {
        name: next(frame.line for frame in thread.stack if frame.file == str(script))
        for name, thread in threads.items()
    }
    main = next(thread for thread in found.processes[0].threads if thread.tid == pid)
    assert seen["waits_for_lock"] == line_of(PYTHON, "lock")
    assert seen["spins"] in (line_of(PYTHON, "spin"), line_of(PYTHON, "spin") - 1)
    assert seen[main.name] == line_of(PYTHON, "child")
    assert main.waits_on == (int(child),)
    assert [process.pid for process in found.processes] == [pid, int(child)]
    assert found.processes[1].parent == pid
    # The interpreter's own functions are left out, and the program's first one is there.
    assert not [frame for frame in main.stack if "_PyEval_EvalFrame" in frame.function]


def test_its_json_fits_the_schema_and_its_text_shows_each_thread(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    with running(sys.executable, script) as (pid, _):
        found = dump(pid)
        text, as_json = (pinprof("dump", "--pid", str(pid), *more) for more in ((), ("--format", "json")))
    assert problems("dump", written(FORMS, found)) == []
    assert problems("dump", json.loads(as_json.stdout)) == []
    assert text.returncode == as_json.returncode == 0
    assert f"Process {pid}: {sys.executable}" in text.stdout
    for thread in found.processes[0].threads:
        assert f"{thread.tid} (" in text.stdout
    assert "script.py:" in text.stdout


@needs_root
def test_a_stopped_program_is_seen_and_stays_stopped(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    with running(sys.executable, script) as (pid, child):
        dumped(pid, lambda one: any(thread.waits_on == (int(child),) for thread in one.values()))
        os.kill(pid, signal.SIGSTOP)
        _, threads = dumped(pid, lambda one: {thread.state for thread in one.values()} == {"stopped"})
        look = system.look(pid, pid)
        assert look is not None
        assert look.state == "T"
    assert {thread.doing for thread in threads.values()} == {"is stopped by a signal or a debugger"}
    main = next(thread for thread in threads.values() if thread.tid == pid)
    assert line_of(PYTHON, "child") in [frame.line for frame in main.stack]


def test_without_permission_to_sample_python_is_seen_and_a_line_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    monkeypatch.setattr(permission, "sampling_errno", lambda **_: 13)
    with running(sys.executable, script) as (pid, _):
        found, threads = dumped(pid, lambda one: "spins" in one and bool(one["spins"].stack))
    assert any(frame.file == str(script) for frame in threads["spins"].stack)
    assert threads["spins"].cause == ""
    (note,) = [note for note in found.notes if "native" in note]
    assert note.startswith("Threads that run have no native stacks. pinprof is not permitted to sample programs")


@needs_root
def test_another_user_sees_states_alone_and_is_told_what_permits_more(tmp_path: Path) -> None:
    interpreter, path = reachable_python()
    with running(sys.executable, "-c", "print(flush=True); import time; time.sleep(1000)") as (pid, _):
        command = [*AS_NOBODY, interpreter, "-m", "pinprof", "dump", "--pid", str(pid), "--format", "json"]
        told = subprocess.run(
            command, capture_output=True, text=True, check=False, env={"PYTHONPATH": path}, cwd="/", timeout=PATIENCE_S
        )
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    (thread,) = document["processes"][0]["threads"]
    assert (thread["stack"], thread["state"], thread["doing"]) == ([], "waiting", "waits")
    assert any(note.startswith(f"Stacks and waits of process {pid} are not readable") for note in document["notes"])


@needs_compiler
@needs_root
def test_the_call_of_cuda_that_is_in_progress_and_what_is_pinned_are_named(tmp_path: Path) -> None:
    driver, folder = agent.build_driver(tmp_path), tmp_path / "inside"
    folder.mkdir()
    text = agent.PRELUDE + (
        "pinned = P()\n"
        "assert not cuda.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(5 << 20), 0)\n"
        "print(flush=True)\n"
        "cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(0x7f << 56), pinned, ctypes.c_size_t(4096), P(10**15))\n"
    )
    command = [sys.executable, "-S", "-c", text]
    with running(*command, environment=agent.environment(driver, folder)) as (pid, _):
        found, threads = dumped(pid, lambda one: any(thread.cuda_call for thread in one.values()))
    assert [thread.cuda_call for thread in threads.values() if thread.tid == pid] == ["cuMemcpyHtoDAsync_v2"]
    assert threads[next(iter(threads))].doing.startswith("in cuMemcpyHtoDAsync_v2, ")
    assert found.processes[0].memory.cuda_pinned == 5 << 20


def test_a_busy_program_goes_on_through_many_dumps(tmp_path: Path) -> None:
    result = tmp_path / "result"
    script = (
        "import sys, threading, pathlib\n"
        "stop, done = pathlib.Path(sys.argv[1]), []\n"
        "def work():\n"
        "    total = 0\n"
        "    while not stop.exists():\n"
        "        total = sum(range(1000)) + sum(bytearray(1 << 16))\n"
        "    done.append(total)\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "print(flush=True)\n"
        "for thread in threads: thread.join()\n"
        "print(set(done) == {499500}, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, result], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        program.stdout.readline()
        for _ in range(6):
            assert len(dump(program.pid).processes[0].threads) == 9
        result.touch()
        assert program.stdout.readline() == "True\n"
        assert program.wait() == 0


def test_a_process_that_is_not_there_is_an_error() -> None:
    with subprocess.Popen(["true"]) as program:
        pass
    assert not alive(program.pid)
    told = pinprof("dump", "--pid", str(program.pid))
    assert told.returncode == 1
    assert told.stderr.endswith("[pid]\n")


def test_a_process_that_sleeps_in_the_lock_of_its_address_space_is_known_by_where() -> None:
    # The kernel leaves its functions of locks out of stacks.
    frames = [("__vm_munmap", ""), ("__x64_sys_munmap", "")]
    assert system.with_lock(frames) == [("rwsem_down_read_slowpath", system.INFERRED), *frames]
    assert system.with_lock([("futex_do_wait", "")]) == [("futex_do_wait", "")]
