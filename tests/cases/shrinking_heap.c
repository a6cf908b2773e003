// Every step takes 32 MiB in pieces of 64 KiB from the heap; free gives them back to the kernel each time.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { PIECES = 512, BYTES = 64 << 10, STEPS = 60 };
int main(int argc, char **argv)
{
    static char *pieces[PIECES];
    struct timespec begun, ended;
    long total = 0;
    if (argc > 1 && !strcmp(argv[1], "cured"))
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < PIECES; i++) {
            pieces[i] = malloc(BYTES);
            memset(pieces[i], step, BYTES); // GUILTY
        }
        for (int i = PIECES - 1; i >= 0; i--) {
            total += pieces[i][i];
            free(pieces[i]);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, total);
}
