// Uses memory that is made anew every time, or memory that stays: what do the pages themselves cost?
//
// page_costs KIND PAGES ACCESS BYTES TIMES WAY ROUNDS
//   KIND    anon     private memory from mmap
//           shared   a file in memory (memfd), made, mapped and closed; cured: one mapping that stays
//           file     a mapping of a cached file, read; cured: pread into one buffer
//           kept     the same; cured: one mapping that stays
//           private  a private mapping of a cached file, written; cured: pread into one buffer
//           cow      memory that stays, while a forked child holds it too; cured: without a child
//   PAGES   small, huge (madvise)
//   ACCESS  touch (a byte of each page), fill (memset), store, add (from another array), use (memset, then read)
//   WAY     fresh, cured, both: rounds of the two in turns
// Prints for each round: way, and nanoseconds of the thread's CPU time. Forking itself is not counted.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *kind, *access_as;
static size_t bytes;
static int huge, file = -1;
static long *kept, *source;
static volatile long result;

static int is(const char *one, const char *other) { return !strcmp(one, other); }

static void *checked(void *mapping)
{
    if (mapping == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return mapping;
}

static void *map(int protection, int flags, int descriptor)
{
    char *mapping = checked(mmap(NULL, bytes, protection, flags, descriptor, 0));
    madvise(mapping, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return mapping;
}

static void *anonymous(void) { return map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1); }

static long total(const long *memory)
{
    long sum = 0;
    for (size_t i = 0; i < bytes / sizeof(long); i++)
        sum += memory[i];
    return sum;
}

static void work(long *memory)
{
    size_t count = bytes / sizeof(long);
    if (is(kind, "file") || is(kind, "kept")) {
        if (is(access_as, "touch"))
            for (size_t at = 0; at < count; at += 4096 / sizeof(long))
                result += memory[at];
        else
            result = total(memory);
    } else if (is(access_as, "touch")) {
        for (size_t at = 0; at < count; at += 4096 / sizeof(long))
            memory[at] = 1;
    } else if (is(access_as, "store")) {
        for (size_t i = 0; i < count; i++)
            memory[i] = i;
    } else if (is(access_as, "add")) {
        for (size_t i = 0; i < count; i++)
            memory[i] = source[i] + 1;
    } else {
        memset(memory, 1, bytes);
        if (is(access_as, "use"))
            result = total(memory);
    }
}

__attribute__((noipa)) static void fresh(void)
{
    long *memory;
    if (is(kind, "cow")) {
        work(kept);
        result++; // no tail call: the samples keep this frame
        return;
    }
    if (is(kind, "anon")) {
        memory = anonymous();
    } else if (is(kind, "shared")) {
        int made = memfd_create("made", 0);
        if (ftruncate(made, bytes))
            exit(1);
        memory = map(PROT_READ | PROT_WRITE, MAP_SHARED, made);
        close(made);
    } else {
        memory = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
    }
    work(memory);
    munmap(memory, bytes);
    result++;
}

__attribute__((noipa)) static void cured(void)
{
    if ((is(kind, "file") || is(kind, "private")) && pread(file, kept, bytes, 0) != (ssize_t)bytes)
        exit(1);
    work(kept);
}

static long long run(void (*way)(void), int times)
{
    struct timespec begun, ended;
    long long spent = 0;
    for (int i = 0; i < times; i++) {
        pid_t child = -1;
        if (way == fresh && is(kind, "cow") && !(child = fork())) {
            pause();
            _exit(0);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
        way();
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
        spent += (ended.tv_sec - begun.tv_sec) * 1000000000LL + ended.tv_nsec - begun.tv_nsec;
        if (child > 0) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
        }
    }
    return spent;
}

int main(int argc, char **argv)
{
    if (argc != 8)
        return 2;
    kind = argv[1], huge = is(argv[2], "huge"), access_as = argv[3], bytes = strtoul(argv[4], NULL, 10);
    int times = atoi(argv[5]), rounds = atoi(argv[7]);
    source = checked(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    memset(source, 1, bytes);
    if (is(kind, "file") || is(kind, "kept") || is(kind, "private")) {
        file = fileno(tmpfile());
        if (write(file, source, bytes) != (ssize_t)bytes)
            return 1;
    }
    kept = is(kind, "kept") ? map(PROT_READ, MAP_PRIVATE, file) : anonymous();
    if (!is(argv[6], "fresh") || is(kind, "cow"))
        run(cured, 1);
    for (int round = 0; round < rounds; round++) {
        if (!is(argv[6], "cured"))
            printf("fresh %lld\n", run(fresh, times));
        if (!is(argv[6], "fresh"))
            printf("cured %lld\n", run(cured, times));
    }
}
