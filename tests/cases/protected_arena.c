// Makes its arena read-only while it reads it, and writable again for each round of writes.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
enum { SIZE = 64 << 20, ROUNDS = 60 };
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured");
    long total = 0;
    char *arena = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(arena, 1, SIZE);
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int round = 0; round < ROUNDS; round++) {
        if (!cured)
            mprotect(arena, SIZE, PROT_READ); // GUILTY
        for (size_t at = 0; at < SIZE; at += 4096)
            total += arena[at];
        if (!cured)
            mprotect(arena, SIZE, PROT_READ | PROT_WRITE); // GUILTY
        for (size_t at = 0; at < SIZE; at += 4096)
            arena[at]++;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, total);
}
