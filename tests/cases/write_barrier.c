// Learns which pages are written by protecting them and handling a signal for each.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
enum { SIZE = 32 << 20, ROUNDS = 10 };
static long written;
static void on_write(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    written++;
    mprotect((void *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE); // GUILTY
}
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured");
    struct sigaction action = {.sa_sigaction = on_write, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    char *table = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(table, 1, SIZE);
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int round = 0; round < ROUNDS; round++) {
        if (!cured)
            mprotect(table, SIZE, PROT_READ);
        for (size_t at = 0; at < SIZE; at += 64)
            table[at]++; // GUILTY
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, written);
}
