/* Stands in for libcuda.so.1, and with -DRUNTIME for libcudart.so: six ways to get memory, and those to give it back.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define EXPORT __attribute__((visibility("default"), noinline))
#ifdef RUNTIME
int cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *), cuMemHostRegister_v2(void *, size_t, unsigned),
    cuMemHostUnregister(void *), cuMemAllocManaged(void **, size_t, unsigned), cuMemFree_v2(void *),
    cuMemAllocAsync(void **, size_t, void *), cuMemFreeAsync(void *, void *);
#define CALLS(call)                                                                                                    \
    {                                                                                                                  \
        int result = call;                                                                                             \
        __asm__ volatile("");                                                                                          \
        return result;                                                                                                 \
    }
EXPORT int cudaMallocHost(void **p, size_t n) CALLS(cuMemHostAlloc(p, n, 0)) EXPORT
    int cudaHostAlloc(void **p, size_t n, unsigned f) CALLS(cuMemHostAlloc(p, n, f)) EXPORT
    int cudaFreeHost(void *p) CALLS(cuMemFreeHost(p)) EXPORT int cudaHostRegister(void *p, size_t n, unsigned f)
        CALLS(cuMemHostRegister_v2(p, n, f)) EXPORT int cudaHostUnregister(void *p) CALLS(cuMemHostUnregister(p)) EXPORT
    int cudaMallocManaged(void **p, size_t n, unsigned f) CALLS(cuMemAllocManaged(p, n, f)) EXPORT int cudaFree(void *p)
        CALLS(cuMemFree_v2(p)) EXPORT int cudaMallocAsync(void **p, size_t n, void *stream)
            CALLS(cuMemAllocAsync(p, n, stream)) EXPORT int cudaFreeAsync(void *p, void *stream)
                CALLS(cuMemFreeAsync(p, stream))
#else
/* The first word of a mapping has its length. */
static void *mapped(size_t n)
{
    char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(p, 0, n);
    *(size_t *)p = n;
    return p;
}
static int unmapped(void *p) { return munmap(p, *(size_t *)p); }
EXPORT int cuInit(unsigned flags) { return flags != 0; }
EXPORT int cuDeviceGet(int *device, int number) { return *device = number, 0; }
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &*context, device != 0; }
EXPORT int cuCtxSetCurrent(void *context) { return context == NULL; }
EXPORT int cuMemHostAlloc(void **p, size_t n, unsigned f) { return *p = mapped(n), f > 7; }
EXPORT int cuMemFreeHost(void *p) { return unmapped(p); }
EXPORT int cuMemHostRegister_v2(void *p, size_t n, unsigned f) { return !p || !n || f > 7; }
EXPORT int cuMemHostUnregister(void *p) { return !p; }
EXPORT int cuMemAllocManaged(void **p, size_t n, unsigned f) { return *p = mapped(n), f != 1; }
EXPORT int cuMemFree_v2(void *p) { return unmapped(p); }
/* A pool maps nothing when it gives memory out. */
EXPORT int cuMemAllocAsync(void **p, size_t n, void *stream) { return *p = malloc(n), stream != NULL; }
EXPORT int cuMemFreeAsync(void *p, void *stream) { return free(p), stream != NULL; }
#endif
