// Counts primes with a sieve that is allocated once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { LIMIT = 4 << 20, ROUNDS = 30 };
int main(void)
{
    char *composite = malloc(LIMIT);
    long count = 0;
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int round = 0; round < ROUNDS; round++) {
        memset(composite, 0, LIMIT);
        for (long i = 2; i < LIMIT; i++) {
            if (composite[i])
                continue;
            count++;
            for (long multiple = i * i; multiple < LIMIT; multiple += i)
                composite[multiple] = 1;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, count);
}
