// Adds to arrays that calloc gives: each page is read first, which maps a page of zeros, and faults again when written.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { COUNT = 4 << 20, ROUNDS = 30 };
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured");
    double total = 0, *kept = malloc(COUNT * sizeof(double));
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int round = 0; round < ROUNDS; round++) {
        double *sums = cured ? memset(kept, 0, COUNT * sizeof(double)) : calloc(COUNT, sizeof(double));
        for (int at = 0; at < COUNT; at++)
            sums[at] += at + round; // GUILTY
        total += sums[COUNT / 2];
        if (!cured)
            free(sums);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %f\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, total);
}
