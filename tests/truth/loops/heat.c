// Heat on a square: fields are filled by a function, then a stencil advances them in a function of its own.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { SIDE = 3000, STEPS = 100 };
static double *prepare(void)
{
    double *field = malloc(sizeof(double) * SIDE * SIDE);
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            field[row * SIDE + column] = 1.0 / (1 + row + column) + (row * 7919L + column) % 997 / 1e3;
    return field;
}
static void advance(double *restrict next, const double *restrict now)
{
    for (int row = 1; row < SIDE - 1; row++)
        for (int column = 1; column < SIDE - 1; column++) {
            const double *at = now + row * SIDE + column;
            next[row * SIDE + column] = *at + 0.2 * (at[-1] + at[1] + at[-SIDE] + at[SIDE] - 4 * *at);
        }
}
int main(void)
{
    double *now = prepare(), *next = prepare();
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int step = 0; step < STEPS; step++) {
        advance(next, now);
        double *kept = now;
        now = next;
        next = kept;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %f\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, now[SIDE + 1]);
}
