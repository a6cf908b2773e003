// Writes a table in a shared mapping of a file, and writes the file back after each round: all pages fault again.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
enum { SIZE = 64 << 20, ROUNDS = 16 };
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured"), file = fileno(tmpfile());
    if (ftruncate(file, SIZE))
        return 1;
    char *table = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(table, 1, SIZE);
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t at = 0; at < SIZE; at += 4096)
            table[at]++; // GUILTY
        if (!cured || round + 1 == ROUNDS)
            msync(table, SIZE, MS_SYNC); // GUILTY
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %d\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, table[0]);
}
