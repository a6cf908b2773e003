/* Page-locked memory with pages of several kinds, held until a file exists: usage: places GO-FILE. Each call has a line
 * of its own.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define SIZE (64ul << 20)
#define HUGE (2ul << 20)
int cuInit(unsigned);
int cudaHostAlloc(void **, size_t, unsigned), cudaHostRegister(void *, size_t, unsigned);

/* Anonymous memory that begins at a huge page, with advice; nothing is touched yet. */
static char *anonymous(int advice)
{
    char *at = mmap(NULL, SIZE + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    at += -(size_t)at % HUGE;
    if (madvise(at, SIZE, advice))
        exit(2);
    return at;
}

int main(int count, char **words)
{
    char *huge = anonymous(MADV_HUGEPAGE), *small = anonymous(MADV_NOHUGEPAGE), *half = anonymous(MADV_NOHUGEPAGE);
    void *pinned;
    memset(huge, 1, SIZE);
    memset(small, 1, SIZE);
    memset(half, 1, SIZE / 2);
    if (count != 2 || cuInit(0))
        return 3;
    int failed = cudaHostAlloc(&pinned, SIZE, 0);          // allocates
    failed |= cudaHostRegister(huge, SIZE, 0);             // huge
    failed |= cudaHostRegister(small, SIZE, 0);            // small
    failed |= cudaHostRegister(half, SIZE, 0);             // half
    failed |= cudaHostRegister(small + HUGE, SIZE / 8, 0); // part
    failed |= cudaHostRegister(half + HUGE, 4096, 0);      // tiny
    if (failed)
        return 4;
    puts("ready");
    fflush(stdout);
    while (access(words[1], F_OK))
        usleep(20000);
    return 0;
}
