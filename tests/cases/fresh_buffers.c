// Every step takes four buffers of 8 MiB from malloc, fills them and gives them back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { BUFFERS = 4, BYTES = 8 << 20, STEPS = 60 };
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured");
    char *buffers[BUFFERS], *kept[BUFFERS];
    long total = 0;
    for (int i = 0; i < BUFFERS; i++)
        kept[i] = cured ? malloc(BYTES) : NULL;
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BUFFERS; i++) {
            buffers[i] = cured ? kept[i] : malloc(BYTES);
            memset(buffers[i], step + i, BYTES); // GUILTY
        }
        for (int i = 0; i < BUFFERS; i++) {
            total += buffers[i][step];
            if (!cured)
                free(buffers[i]);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, total);
}
