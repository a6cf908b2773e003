"""What no timer of processor time sees: waits, and what a forked process spends until it is another program."""

from __future__ import annotations

import platform
from pathlib import Path

from pinprof.data.system_calls import kernel_functions
from pinprof.read.inside.layout import Flag
from tests.integration.test_timers import built, pytestmark, run, sampled
from tests.support.agent import all_files

__all__ = ["pytestmark"]
LONG_NS = 100_000_000
"""The waits here last a second, less what a machine stands still."""
KNOWN = """
#include <semaphore.h>
static sem_t lock;
static int ends[2];
static void *ends_waits(void *given)
{
    sleep(1);
    sem_post(&lock);
    sleep(1);
    return (void *)write(ends[1], given, 1);
}
"""


def test_waits_for_others_are_noted_and_work_is_not(tmp_path: Path, folder: Path) -> None:
    text = """
int main(int count, char **words)
{
    char byte[2] = "x";
    pthread_t thread;
    burn(50);
    pid_t child = fork();
    if (!child) {
        sleep(1);
        _exit(3);
    }
    int status;
    printf("%d ", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    sem_init(&lock, 0, 0);
    pipe(ends);
    pthread_create(&thread, NULL, ends_waits, byte);
    printf("%d ", sem_wait(&lock));
    printf("%d ", (int)read(ends[0], byte, 1));
    pthread_join(thread, NULL);
    struct pollfd file = {ends[0], POLLIN, 0};
    printf("%d ", poll(&file, 1, 1000));
    sleep(1);
    printf("%d ", waitpid(child, &status, 0) == -1 && errno == ECHILD);
    FILE *own = fopen(words[0], "r");
    char *whole = malloc(1 << 20);
    printf("%d", read(fileno(own), whole, 1 << 20) > 0);
}"""
    assert run([built(tmp_path, KNOWN + text)], folder) == "1 0 1 0 1 1"
    (file,) = (each for each in sampled(folder) if len(each.waits.records))
    names = kernel_functions(platform.machine())
    noted = [
        (int(end - begin), int(record["function"]) - 1, bool(record["flags"] & Flag.PIPE), int(record["extra"]))
        for begin, end, record in zip(file.waits.begin_ns, file.waits.end_ns, file.waits.records, strict=True)
    ]
    long = [one for one in noted if one[0] > LONG_NS]
    assert [(names[call].partition("_sys_")[2], pipe) for _, call, pipe, _ in long] == [
        ("wait4", False),
        ("futex", False),
        ("read", True),
        ("ppoll", False),
    ]
    assert all(chain > 0 for *_, chain in noted)
    assert file.used is not None
    assert {chain for *_, chain in noted} <= file.used.chains.keys()


def test_what_a_forked_process_spends_before_execve_is_told_by_the_new_program(tmp_path: Path, folder: Path) -> None:
    text = """
int main(int count, char **words)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    if (count > 1) {
        printf("%d %llu\\n", getpid(), t.tv_sec * 1000000000ull + t.tv_nsec);
        return 0;
    }
    burn(50);
    pid_t child = fork();
    if (!child) {
        signal(SIGALRM, SIG_DFL);
        burn(60);
        execl("/proc/self/exe", words[0], "again", NULL);
    }
    waitpid(child, NULL, 0);
}"""
    pid, used = map(int, run([built(tmp_path, text)], folder).split())
    files = sampled(folder)
    (parent,) = (file for file in files if len(file.forks.records))
    assert parent.forks.records["address"].tolist() == [pid]
    begun = [file.begun for file in all_files(folder) if file.pid == pid and len(file.begun.records)]
    assert len(begun) == 1
    assert 50_000_000 < int(begun[0].records["bytes"][0]) <= used
    assert int(begun[0].begin_ns[0]) > int(parent.forks.end_ns[0])
