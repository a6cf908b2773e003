"""The agent's memory cures in small programs: page faults are counted, nothing is timed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.machine.libraries import INSIDE, compiler

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")

HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#define MIB ((size_t)1 << 20)
static long faults(void) { struct rusage use; getrusage(RUSAGE_SELF, &use); return use.ru_minflt; }
"""


def environment(words: str, **more: str) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(INSIDE.find()), "PINPROF_TRY_MEMORY": words, **more}


def printed(folder: Path, words: str, body: str, functions: str = "", **more: str) -> list[str]:
    """What a C program prints with the library."""
    source = folder / "program.c"
    source.write_text(
        f"{HEAD}{functions}\nint main(int count, char **words) {{ (void)count, (void)words;\n{body}\n}}\n"
    )
    program = folder / "program"
    subprocess.run([*compiler(), "-O1", "-fno-builtin", "-pthread", str(source), "-o", str(program)], check=True)
    done = subprocess.run([program], env=environment(words, **more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.split()


CHURN = """
for (int i = 0; i < 20; i++) { char *p = malloc(32 * MIB); memset(p, i, 32 * MIB); free(p); }
printf("%d", faults() < 20 * 8192 / 2);
"""


def test_freed_blocks_are_kept(tmp_path: Path) -> None:
    assert printed(tmp_path, "blocks", CHURN) == ["1"]


def test_blocks_have_the_alignment_that_is_asked_for_and_room(tmp_path: Path) -> None:
    body = """
    void *p = NULL; int bad = 0;
    for (size_t alignment = 16; alignment <= 8 * MIB; alignment *= 2) {
        bad |= posix_memalign(&p, alignment, 3 * MIB + 5); memset(p, 1, 3 * MIB + 5);
        bad |= (uintptr_t)p % alignment != 0 || malloc_usable_size(p) < 3 * MIB + 5; free(p);
        p = aligned_alloc(alignment, 8 * MIB); bad |= (uintptr_t)p % alignment != 0; free(p);
    }
    printf("%d %d %d", bad, posix_memalign(&p, 3, MIB), malloc(SIZE_MAX / 2) == NULL);
    """
    assert printed(tmp_path, "blocks", body) == ["0", "22", "1"]


def test_calloc_is_zero_also_of_memory_that_was_used(tmp_path: Path) -> None:
    body = """
    int bad = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char *p = calloc(5, MIB);
        for (size_t at = 0; at < 5 * MIB; at++) bad |= p[at];
        memset(p, 255, 5 * MIB); free(p);
    }
    printf("%d %d", bad, calloc(SIZE_MAX / 4, 8) == NULL);
    """
    assert printed(tmp_path, "blocks", body) == ["0", "1"]


def test_realloc_keeps_what_is_there_across_all_sizes(tmp_path: Path) -> None:
    body = """
    size_t sizes[] = {100, 3 * MIB, 4 * MIB, 900, 2 * MIB, 70 * MIB, 5 * MIB, 16, MIB}, before = 0; int bad = 0;
    unsigned char *p = NULL;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        p = realloc(p, sizes[i]);
        size_t kept = before < sizes[i] ? before : sizes[i];
        for (size_t at = 0; at < kept; at += 7) bad |= p[at] != i;
        memset(p, (int)i + 1, sizes[i]); before = sizes[i];
    }
    free(p); p = realloc(malloc(2 * MIB), 0);
    printf("%d %d", bad, p == NULL);
    """
    assert printed(tmp_path, "blocks", body) == ["0", "1"]


def test_threads_share_blocks_without_mixing_them(tmp_path: Path) -> None:
    functions = """
    static int bad;
    static void *work(void *number) {
        for (int i = 0; i < 60; i++) {
            size_t size = MIB + ((size_t)i * 7919 + (uintptr_t)number * 104729) % (6 * MIB);
            unsigned char *p = malloc(size); memset(p, (int)(uintptr_t)number, size);
            for (size_t at = 0; at < size; at += 4096) if (p[at] != (uintptr_t)number) bad = 1;
            free(p);
        }
        return NULL;
    }
    """
    body = """
    pthread_t threads[6];
    for (uintptr_t i = 0; i < 6; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    printf("%d", bad);
    """
    assert printed(tmp_path, "blocks", body, functions) == ["0"]


def test_a_block_freed_twice_ends_the_program(tmp_path: Path) -> None:
    body = """
    pid_t pid = fork(); int status;
    if (!pid) { void *p = malloc(2 * MIB); free(p); free(p); _exit(0); }
    waitpid(pid, &status, 0); printf("%d", WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    """
    assert printed(tmp_path, "blocks", body) == ["1"]


FORKED = """
unsigned char *p = malloc(16 * MIB); memset(p, 5, 16 * MIB); int ready[2], status; pipe(ready);
pid_t pid = fork();
if (!pid) { char c; close(ready[1]); unsigned char *q = malloc(8 * MIB); memset(q, 1, 8 * MIB); int sum = q[9] + 6;
            free(q); free(p); read(ready[0], &c, 1); _exit(sum); }
long before = faults(); memset(p, 6, 16 * MIB); long grown = faults() - before;
close(ready[1]); waitpid(pid, &status, 0);
printf("%d %d %d", grown < 100, WEXITSTATUS(status), p[16 * MIB - 1]);
"""


def test_without_shared_blocks_a_fork_costs_no_copies_and_both_go_on_allocating(tmp_path: Path) -> None:
    assert printed(tmp_path, "blocks,unshared", FORKED) == ["1", "7", "6"]


def test_shared_blocks_are_copied_after_a_fork(tmp_path: Path) -> None:
    assert printed(tmp_path, "blocks", FORKED) == ["0", "7", "6"]


def test_a_child_that_needs_what_it_does_not_have_says_so(tmp_path: Path) -> None:
    body = """
    unsigned char *p = malloc(2 * MIB); memset(p, 5, 2 * MIB); int status; pid_t pid = fork();
    if (!pid) _exit(p[9]);
    waitpid(pid, &status, 0); printf("%d", WIFSIGNALED(status) && WTERMSIG(status) == 11);
    """
    report = tmp_path / "report"
    assert printed(tmp_path, "blocks,unshared", body, PINPROF_TRY_REPORT=str(report)) == ["1"]
    assert report.read_text().splitlines() == ["loaded 1", "acts 1", "harm 1"]


READ = """
int file = open("FILE", O_RDONLY); unsigned char *p = mmap(NULL, 16 * MIB, PROT_READ | WRITE, MAP_PRIVATE, file, 0);
long before = faults(); long sum = 0;
for (size_t at = 0; at < 16 * MIB; at += 4096) { sum += p[at]; if (WRITE) p[at] = 3; }
printf("%d %ld", faults() - before < 100, sum);
"""


@pytest.mark.parametrize("write", ["0", "PROT_WRITE"])
def test_files_are_mapped_at_once(tmp_path: Path, write: str) -> None:
    (tmp_path / "file").write_bytes(b"\x02" * (16 << 20))
    body = READ.replace("FILE", str(tmp_path / "file")).replace("WRITE)", f"{write})").replace("| WRITE", f"| {write}")
    assert printed(tmp_path, "files", body) == ["1", str(2 * 4096)]
    if write != "0":  # reading, a kernel may map as many pages as a large folio has
        assert printed(tmp_path, "blocks", body)[0] == "0"


def test_a_program_says_whether_anything_was_replaced(tmp_path: Path) -> None:
    report = tmp_path / "report"
    printed(tmp_path, "blocks", "free(malloc(1000));", PINPROF_TRY_REPORT=str(report))
    assert report.read_text() == "loaded 1\n"
    printed(tmp_path, "blocks", "free(malloc(MIB)); free(malloc(MIB));", PINPROF_TRY_REPORT=str(report))
    assert report.read_text() == "loaded 1\nloaded 1\nacts 1\n"


def told(script: str, report: Path) -> tuple[str, str]:
    done = subprocess.run(
        ["sh", "-c", script],
        env=environment("blocks", PINPROF_TRY_REPORT=str(report)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), report.read_text() if report.exists() else ""


def test_launchers_hand_it_on_to_the_program(tmp_path: Path) -> None:
    _, said = told(f"env nice {sys.executable} -S -c 0; true", tmp_path / "report")
    assert said == "loaded 1\n"


def test_what_a_foreign_program_starts_finds_nothing_of_it(tmp_path: Path) -> None:
    inner = f"{shutil.which('sed')} -n 1e{tmp_path}/show /dev/stdin"
    (tmp_path / "show").write_text("#!/bin/sh\necho preload=$LD_PRELOAD words=$PINPROF_TRY_MEMORY\n")
    (tmp_path / "show").chmod(0o755)
    code = f"import subprocess; subprocess.run({inner.split()!r}, input=b'x')"
    output, said = told(f'{sys.executable} -S -c "{code}"; true', tmp_path / "report")
    assert output == "preload= words="
    assert said.count("loaded") == 1


def test_workers_of_the_program_have_it(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', '0'])"
    _, said = told(f'{sys.executable} -S -c "{code}"; true', tmp_path / "report")
    assert said.count("loaded") == 2
