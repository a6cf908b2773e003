/* Stands in for libcuda.so.1 where there is no GPU: the functions that pinprof probes, doing what is like them. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define EXPORT __attribute__((visibility("default"), noinline))
EXPORT int cuInit(unsigned flags)
{
    usleep(2000);
    return 0;
}
EXPORT int cuMemHostAlloc(void **p, size_t n, unsigned f)
{
    *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(*p, 0, n);
    return 0;
}
EXPORT int cuMemFreeHost(void *p)
{
    usleep(100);
    return 0;
}
EXPORT int cuMemcpyHtoD_v2(void *d, const void *s, size_t n)
{
    memcpy(d, s, n);
    return 0;
}
EXPORT int cuMemcpyDtoH_v2(void *h, const void *d, size_t n)
{
    memcpy(h, d, n);
    return 0;
}
EXPORT int cuMemcpy(void *to, const void *from, size_t n)
{
    memmove(to, from, n);
    return 0;
}
EXPORT int cuMemHostRegister_v2(void *p, size_t n, unsigned f) { return 0; }
EXPORT int cuMemHostUnregister(void *p) { return 0; }
EXPORT int cuMemAllocManaged(void **p, size_t n, unsigned f) { return cuMemHostAlloc(p, n, f); }
EXPORT int cuMemReserve(void **p, size_t n) /* of the test: what a device's address space looks like */
{
    *p = mmap(0, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return 0;
}
EXPORT int cuMemcpyAsync(void *to, const void *from, size_t n, void *stream) /* copies nothing */ { return 0; }
EXPORT int cuCtxSynchronize(void)
{
    usleep(3000);
    return 0;
}
EXPORT int cuMemAlloc_v2(void **p, size_t n)
{
    *p = malloc(n);
    return *p ? 0 : 2;
}
EXPORT int cuMemFree_v2(void *p)
{
    free(p);
    return 0;
}
