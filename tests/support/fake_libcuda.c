/*
 * The functions of libcuda that cures call or replace, without a GPU. Memory is the host's. What
 * is queued on a stream is done as late as CUDA may do it: when somebody waits. Nothing that is measured comes from
 * here.
 *
 * It refuses what the driver refuses: memory that is registered twice or not at all, contexts that are not current.
 * `fake_count` tells how often a function was called, `fake_alive` how much was made and not given back. FAKE_FAIL
 * names a function that fails with 2, CUDA_ERROR_OUT_OF_MEMORY.
 */

#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef int result;
typedef uint64_t device_pointer;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    REGISTERED = 712,
    NOT_REGISTERED = 713
};
enum { HOST = 1, DEVICE = 2 };

static struct {
    char *start;
    size_t size;
    int kind; /* 'h' allocated, 'r' registered, 'd' of the device; 0: nothing */
    unsigned flags;
} memory[4096];

static struct {
    const char *name;
    int times;
} calls[64];

static struct {
    void *to;
    const void *from; /* NULL: an event, in `to` */
    size_t size;
    void *stream;
} queue[4096];
static size_t queued;
static long events;
static char context;
static void *now = &context;
static bool capturing;

static bool fails(const char *name)
{
    for (size_t i = 0; i < COUNT(calls); i++)
        if (!calls[i].name || !strcmp(calls[i].name, name)) {
            calls[i].name = name;
            calls[i].times++;
            break;
        }
    const char *wanted = getenv("FAKE_FAIL");
    return wanted && !strcmp(wanted, name);
}
#define ENTER()                                                                                                        \
    if (fails(__func__))                                                                                               \
    return OUT_OF_MEMORY

EXPORTED int fake_count(const char *name)
{
    for (size_t i = 0; i < COUNT(calls) && calls[i].name; i++)
        if (!strcmp(calls[i].name, name))
            return calls[i].times;
    return 0;
}

/* Blocks of a kind, or for 'e' events, that are alive. */
EXPORTED int fake_alive(int kind)
{
    int alive = kind == 'e' ? (int)events : 0;
    for (size_t i = 0; i < COUNT(memory); i++)
        alive += memory[i].kind == kind;
    return alive;
}

EXPORTED void fake_capturing(int on) { capturing = on; }

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("FAKE_END");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%d %d %d %d\n", fake_alive('h'), fake_alive('r'), fake_alive('d'), fake_alive('e'));
        fclose(file);
    }
}

static size_t find(const void *at)
{
    for (size_t i = 0; i < COUNT(memory); i++)
        if (memory[i].kind && (const char *)at >= memory[i].start &&
            (const char *)at < memory[i].start + memory[i].size)
            return i;
    return COUNT(memory);
}

static result keep(void *start, size_t size, int kind, unsigned flags)
{
    for (size_t i = 0; i < COUNT(memory); i++)
        if (!memory[i].kind) {
            memory[i].start = start;
            memory[i].size = size;
            memory[i].kind = kind;
            memory[i].flags = flags;
            return SUCCESS;
        }
    return OUT_OF_MEMORY;
}

static void run_queue(void *until)
{
    size_t done = 0;
    for (; done < queued; done++) {
        if (queue[done].from)
            memcpy(queue[done].to, queue[done].from, queue[done].size);
        else if (queue[done].to == until && until) {
            done++;
            break;
        }
    }
    memmove(queue, queue + done, (queued - done) * sizeof *queue);
    queued -= done;
}

static result add(void *to, const void *from, size_t size, void *stream)
{
    if (queued == COUNT(queue))
        run_queue(NULL);
    queue[queued].to = to;
    queue[queued].from = from;
    queue[queued].size = size;
    queue[queued++].stream = stream;
    return SUCCESS;
}

/* A copy: of pinned memory when somebody waits; of pageable memory before this returns. */
static result copy(void *to, const void *from, size_t size, void *stream, bool asynchronous)
{
    result answer = add(to, from, size, stream);
    size_t host = find(to) < COUNT(memory) && memory[find(to)].kind == 'd' ? find(from) : find(to);
    if (!asynchronous || host == COUNT(memory))
        run_queue(NULL);
    return answer;
}

EXPORTED result cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }
EXPORTED result cuCtxGetCurrent(void **found) { return *found = now, SUCCESS; }
EXPORTED result cuCtxSetCurrent(void *wanted) { return now = wanted, SUCCESS; }
EXPORTED result cuCtxGetDevice(int *device) { return *device = 0, now ? SUCCESS : INVALID_CONTEXT; }
EXPORTED result cuDeviceGetAttribute(int *value, int attribute, int device)
{
    return *value = attribute == 91 && !getenv("FAKE_OTHER_ADDRESSES"), device ? INVALID_VALUE : SUCCESS;
}
EXPORTED result cuStreamIsCapturing(void *stream, int *status) { return (void)stream, *status = capturing, SUCCESS; }

EXPORTED result cuCtxSynchronize(void)
{
    ENTER();
    return run_queue(NULL), SUCCESS;
}

static void drop_all(void)
{
    run_queue(NULL);
    for (size_t i = 0; i < COUNT(memory); i++) {
        if (memory[i].kind && memory[i].kind != 'r')
            free(memory[i].start);
        memory[i].kind = 0;
    }
    events = 0;
}

EXPORTED result cuCtxDestroy_v2(void *ending)
{
    ENTER();
    return (void)ending, drop_all(), SUCCESS;
}

EXPORTED result cuDevicePrimaryCtxReset_v2(int device)
{
    ENTER();
    return (void)device, drop_all(), SUCCESS;
}

EXPORTED result cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER();
    return (void)device, SUCCESS;
}

EXPORTED result cuMemAlloc_v2(device_pointer *start, size_t size)
{
    char *made = malloc(size);
    *start = (device_pointer)(uintptr_t)made;
    return made ? keep(made, size, 'd', 0) : OUT_OF_MEMORY;
}

EXPORTED result cuMemHostAlloc(void **start, size_t size, unsigned flags)
{
    ENTER();
    if (!now)
        return INVALID_CONTEXT;
    if (!start || !size || flags > 7)
        return INVALID_VALUE;
    *start = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
    return *start ? keep(*start, size, 'h', flags) : OUT_OF_MEMORY;
}

EXPORTED result cuMemAllocHost_v2(void **start, size_t size)
{
    ENTER();
    return cuMemHostAlloc(start, size, 0);
}

EXPORTED result cuMemFreeHost(void *start)
{
    ENTER();
    size_t at = find(start);
    if (at == COUNT(memory) || memory[at].kind != 'h' || memory[at].start != start)
        return INVALID_VALUE;
    run_queue(NULL);
    free(start);
    memory[at].kind = 0;
    return SUCCESS;
}

EXPORTED result cuMemHostGetFlags(unsigned *flags, void *start)
{
    ENTER();
    size_t at = find(start);
    if (at == COUNT(memory) || memory[at].kind != 'h')
        return INVALID_VALUE;
    return *flags = memory[at].flags | 2, SUCCESS;
}

EXPORTED result cuMemHostRegister_v2(void *start, size_t size, unsigned flags)
{
    ENTER();
    if (find(start) < COUNT(memory) || find((char *)start + size - 1) < COUNT(memory))
        return REGISTERED;
    return keep(start, size, 'r', flags);
}

EXPORTED result cuMemHostUnregister(void *start)
{
    ENTER();
    size_t at = find(start);
    if (at == COUNT(memory) || memory[at].kind != 'r' || memory[at].start != start)
        return NOT_REGISTERED;
    run_queue(NULL);
    memory[at].kind = 0;
    return SUCCESS;
}

EXPORTED result cuPointerGetAttribute(void *value, int attribute, device_pointer of)
{
    size_t at = find((void *)(uintptr_t)of);
    if (attribute != 2 || at == COUNT(memory))
        return INVALID_VALUE;
    *(unsigned *)value = memory[at].kind == 'd' ? DEVICE : HOST;
    return SUCCESS;
}

EXPORTED result cuEventCreate(void **event, unsigned flags)
{
    ENTER();
    (void)flags;
    *event = malloc(1);
    events++;
    return SUCCESS;
}

EXPORTED result cuEventDestroy_v2(void *event)
{
    free(event);
    events--;
    return SUCCESS;
}

EXPORTED result cuEventRecord(void *event, void *stream)
{
    ENTER();
    return add(event, NULL, 0, stream);
}

EXPORTED result cuEventSynchronize(void *event)
{
    ENTER();
    return run_queue(event), SUCCESS;
}

#define COPIES(suffix)                                                                                                 \
    EXPORTED result cuMemcpyHtoD_v2##suffix(device_pointer to, const void *from, size_t size)                          \
    {                                                                                                                  \
        ENTER();                                                                                                       \
        return copy((void *)(uintptr_t)to, from, size, NULL, false);                                                   \
    }                                                                                                                  \
    EXPORTED result cuMemcpyDtoH_v2##suffix(void *to, device_pointer from, size_t size)                                \
    {                                                                                                                  \
        ENTER();                                                                                                       \
        return copy(to, (void *)(uintptr_t)from, size, NULL, false);                                                   \
    }                                                                                                                  \
    EXPORTED result cuMemcpy##suffix(device_pointer to, device_pointer from, size_t size)                              \
    {                                                                                                                  \
        ENTER();                                                                                                       \
        return copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size, NULL, false);                                \
    }
#define ASYNC_COPIES(suffix)                                                                                           \
    EXPORTED result cuMemcpyHtoDAsync_v2##suffix(device_pointer to, const void *from, size_t size, void *stream)       \
    {                                                                                                                  \
        ENTER();                                                                                                       \
        return copy((void *)(uintptr_t)to, from, size, stream, true);                                                  \
    }                                                                                                                  \
    EXPORTED result cuMemcpyDtoHAsync_v2##suffix(void *to, device_pointer from, size_t size, void *stream)             \
    {                                                                                                                  \
        ENTER();                                                                                                       \
        return copy(to, (void *)(uintptr_t)from, size, stream, true);                                                  \
    }                                                                                                                  \
    EXPORTED result cuMemcpyAsync##suffix(device_pointer to, device_pointer from, size_t size, void *stream)           \
    {                                                                                                                  \
        ENTER();                                                                                                       \
        return copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size, stream, true);                               \
    }

COPIES()
COPIES(_ptds)
ASYNC_COPIES()
ASYNC_COPIES(_ptsz)

static const struct {
    const char *name;
    bool thread;
    void *function;
} TABLE[] = {
    {"cuMemHostAlloc", false, (void *)cuMemHostAlloc},
    {"cuMemAllocHost", false, (void *)cuMemAllocHost_v2},
    {"cuMemFreeHost", false, (void *)cuMemFreeHost},
    {"cuMemHostGetFlags", false, (void *)cuMemHostGetFlags},
    {"cuMemHostRegister", false, (void *)cuMemHostRegister_v2},
    {"cuMemHostUnregister", false, (void *)cuMemHostUnregister},
    {"cuMemAlloc", false, (void *)cuMemAlloc_v2},
    {"cuMemcpyHtoD", false, (void *)cuMemcpyHtoD_v2},
    {"cuMemcpyHtoD", true, (void *)cuMemcpyHtoD_v2_ptds},
    {"cuMemcpyDtoHAsync", false, (void *)cuMemcpyDtoHAsync_v2},
    {"cuMemcpyDtoHAsync", true, (void *)cuMemcpyDtoHAsync_v2_ptsz},
    {"cuCtxSynchronize", false, (void *)cuCtxSynchronize},
};

EXPORTED result cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status)
{
    (void)version, (void)status;
    if (!strcmp(name, "cuGetProcAddress"))
        return *address = (void *)cuGetProcAddress_v2, SUCCESS;
    for (int exact = 1; exact >= 0; exact--)
        for (size_t i = 0; i < COUNT(TABLE); i++)
            if (!strcmp(TABLE[i].name, name) && (TABLE[i].thread == !!(flags & 2)) >= exact)
                return *address = TABLE[i].function, SUCCESS;
    return *address = NULL, 500;
}
