// Keeps its buffer, but drops the pages with madvise after each use.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
enum { SIZE = 32 << 20, ROUNDS = 60 };
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured");
    long total = 0;
    char *buffer = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int round = 0; round < ROUNDS; round++) {
        memset(buffer, round, SIZE); // GUILTY
        total += buffer[SIZE / 2];
        if (!cured)
            madvise(buffer, SIZE, MADV_DONTNEED); // GUILTY
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, total);
}
