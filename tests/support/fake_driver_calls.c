/*
 * A libcuda of the tests of the agent: every function notes nothing and does next to nothing, from any thread. What a
 * call shows of its arguments goes into its result, so that a wrapper that loses one is seen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default")))
typedef uint64_t word;

static void spend(word nanoseconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    word until = (word)now.tv_sec * 1000000000u + (word)now.tv_nsec + nanoseconds;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((word)now.tv_sec * 1000000000u + (word)now.tv_nsec < until);
}

EXPORTED int cuInit(unsigned flags) { return (int)flags; }
EXPORTED int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &*context, device < 0; }
EXPORTED int cuDevicePrimaryCtxRelease_v2(int device) { return device < 0; }
/* With write-combining, memory of its own: 2 MiB or several. */
enum { WRITE_COMBINED = 4, LARGE = 2 << 20 };
static void *mapped;
static size_t mapped_size;
EXPORTED int cuMemHostAlloc(void **start, size_t size, unsigned flags)
{
    if (flags & WRITE_COMBINED) {
        mapped_size = (size + LARGE - 1) & ~(size_t)(LARGE - 1);
        mapped = *start = mmap(NULL, mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return mapped == MAP_FAILED ? 2 : 0;
    }
    return !(*start = aligned_alloc(4096, (size + 4095) & ~(size_t)4095)) ? 2 : 0;
}
EXPORTED int cuMemAllocHost_v2(void **start, size_t size) { return cuMemHostAlloc(start, size, 0); }
EXPORTED int cuMemAllocManaged(void **start, size_t size, unsigned flags) { return cuMemHostAlloc(start, size, flags); }
/* It returns a while after the memory may be another thread's. */
static void give_back(void *start)
{
    free(start);
    spend(40000);
}
EXPORTED int cuMemFreeHost(void *start) { return start == mapped ? munmap(start, mapped_size) : (give_back(start), 0); }

/* Memory of the device: addresses that nothing lies at, never given twice. */
EXPORTED int cuMemAlloc_v2(word *start, size_t size)
{
    static _Atomic word next = (word)0x7f << 56;
    *start = __atomic_fetch_add(&next, (size + 4095) & ~(size_t)4095, __ATOMIC_RELAXED);
    return 0;
}
EXPORTED int cuMemAllocAsync(word *start, size_t size, void *stream)
{
    (void)stream;
    return cuMemAlloc_v2(start, size);
}
EXPORTED int cuMemFree_v2(word start)
{
    return start ? ((word)0x7f << 56 <= start ? 0 : (give_back((void *)start), 0)) : 1;
}
EXPORTED int cuMemFreeAsync(word start, void *stream) { return (void)start, (void)stream, 0; }
EXPORTED int cuMemHostRegister_v2(void *start, size_t size, unsigned flags)
{
    for (size_t at = 0; !flags && at < size; at += 4096) /* as the kernel does that pins them */
        __atomic_fetch_or((char *)start + at, 0, __ATOMIC_RELAXED);
    return (int)flags;
}
EXPORTED int cuMemHostUnregister(void *start) { return start ? 0 : 713; }

/* The stream is for how long it takes, in nanoseconds. */
#define COPY(name)                                                                                                     \
    EXPORTED int name(word to, word from, size_t size) { return to && from && size ? 0 : 1; }
#define QUEUED_COPY(name)                                                                                              \
    EXPORTED int name(word to, word from, size_t size, void *stream)                                                   \
    {                                                                                                                  \
        if (stream)                                                                                                    \
            spend((word)stream);                                                                                       \
        return to && from && size ? 0 : 1;                                                                             \
    }
COPY(cuMemcpyHtoD_v2)
COPY(cuMemcpyHtoD_v2_ptds)
COPY(cuMemcpyDtoH_v2)
COPY(cuMemcpy)
QUEUED_COPY(cuMemcpyHtoDAsync_v2)
QUEUED_COPY(cuMemcpyHtoDAsync_v2_ptsz)
QUEUED_COPY(cuMemcpyDtoHAsync_v2)
QUEUED_COPY(cuMemcpyAsync)

EXPORTED int cuMemcpyBatchAsync_v2(
    word *to, word *from, size_t *sizes, size_t count, void *attributes, size_t *places, size_t kinds, void *stream)
{
    return to && from && sizes && count && !attributes && !places && kinds == 7 && stream == (void *)8 ? 0 : 1;
}
EXPORTED int cuMemsetD8Async(word to, unsigned char value, size_t size, void *stream)
{
    return (void)value, (void)stream, to && size ? 0 : 1;
}
EXPORTED int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c,
    unsigned shared, void *stream, void **parameters, void **extra)
{
    return (int)((word)f + 2 * x + 3 * y + 4 * z + 5 * a + 6 * b + 7 * c + 8 * shared + 9 * (word)stream +
                 10 * (word)parameters + 11 * (word)extra);
}
EXPORTED int cuStreamSynchronize(void *stream) { return spend((word)stream), 0; }
EXPORTED int cuEventQuery(void *event) { return event ? 600 : 0; }
/* Leaves errno as it is told. */
EXPORTED int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    errno = (int)(word)event;
    return 0;
}

static int look_up(const char *name, void **address, int version, word flags);
EXPORTED int cuGetProcAddress(const char *name, void **address, int version, word flags)
{
    return look_up(name, address, version, flags);
}
EXPORTED int cuGetProcAddress_v2(const char *name, void **address, int version, word flags, int *status)
{
    return (void)status, look_up(name, address, version, flags);
}
static int look_up(const char *name, void **address, int version, word flags)
{
    static const struct {
        const char *name;
        int thread;
        void *function;
    } TABLE[] = {
        {"cuMemHostAlloc", 0, (void *)cuMemHostAlloc},
        {"cuMemcpyHtoD", 0, (void *)cuMemcpyHtoD_v2},
        {"cuMemcpyHtoD", 1, (void *)cuMemcpyHtoD_v2_ptds},
        {"cuMemcpyHtoDAsync", 0, (void *)cuMemcpyHtoDAsync_v2},
        {"cuMemcpyHtoDAsync", 1, (void *)cuMemcpyHtoDAsync_v2_ptsz},
        {"cuLaunchKernel", 0, (void *)cuLaunchKernel},
    };
    if (!strcmp(name, "cuGetProcAddress")) /* of four arguments before CUDA 12 */
        return *address = version < 12000 ? (void *)cuGetProcAddress : (void *)cuGetProcAddress_v2, 0;
    for (int exact = 1; exact >= 0; exact--)
        for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
            if (!strcmp(TABLE[i].name, name) && (TABLE[i].thread == !!(flags & 2)) >= exact)
                return *address = TABLE[i].function, 0;
    return *address = NULL, 500;
}
