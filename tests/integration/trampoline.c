/* A stand-in for CPython 3.12 built with frame pointers: functions of an evaluation loop's name, which call Python
   functions through a trampoline made at run time, named in /tmp/perf-PID.map as CPython names it. x86-64.
   It does so only when PYTHONPERFSUPPORT is 1, as CPython. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void (*work)(double);
typedef void (*trampoline)(work, double);

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret -- as Python/asm_trampoline.S of 3.13 */
static const unsigned char CODE[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
static char *place;
static int used;

static trampoline python_function(const char *name)
{
    char path[64], *code = place + 64 * used++;
    memcpy(code, CODE, sizeof CODE);
    if (getenv("PYTHONPERFSUPPORT") && !strcmp(getenv("PYTHONPERFSUPPORT"), "1")) {
        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        FILE *map = fopen(path, "a");
        fprintf(map, "%lx %lx py::%s:/srv/app/train.py\n", (unsigned long)code, (unsigned long)sizeof CODE, name);
        fclose(map);
    }
    return (trampoline)code;
}

__attribute__((noinline)) void load_batch(double seconds)
{
    struct timespec now, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double until = end.tv_sec + end.tv_nsec / 1e9 + seconds;
    do {
        char *memory = mmap(0, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long at = 0; at < 32 << 20; at += 4096)
            memory[at] = 1;
        munmap(memory, 32 << 20);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < until);
    __asm__ volatile("");
}

__attribute__((noinline)) void _PyEval_EvalFrameDefault(double seconds)
{
    static int depth;
    if (depth++ == 0) {
        pid_t child = fork(); /* as a DataLoader does: the child's <module> is in its parent's map */
        python_function("Loader.__next__")(_PyEval_EvalFrameDefault, seconds);
        if (child)
            wait(0);
    } else {
        load_batch(seconds);
    }
    depth--;
    __asm__ volatile("");
}

int main(int count, char **arguments)
{
    place = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double seconds = atof(arguments[1]);
    python_function("<module>")(_PyEval_EvalFrameDefault, seconds);
    return count < 2;
}
