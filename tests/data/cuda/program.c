/* Calls both, forks a child that does the same, and says what it did. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int cuInit(unsigned), cudaMallocHost(void **, size_t), cudaFreeHost(void *),
    cudaMemcpy(void *, const void *, size_t, int), cuCtxSynchronize(void), cuMemAlloc_v2(void **, size_t),
    cuMemFree_v2(void *);
__attribute__((noinline)) void step(size_t n, void *d)
{
    void *h;
    cudaMallocHost(&h, n);
    cudaMemcpy(d, h, n, 1);
    cuCtxSynchronize();
    cudaFreeHost(h);
}
int main(void)
{
    void *d;
    cuInit(0);
    cuMemAlloc_v2(&d, 8 << 20);
    for (int i = 0; i < 5; i++)
        step(8 << 20, d);
    pid_t child = fork();
    if (child == 0) {
        step(2 << 20, d);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    cuMemFree_v2(d);
    printf("%d\n", child);
    return 0;
}
