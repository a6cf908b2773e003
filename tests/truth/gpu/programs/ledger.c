// Allocates and gives back by a seeded random plan, through six functions of CUDA, and says what lives at checkpoints.
//
// usage: ledger LIBCUDART SEED STEPS CHECKPOINTS POOL_BYTES
//   LIBCUDART    the runtime's library, which is opened beside libcuda.so.1
//   STEPS        of each of two threads, between two checkpoints
//   POOL_BYTES   of each allocation from the pool; 0 for random sizes
// Each checkpoint is a mark of NVTX, and a line on standard output: its name, and LINE=BYTES for each line that
// allocates. What lives at the end is left to the end of the process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 2
#define SITES 10
#define SLOTS 48
#define PAGE 4096ul

static int (*init)(unsigned), (*device_get)(int *, int), (*retain)(void **, int), (*set_current)(void *);
static int (*driver_host_alloc)(void **, size_t, unsigned), (*driver_free_host)(void *);
static int (*malloc_host)(void **, size_t), (*host_alloc)(void **, size_t, unsigned), (*free_host)(void *);
static int (*host_register)(void *, size_t, unsigned), (*host_unregister)(void *);
static int (*malloc_managed)(void **, size_t, unsigned), (*cuda_free)(void *);
static int (*malloc_async)(void **, size_t, void *), (*free_async)(void *, void *);

static void *context;
static size_t pool_bytes;
static int steps, checkpoints;
static int line_of[SITES];
static atomic_ulong live[SITES];
static pthread_barrier_t meeting;

struct slot {
    void *at;
    size_t size;
    int site;
};

static void checked(int result, const char *what)
{
    if (result) {
        fprintf(stderr, "%s failed: CUDA error %d\n", what, result);
        exit(1);
    }
}

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// Each call has a line of its own.
__attribute__((noinline)) static void *make(int site, size_t size)
{
    void *at = NULL;
    int result = 0;
    if (site == 6 || site == 7)
        at = aligned_alloc(PAGE, size);
    // clang-format off
    switch (site) {
    case 0: line_of[0] = __LINE__, result = malloc_host(&at, size); break;
    case 1: line_of[1] = __LINE__, result = malloc_host(&at, size); break;
    case 2: line_of[2] = __LINE__, result = host_alloc(&at, size, 0); break;
    case 3: line_of[3] = __LINE__, result = host_alloc(&at, size, 1); break;
    case 4: line_of[4] = __LINE__, result = driver_host_alloc(&at, size, 0); break;
    case 5: line_of[5] = __LINE__, result = driver_host_alloc(&at, size, 1); break;
    case 6: line_of[6] = __LINE__, result = host_register(at, size, 0); break;
    case 7: line_of[7] = __LINE__, result = host_register(at, size, 1); break;
    case 8: line_of[8] = __LINE__, result = malloc_managed(&at, size, 1); break;
    default: line_of[9] = __LINE__, result = malloc_async(&at, size, NULL); break;
    }
    // clang-format on
    checked(result, "an allocation");
    return at;
}

static void give_back(const struct slot *slot)
{
    int result;
    if (slot->site <= 3)
        result = free_host(slot->at);
    else if (slot->site <= 5)
        result = driver_free_host(slot->at);
    else if (slot->site <= 7)
        result = host_unregister(slot->at);
    else
        result = slot->site == 8 ? cuda_free(slot->at) : free_async(slot->at, NULL);
    checked(result, "giving back");
    if (slot->site == 6 || slot->site == 7)
        free(slot->at);
    atomic_fetch_sub(&live[slot->site], slot->size);
}

static void *works(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;
    struct slot slots[SLOTS];
    int held = 0;
    checked(set_current(context), "cuCtxSetCurrent");
    for (int round = 0; round < checkpoints; round++) {
        for (int step = 0; step < steps; step++) {
            if (held == SLOTS || (held && next(&state) % 100 < 45)) {
                int which = (int)(next(&state) % (unsigned)held);
                give_back(&slots[which]);
                slots[which] = slots[--held];
            } else {
                struct slot *slot = &slots[held++];
                slot->site = (int)(next(&state) % SITES);
                slot->size = (1 + next(&state) % 512) * PAGE;
                if (slot->site == 9 && pool_bytes)
                    slot->size = pool_bytes;
                slot->at = make(slot->site, slot->size);
                atomic_fetch_add(&live[slot->site], slot->size);
            }
            usleep(400);
        }
        pthread_barrier_wait(&meeting);
        pthread_barrier_wait(&meeting);
    }
    return NULL;
}

static void *found(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "CUDA has no %s\n", name);
        exit(1);
    }
    return function;
}

static void *opened(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

static void find_functions(const char *runtime_path)
{
    void *driver = opened("libcuda.so.1"), *runtime = opened(runtime_path);
    *(void **)&init = found(driver, "cuInit");
    *(void **)&device_get = found(driver, "cuDeviceGet");
    *(void **)&retain = found(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set_current = found(driver, "cuCtxSetCurrent");
    *(void **)&driver_host_alloc = found(driver, "cuMemHostAlloc");
    *(void **)&driver_free_host = found(driver, "cuMemFreeHost");
    *(void **)&malloc_host = found(runtime, "cudaMallocHost");
    *(void **)&host_alloc = found(runtime, "cudaHostAlloc");
    *(void **)&free_host = found(runtime, "cudaFreeHost");
    *(void **)&host_register = found(runtime, "cudaHostRegister");
    *(void **)&host_unregister = found(runtime, "cudaHostUnregister");
    *(void **)&malloc_managed = found(runtime, "cudaMallocManaged");
    *(void **)&cuda_free = found(runtime, "cudaFree");
    *(void **)&malloc_async = found(runtime, "cudaMallocAsync");
    *(void **)&free_async = found(runtime, "cudaFreeAsync");
}

int main(int count, char **arguments)
{
    if (count != 6)
        return 2;
    find_functions(arguments[1]);
    unsigned seed = (unsigned)atoi(arguments[2]);
    steps = atoi(arguments[3]);
    checkpoints = atoi(arguments[4]);
    pool_bytes = strtoul(arguments[5], NULL, 10);
    int device = 0;
    checked(init(0), "cuInit");
    checked(device_get(&device, 0), "cuDeviceGet");
    checked(retain(&context, device), "cuDevicePrimaryCtxRetain");
    checked(set_current(context), "cuCtxSetCurrent");
    pthread_t threads[THREADS];
    pthread_barrier_init(&meeting, NULL, THREADS + 1);
    for (unsigned number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, works, (void *)(size_t)(seed + 7919 * number));
    for (int round = 0; round < checkpoints; round++) {
        char name[32];
        pthread_barrier_wait(&meeting);
        snprintf(name, sizeof name, "checkpoint %d", round);
        usleep(1000);
        nvtxMarkA(name);
        usleep(1000);
        printf("%s:", name);
        for (int site = 0; site < SITES; site++)
            if (line_of[site])
                printf(" %d=%lu", line_of[site], atomic_load(&live[site]));
        printf("\n");
        pthread_barrier_wait(&meeting);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    return 0;
}
