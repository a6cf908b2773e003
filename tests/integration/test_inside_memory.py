"""Large memory of the host as the agent sees it: every block and mapping, its line, its life, whatever programs do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pinprof.data.host_memory import HostEvent, LargeMemory, Maker
from pinprof.machine.libraries import INSIDE, compiler
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
DECLARED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define MIB ((size_t)1 << 20)
#define READ_WRITE (PROT_READ | PROT_WRITE)
#define FAR __attribute__((noinline))
static void begin(void) { free(malloc(64 * MIB)); } /* from here on all is recorded by itself */
"""
Row = tuple[str, str, str, str]


def built(tmp_path: Path, text: str, *options: str, name: str = "program") -> Path:
    return agent.program(tmp_path, DECLARED + text, "-fno-builtin", *options, name=name)


def memory(folder: Path) -> LargeMemory:
    found = agent.read(folder)
    assert found.notes == ()
    assert found.memory is not None
    assert found.memory.lost == 0
    assert found.activity.recorded == frozenset()
    return found.memory


def totals(found: LargeMemory) -> tuple[Counter[Row], Counter[Row]]:
    """How many and how many bytes, by what happened, the maker and the functions that made and gave back."""
    count: Counter[Row] = Counter()
    size: Counter[Row] = Counter()
    table = found.table
    names = [*(site.caller.function for site in found.sites), ""]
    for event, maker, made, given, number, amount in zip(
        table.event, table.maker, table.site, table.given_at, table.count, table.size_bytes, strict=True
    ):
        row = (HostEvent(event).name, Maker(maker).name, names[made], names[given])
        count[row] += int(number)
        size[row] += int(amount)
    return count, size


def test_every_block_has_its_maker_its_line_and_its_end(tmp_path: Path, folder: Path) -> None:
    text = """
static FAR char *make(size_t size) { return memset(malloc(size), 1, size) + 0; }
static FAR void drop(void *p) { free(p), errno = 0; }
static FAR void of_all_kinds(void)
{
    void *one, *two = calloc(3, MIB), *three = aligned_alloc(64, 4 * MIB), *four = memalign(4096, 5 * MIB);
    posix_memalign(&one, 64, 6 * MIB);
    free(one), free(two), free(three), free(four);
    one = realloc(NULL, 7 * MIB), one = realloc(one, 8 * MIB), one = realloc(one, 100);
    free(one);
    free(reallocarray(NULL, 9, MIB));
}
static FAR void mappings(void)
{
    char *one = mmap(NULL, 16 * MIB, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(NULL, 99 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise(one, 16 * MIB, MADV_HUGEPAGE), madvise(one, 8 * MIB, MADV_DONTNEED), madvise(one, 4 * MIB, MADV_FREE);
    one = mremap(one, 16 * MIB, 32 * MIB, MREMAP_MAYMOVE);
    munmap(one, 12 * MIB);
    munmap(one + 12 * MIB, 20 * MIB);
    char name[40];
    sprintf(name, "/pinprof-test-%d", getpid());
    close(shm_open(name, O_CREAT | O_RDWR, 0600)), shm_unlink(name);
}
int main(void)
{
    begin();
    char *kept[3];
    for (int i = 0; i < 3; i++)
        kept[i] = make(2 * MIB);
    for (int i = 0; i < 500; i++)
        drop(make(300000));
    free(make(262143));
    drop(kept[1]);
    of_all_kinds();
    mappings();
    return kept[0][5] - 1;
}
"""
    agent.run([built(tmp_path, text)], tmp_path, folder)
    count, size = totals(memory(folder))
    mib = 1 << 20
    assert count.pop(("MADE", "MALLOC", "begin", "")) == count.pop(("GIVEN", "MALLOC", "begin", "begin")) == 1
    kinds = {"CALLOC": 3, "ALIGNED": 15, "REALLOC": 24}
    for kind, amount in kinds.items():
        made, given = ("MADE", kind, "of_all_kinds", ""), ("GIVEN", kind, "of_all_kinds", "of_all_kinds")
        assert size.pop(made) == size.pop(given) == amount * mib
        assert count.pop(made) == count.pop(given) == {"CALLOC": 1, "ALIGNED": 3, "REALLOC": 3}[kind]
    assert count == {
        ("MADE", "MALLOC", "make", ""): 503,
        ("GIVEN", "MALLOC", "make", "drop"): 501,
        ("MADE", "MMAP", "mappings", ""): 1,
        ("GIVEN", "MMAP", "mappings", "mappings"): 1,
        ("MADE", "MREMAP", "mappings", ""): 1,
        ("GIVEN", "MREMAP", "mappings", "mappings"): 2,
        ("ADVISED", "HUGE_PAGES", "mappings", ""): 1,
        ("ADVISED", "DONTNEED", "mappings", ""): 1,
        ("ADVISED", "FREE_LAZILY", "mappings", ""): 1,
        ("ADVISED", "SHM_OPEN", "mappings", ""): 1,
    }
    assert size["MADE", "MALLOC", "make", ""] == 500 * 300_000 + 6 * mib
    assert size["GIVEN", "MALLOC", "make", "drop"] == 500 * 300_000 + 2 * mib
    assert size["GIVEN", "MREMAP", "mappings", "mappings"] == 32 * mib
    assert size["ADVISED", "FREE_LAZILY", "mappings", ""] == 4 * mib


def test_frequent_blocks_are_summed_and_counted_exactly(tmp_path: Path, folder: Path) -> None:
    text = """
static FAR void *work(void *count)
{
    for (long i = 0; i < (long)count; i++)
        free(malloc(300000 + (size_t)(i % 3) * 1000000));
    return NULL;
}
int main(void)
{
    begin();
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, work, (void *)(30000L + i));
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
"""
    agent.run([built(tmp_path, text)], tmp_path, folder)
    found = memory(folder)
    count, size = totals(found)
    each = [(30_000 + more) for more in range(3)]
    amount = sum(300_000 * number + 1_000_000 * sum(i % 3 for i in range(number)) for number in each)
    assert count["MADE", "MALLOC", "work", ""] == count["GIVEN", "MALLOC", "work", "work"] == sum(each)
    assert size["MADE", "MALLOC", "work", ""] == size["GIVEN", "MALLOC", "work", "work"] == amount
    assert len(set(found.table.tid.tolist())) == 4
    assert (found.table.lifetime_ns >= 0).all()
    (path,) = folder.glob("*.bin")
    assert path.stat().st_size < 8 << 20  # a record for each event takes 11 MiB


def test_memory_that_is_given_back_by_the_second_line_of_all_is_not_made_there(tmp_path: Path, folder: Path) -> None:
    text = """
static FAR void *shrunk(void *p) { return realloc(p, 64); }
int main(void)
{
    for (int i = 0; i < 3000; i++)
        free(shrunk(malloc(300000)));
    return 0;
}
"""
    agent.run([built(tmp_path, text)], tmp_path, folder)
    count, _ = totals(memory(folder))
    early = 3000 - count["MADE", "MALLOC", "main", ""]
    assert 0 < early < 300
    assert count["GIVEN", "MALLOC", "main", "shrunk"] == 3000 - early


def test_who_gives_back_the_memory_of_another_thread_is_known(tmp_path: Path, folder: Path) -> None:
    text = """
static FAR void *giver(void *p) { free(p); return NULL; }
static FAR void maker(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, giver, malloc(MIB));
    pthread_join(thread, NULL);
    free(malloc(MIB));
}
int main(void) { begin(); for (int i = 0; i < 20; i++) maker(); return 0; }
"""
    agent.run([built(tmp_path, text)], tmp_path, folder)
    found = memory(folder)
    count, _ = totals(found)
    assert count["GIVEN", "MALLOC", "maker", "giver"] == count["GIVEN", "MALLOC", "maker", "maker"] == 20
    giver = next(number for number, site in enumerate(found.sites) if site.caller.function == "giver")
    assert (found.table.elsewhere == (found.table.given_at == giver)).all()


def test_a_forked_child_records_for_itself_and_its_parents_blocks_stay(tmp_path: Path, folder: Path) -> None:
    text = """
static FAR void in_child(void *p) { free(p), free(malloc(3 * MIB)); }
int main(void)
{
    begin();
    char *p = malloc(2 * MIB);
    if (!fork()) {
        in_child(p);
        _exit(0);
    }
    wait(NULL);
    free(p);
    return 0;
}
"""
    agent.run([built(tmp_path, text)], tmp_path, folder)
    found = memory(folder)
    assert len(set(found.table.pid.tolist())) == 2
    count, size = totals(found)
    assert count["GIVEN", "MALLOC", "", "in_child"] == 1
    assert size["GIVEN", "MALLOC", "", "in_child"] == 2 << 20
    assert count["GIVEN", "MALLOC", "in_child", "in_child"] == count["GIVEN", "MALLOC", "main", "main"] == 1


def test_signal_handlers_that_allocate_are_recorded_or_counted(tmp_path: Path, folder: Path) -> None:
    """Of mappings, since the allocator itself may not be called from handlers."""
    text = """
static volatile long handled;
static void handle(int number)
{
    (void)number;
    void *p = mmap(NULL, MIB, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, MIB);
    handled++;
}
int main(void)
{
    struct itimerval often = {{0, 500}, {0, 500}};
    begin();
    signal(SIGALRM, handle);
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = 0; i < 20000 || handled < 100; i++)
        free(malloc(300000));
    signal(SIGALRM, SIG_IGN);
    printf("%ld\\n", handled);
    return 0;
}
"""
    handled = int(agent.run([built(tmp_path, text)], tmp_path, folder))
    found = agent.read(folder).memory
    assert found is not None
    count, _ = totals(found)
    made = sum(number for (event, maker, *_), number in count.items() if (event, maker) == ("MADE", "MMAP"))
    assert made <= handled
    assert made + found.lost >= handled


FOREIGN = """
/* Every block begins where a mapping does, so that what lies before it may not be read. */
static size_t size_of(void *p);
#define EXPORTED __attribute__((visibility("default")))
static struct { char *at; size_t size; } known[4096];
static unsigned used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
EXPORTED void *malloc(size_t size)
{
    size = (size + 4095) / 4096 * 4096 + 4096;
    pthread_mutex_lock(&lock);
    char *at = mmap(NULL, size + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at + 4096, size, READ_WRITE);
    known[used].at = at + 4096;
    known[used++].size = size;
    pthread_mutex_unlock(&lock);
    return at + 4096;
}
static size_t size_of(void *p)
{
    for (unsigned i = used; i--;)
        if (known[i].at == p)
            return known[i].size;
    abort();
}
EXPORTED void free(void *p)
{
    if (p)
        munmap(p, size_of(p));
}
EXPORTED void *calloc(size_t count, size_t size) { return malloc(count * size); }
EXPORTED void *realloc(void *p, size_t size)
{
    void *to = malloc(size);
    if (p)
        memcpy(to, p, size_of(p) < size ? size_of(p) : size);
    free(p);
    return to;
}
"""


@pytest.mark.parametrize("preloaded", [False, True], ids=["linked", "preloaded before"])
def test_other_allocators_are_not_looked_into(tmp_path: Path, folder: Path, preloaded: bool) -> None:
    library = built(tmp_path, FOREIGN, "-shared", "-fPIC", name="liballocator.so")
    text = """
static FAR void work(void)
{
    for (int i = 0; i < 50; i++) {
        char *small = malloc(100), *large = malloc(MIB);
        small[99] = large[MIB - 1] = 1;
        free(small), free(large);
    }
}
int main(void) { begin(); work(); return 0; }
"""
    options = () if preloaded else (f"-L{tmp_path}", "-l:liballocator.so")
    program = built(tmp_path, text, *options)
    inside = INSIDE.find()
    folder.mkdir()
    environment = agent.environment(tmp_path, folder)
    if preloaded:
        environment["LD_PRELOAD"] = f"{library}:{inside}"
    subprocess.run([program], env=environment, check=True)
    if preloaded:  # it stands before the agent, which sees no block; its mappings may not be touched when they are made
        assert list(folder.glob("*.bin")) == []
    else:
        count, _ = totals(memory(folder))
        assert count["MADE", "MALLOC", "work", ""] == count["GIVEN", "MALLOC", "work", "work"] == 50


def test_blocks_of_numpy_have_the_lines_of_python(tmp_path: Path, folder: Path) -> None:
    pytest.importorskip("numpy")
    script = tmp_path / "arrays.py"
    script.write_text(
        """import numpy as np
def step(a):
    b = a + 1  # line 3
    return float((b * 2).sum())  # line 4
a = np.zeros(1 << 20)
kept = []
for i in range(40):
    step(a)
for i in range(10):
    kept.append(np.ones(1 << 20))  # line 10
"""
    )
    agent.run([sys.executable, script], tmp_path, folder)
    found = memory(folder)
    made: Counter[int] = Counter()
    given: Counter[int] = Counter()
    for event, site, number in zip(found.table.event, found.table.site, found.table.count, strict=True):
        if site >= 0 and found.sites[site].caller.path == str(script) and event != HostEvent.ADVISED:
            (made if event == HostEvent.MADE else given)[found.sites[site].caller.line] += int(number)
    assert (made[3], made[4], made[10]) == (40, 40, 10)
    assert (given[3], given[4]) == (40, 40)


def test_programs_that_make_little_leave_no_file(tmp_path: Path, folder: Path) -> None:
    text = "int main(void) { for (int i = 0; i < 15; i++) memset(malloc(MIB), 1, MIB); return 0; }"
    agent.run([built(tmp_path, text)], tmp_path, folder)
    assert list(folder.iterdir()) == []


def test_what_was_made_before_is_counted(tmp_path: Path, folder: Path) -> None:
    text = "int main(void) { for (int i = 0; i < 20; i++) memset(malloc(MIB), 1, MIB); return 0; }"
    agent.run([built(tmp_path, text)], tmp_path, folder)
    count, size = totals(memory(folder))
    assert count == {("BEFORE", "MALLOC", "", ""): 15, ("MADE", "MALLOC", "main", ""): 5}
    assert size["BEFORE", "MALLOC", "", ""] == 15 << 20


def test_a_program_with_a_sanitizer_is_left_alone(tmp_path: Path, folder: Path) -> None:
    text = 'int main(void) { begin(); free(malloc(MIB)); puts("done"); return 0; }'
    try:
        program = built(tmp_path, text, "-fsanitize=address")
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no address sanitizer")
    folder.mkdir()
    environment = {**agent.environment(tmp_path, folder), "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert list(folder.iterdir()) == []


def test_errno_and_answers_are_the_allocators(tmp_path: Path, folder: Path) -> None:
    text = """
int main(void)
{
    begin();
    void *p = NULL;
    errno = 5;
    printf("%d ", malloc((size_t)1 << 60) == NULL && errno == ENOMEM);
    printf("%d ", calloc((size_t)1 << 40, (size_t)1 << 40) == NULL);
    printf("%d ", posix_memalign(&p, 3, MIB) == EINVAL);
    p = malloc(MIB);
    errno = 5;
    printf("%d ", realloc(p, (size_t)1 << 60) == NULL);
    errno = 5;
    free(p);
    printf("%d ", errno == 5);
    p = malloc(2 * MIB);
    printf("%d ", errno == 5 && malloc_usable_size(p) >= 2 * MIB);
    printf("%d\\n", munmap((void *)1, MIB) == -1 && errno == EINVAL && madvise((void *)1, MIB, 3) == -1);
    return 0;
}
"""
    program = built(tmp_path, text)
    expected = " ".join("1" * 7) + "\n"
    assert agent.run_bare([program], tmp_path) == expected
    assert agent.run([program], tmp_path, folder) == expected
    count, _ = totals(memory(folder))
    assert count["MADE", "MALLOC", "main", ""] == 2
    assert count["GIVEN", "MALLOC", "main", "main"] == 1


def test_files_of_memory_alone_name_no_calls(tmp_path: Path, folder: Path) -> None:
    """A program without CUDA has no calls to tell of."""
    agent.run([built(tmp_path, "int main(void) { begin(); return 0; }")], tmp_path, folder)
    assert agent.files(folder) == []
    (file,) = agent.all_files(folder)
    assert not file.has_calls
    assert not re.search("CUDA", " ".join(agent.read(folder).notes))
