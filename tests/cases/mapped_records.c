// Reads records of 16 KiB at random places of a cached file, each through a mapping of its own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
enum { RECORD = 16 << 10, RECORDS = 16384, READS = 160000 };
static char copy[RECORD];
int main(int argc, char **argv)
{
    int cured = argc > 1 && !strcmp(argv[1], "cured"), file = fileno(tmpfile());
    memset(copy, 1, RECORD);
    for (int i = 0; i < RECORDS; i++)
        if (write(file, copy, RECORD) != RECORD)
            return 1;
    long total = 0;
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int i = 0; i < READS; i++) {
        off_t place = (off_t)(i * 7919L % RECORDS) * RECORD;
        char *record = copy;
        if (cured && pread(file, copy, RECORD, place) != RECORD)
            return 1;
        if (!cured)
            record = mmap(NULL, RECORD, PROT_READ, MAP_PRIVATE, file, place);
        for (int at = 0; at < RECORD; at += 64)
            total += record[at]; // GUILTY
        if (!cured)
            munmap(record, RECORD);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %f %ld\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9, total);
}
