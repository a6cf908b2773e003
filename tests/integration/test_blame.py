"""Threads and processes that hold each other up, recorded for real: the holder and its line are what they have to be.

Each program says itself which of its threads waits for which, and at which line the holder works: by construction the
waiter cannot go on before. Shares are of what the waiter waits for others, so a busy machine changes none of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.analyze import analyze
from pinprof.analyze.blame.results import BlameResult, HolderKind
from pinprof.collect import permission
from pinprof.collect.native import tracefs
from pinprof.data.model import NO_NODE
from pinprof.read import read

pytestmark = [
    pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel"),
    pytest.mark.skipif(os.geteuid() != 0 or tracefs.kernel_crashed(), reason="this process may not use tracepoints"),
]

WORK = """
import time
def work():
    begin, end = time.monotonic_ns(), time.process_time() + 0.8
    while time.process_time() < end: sum(range(1000))  # works
    note("worked", begin)
def note(name, begin):
    with open(name, "a") as notes: print(begin, time.monotonic_ns(), file=notes)
"""
LOCK = (
    WORK
    + """
import threading
lock, taken = threading.Lock(), threading.Event()
def hold():
    with lock:
        taken.set()
        for _ in range(3): work()  # so long that little is missing where one of those who look on begins late
thread = threading.Thread(target=hold)
thread.start()
taken.wait()
begin = time.monotonic_ns()
with lock: pass  # waits
note("waited", begin)
thread.join()
"""
)
PIPE = (
    WORK
    + """
import os
reads, writes = os.pipe()
if os.fork() == 0:
    for _ in range(3):
        work()
        os.write(writes, b"x")
    os._exit(0)
for _ in range(3):
    begin = time.monotonic_ns()
    os.read(reads, 1)  # waits
    note("waited", begin)
os.wait()
"""
)
QUEUE = (
    WORK
    + """
import multiprocessing
def produce(queue):
    queue.put(0)  # The queue has its thread before somebody waits for what it sends.
    got.acquire()
    for number in range(3):
        work()
        queue.put(number)
        got.acquire()  # Else it works while the queue's thread waits for a processor to send what is there already.
context = multiprocessing.get_context("fork")
queue, got = context.Queue(), context.Semaphore(0)
process = context.Process(target=produce, args=(queue,))
process.start()
queue.get()
got.release()
for _ in range(3):
    begin = time.monotonic_ns()
    queue.get()  # waits
    note("waited", begin)
    got.release()
process.join()
"""
)
POPULATE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
static atomic_int stop;
#define MAP(size, flags) mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (flags), -1, 0)
__attribute__((noinline)) static void *populate(void *unused) {
  for (int round = 0; round < 4; round++) {
    void *memory = MAP(512ul << 20, MAP_POPULATE);  // works
    munmap(memory, 512ul << 20);  // works too
  }
  atomic_store(&stop, 1);
  return unused;
}
__attribute__((noinline)) static void *serve(void *unused) {
  while (!atomic_load(&stop)) {
    char *memory = MAP(1 << 16, 0);  // waits
    memory[0] = 1;
    munmap(memory, 1 << 16);  // waits too
  }
  return unused;
}
int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, populate, NULL);
  pthread_create(&threads[1], NULL, serve, NULL);
  for (int thread = 0; thread < 2; thread++) pthread_join(threads[thread], NULL);
  return 0;
}
"""
JOIN = """
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
static volatile unsigned long sink;
static atomic_int joined;
__attribute__((noinline)) static void *work(void *after) {
  struct timespec used = {0}, begun = {0};
  while ((double)(used.tv_sec - begun.tv_sec) + (double)(used.tv_nsec - begun.tv_nsec) * 1e-9 < 1) {
    for (int i = 0; i < 1000000; i++) sink += (unsigned long)i;  // works
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);  // works, and leaves its processor to others on a busy machine
    if (after && !atomic_load(&joined)) begun = used;  // works so long after the other
  }
  return NULL;
}
int main(void) {
  pthread_t threads[2];
  for (int thread = 1; thread >= 0; thread--) pthread_create(&threads[thread], NULL, work, thread ? &joined : NULL);
  pthread_join(threads[0], NULL);  // waits
  atomic_store(&joined, 1);
  pthread_join(threads[1], NULL);  // joins
  return 0;
}
"""


def lines_with(text: str, mark: str) -> set[int]:
    """The numbers of the lines that end in this word."""
    return {number for number, line in enumerate(text.splitlines(), 1) if mark in line}


def noted(file: Path) -> list[range]:
    """When the program worked or waited, in ns of one clock."""
    return [range(*map(int, line.split())) for line in file.read_text().splitlines()]


def recorded(folder: Path, command: list[str], *options: str, **environment: str) -> BlameResult:
    """Who waits for whom in a program."""
    record = [sys.executable, "-m", "pinprof", "record", "--no-report", "--no-calibrate", *options, "-o", "out", "--"]
    env = {**os.environ, **environment}
    subprocess.run([*record, *command], cwd=folder, check=True, capture_output=True, timeout=120, env=env)
    capture = read(folder / "out.pinprof")
    if "--system-wide" in options and (lost := capture.losses.lost_samples):
        pytest.skip(f"{lost} records were lost, for the machine did more than the recorder had a processor for")
    found = analyze(capture).blame
    assert found is not None
    assert found.recorded
    return found


@pytest.mark.parametrize(
    ("text", "wait"), [(LOCK, "wait.lock"), (PIPE, "wait.ipc"), (QUEUE, "wait.ipc")], ids=["lock", "pipe", "queue"]
)
def test_a_wait_is_charged_to_the_line_at_which_its_holder_works(tmp_path: Path, text: str, wait: str) -> None:
    (tmp_path / "program.py").write_text(text)
    blame = recorded(tmp_path, [sys.executable, "program.py"])
    (waits,) = lines_with(text, "# waits")
    waiting = [row for row in blame.rows if row.wait == wait and row.waiter.site.line == waits]
    total = sum(row.ns for row in waiting)
    # While it works it has the processor for 0.8 s of its own time, at least.
    assert total > 0.6e9
    assert all(row.waiter.tid == row.waiter.pid for row in waiting)
    held = [row for row in waiting if row.holder.kind is HolderKind.THREAD and row.holder.tid != row.waiter.tid]
    assert sum(row.ns for row in held) > 0.98 * total
    # While the line that works has the processor, nobody else holds the waiter up. On a busy machine it may wait for a
    # processor or for the interpreter, and so may a thread that hands on what it made: whose line that time is, the
    # machine decides. Looks at Python's frames may come too seldom there to tell a line; the thread is known all the
    # same.
    waited, works = noted(tmp_path / "waited"), noted(tmp_path / "worked")
    together = sum(len(range(max(a.start, b.start), min(a.stop, b.stop))) for a in waited for b in works)
    alone = sum(map(len, works)) - together
    at_line = [row for row in held if row.holder.site.line in lines_with(text, "# works")]
    known = sum(row.ns for row in held if row.holder.site.line)
    assert sum(row.ns for row in at_line) > 0.97 * (0.8e9 * len(works) - alone - (total - known))
    assert known > 0.7 * total
    assert {row.holder.site.function for row in at_line} == {"work"}
    assert held[0] is at_line[0]
    assert held[0].certain in ("waker recorded", "wakers recorded in a row")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_wait_for_an_address_space_is_charged_to_the_line_that_fills_it(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(POPULATE)
    options = ["-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "program.c", "-o", "program"]
    subprocess.run(["gcc", *options], cwd=tmp_path, check=True)
    blame = recorded(tmp_path, [str(tmp_path / "program")])
    waiting = [row for row in blame.rows if row.waiter.site.function == "serve" and row.wait == "wait.mmap_lock"]
    total = sum(row.ns for row in waiting)
    assert total > 0
    holding = [row for row in waiting if row.holder.site.line in lines_with(POPULATE, "// works")]
    assert sum(row.ns for row in holding) > 0.95 * total
    assert "populate" in holding[0].holder.causes


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_join_is_charged_to_the_thread_that_ends_and_not_to_another_busy_one(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(JOIN)
    options = ["-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "program.c", "-o", "program"]
    subprocess.run(["gcc", *options], cwd=tmp_path, check=True)
    blame = recorded(tmp_path, [str(tmp_path / "program")])
    (waits,), (joins,) = lines_with(JOIN, "// waits"), lines_with(JOIN, "// joins")
    first = [row for row in blame.rows if row.wait == "wait.lock" and row.waiter.site.line == waits]
    second = [row for row in blame.rows if row.wait == "wait.lock" and row.waiter.site.line == joins]
    total = sum(row.ns for row in first)
    assert total > 0.2e9
    (joined,) = {row.holder.tid for row in second if row.holder.kind is HolderKind.THREAD}
    # The longer thread is busy all the while. It is blamed for the time alone in which the shorter one has not begun,
    # as it may not on a busy machine.
    held = [row for row in first if row.certain == "joined thread ends"]
    assert sum(row.ns for row in held) > 0.8 * total
    (ended,) = {row.holder.tid for row in held}
    assert len({ended, joined, first[0].waiter.tid}) == 3
    at_line = [row for row in held if row.holder.site.line in lines_with(JOIN, "// works")]
    assert sum(row.ns for row in at_line) > 0.8 * total
    assert {row.holder.site.function for row in at_line} == {"work"}


def test_a_process_outside_the_program_is_named_in_a_recording_of_the_whole_machine_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = (
        "import time\nwith open('fifo', 'wb', 0) as file:\n    for _ in range(5):\n"
        "        time.sleep(0.1)\n        file.write(b'x')\n"
    )
    reader = "with open('fifo', 'rb', 0) as file:\n    while file.read(1): pass\n"
    # Little of the rest of the machine, and room for it: a busy one does much while the recorder has no processor.
    sparing = ("--system-wide", "--frequency", "99", "--fault-period", "100000")
    for options, kind in ((sparing, HolderKind.PROCESS), ((), HolderKind.OUTSIDE)):
        with subprocess.Popen([sys.executable, "-c", writer], cwd=tmp_path) as other:
            command = [sys.executable, "-c", reader]
            blame = recorded(tmp_path, command, *options, "--force", PINPROF_RING_BYTES=str(64 << 20))
        waits = [row for row in blame.rows if row.wait == "wait.ipc" and row.holder.kind is kind]
        assert waits
        assert {row.holder.pid for row in waits} == ({other.pid} if kind is HolderKind.PROCESS else {0})
        assert (waits[0].holder.node != NO_NODE) == (kind is HolderKind.PROCESS)
