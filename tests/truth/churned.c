// Memory work of a few kinds, for places where memory is short: churned KIND [ARGUMENT]
//   weights FILE [ahead]   touches every page of a mapped file, three times; has it read ahead first
//   beside FILE            fills new memory while the page cache holds a file that it has just written
//   huge MIB [small]       fills so much memory that asks for huge pages, or for none
//   splinter MIB           takes so much memory, gives back every second small page, and waits for the end of its input
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define PAGE 4096UL
#define HUGE (2 * MIB)

static volatile unsigned long total;

static unsigned char *taken(size_t size, int advice)
{
    unsigned char *memory =
        mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    memory += HUGE - (size_t)memory % HUGE;
    madvise(memory, size, advice);
    return memory;
}

static void weights(const char *name, int ahead)
{
    struct stat status;
    int file = open(name, O_RDONLY);
    if (file < 0 || fstat(file, &status))
        exit(1);
    unsigned char *memory = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        exit(1);
    if (ahead)
        madvise(memory, status.st_size, MADV_WILLNEED);
    for (int pass = 0; pass < 3; pass++)
        for (off_t at = 0; at < status.st_size; at += PAGE)
            total += memory[at]; // GUILTY: weights
}

static void beside(const char *name)
{
    static unsigned char block[4 * MIB];
    int file = open(name, O_WRONLY);
    if (file < 0)
        exit(1);
    for (int round = 0; round < 3; round++) {
        for (int part = 0; part < 64; part++)
            total += pwrite(file, block, sizeof(block), part * sizeof(block));
        unsigned char *memory = mmap(NULL, 384 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            exit(1);
        memset(memory, 1, 384 * MIB); // GUILTY: beside
        munmap(memory, 384 * MIB);
    }
}

static void huge(size_t size, int advice)
{
    memset(taken(size, advice), 1, size); // GUILTY: huge
}

static void splinter(size_t size)
{
    unsigned char *memory = taken(size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += PAGE)
        memory[at] = 1;
    for (size_t at = 0; at < size; at += 2 * PAGE)
        madvise(memory + at, PAGE, MADV_DONTNEED);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}

int main(int argc, char **argv)
{
    struct timespec begun, ended;
    if (argc < 3)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (!strcmp(argv[1], "weights"))
        weights(argv[2], argc > 3);
    else if (!strcmp(argv[1], "beside"))
        beside(argv[2]);
    else if (!strcmp(argv[1], "huge"))
        huge(atol(argv[2]) * MIB, argc > 3 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    else
        splinter(atol(argv[2]) * MIB);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("seconds %.3f\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9);
    return 0;
}
