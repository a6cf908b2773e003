// One thread pins memory while another serves requests that map, touch and pin a little.
//
// usage: blame whole|pieces|pin|serve [SECONDS]
//   whole   both threads, 2 GiB pinned in one call, again and again; requests begin while that goes on, and only then,
//           so that the pinning call alone can hold them up: not what gives the memory back
//   pieces  the same in pieces of 16 MiB
//   pin     the pinning thread alone, in one call; serve: the serving thread alone, for two processes
// It asks the driver itself (libcuda.so.1), so gcc builds it: gcc -O1 -g -fno-omit-frame-pointer -pthread blame.c -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WHOLE (2ul << 30)
#define PIECE (16ul << 20)
#define SMALL (64ul << 10)

static int (*init)(unsigned), (*device_get)(int *, int), (*retain)(void **, int), (*set_current)(void *);
static int (*host_alloc)(void **, size_t, unsigned), (*free_host)(void *);
static void *context;
static double seconds = 8;
static size_t each = WHOLE;
static atomic_int stop, quiet;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void checked(int result, const char *what)
{
    if (result) {
        fprintf(stderr, "%s failed: CUDA error %d\n", what, result);
        exit(1);
    }
}

static void *found(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "libcuda.so.1 has no %s\n", name);
        exit(1);
    }
    return function;
}

__attribute__((noinline)) static void *pin_one(size_t size)
{
    void *memory = NULL;
    int result = host_alloc(&memory, size, 0); // the pinning call
    checked(result, "cuMemHostAlloc");
    return memory;
}

__attribute__((noinline)) static void *pins(void *unused)
{
    static void *held[WHOLE / PIECE];
    checked(set_current(context), "cuCtxSetCurrent");
    int rounds = 0;
    for (double end = now() + seconds; now() < end; rounds++) {
        size_t count = WHOLE / each;
        atomic_store(&quiet, 0);
        for (size_t piece = 0; piece < count; piece++)
            held[piece] = pin_one(each);
        atomic_store(&quiet, 1);
        usleep(200000); // the last request ends
        for (size_t piece = 0; piece < count; piece++)
            checked(free_host(held[piece]), "cuMemFreeHost");
        usleep(100000);
    }
    printf("pinned %d times\n", rounds);
    atomic_store(&stop, 1);
    return unused;
}

__attribute__((noinline)) static void request(void)
{
    void *pinned = NULL;
    char *memory = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, SMALL);
    munmap(memory, SMALL);
    checked(host_alloc(&pinned, SMALL, 0), "cuMemHostAlloc");
    checked(free_host(pinned), "cuMemFreeHost");
}

__attribute__((noinline)) static void *serves(void *unused)
{
    checked(set_current(context), "cuCtxSetCurrent");
    double longest = 0, total = 0;
    long count = 0;
    for (double end = now() + seconds; !atomic_load(&stop) && now() < end;) {
        if (atomic_load(&quiet)) {
            usleep(500);
            continue;
        }
        double begin = now();
        request();
        double took = now() - begin;
        total += took;
        if (took > longest)
            longest = took;
        count++;
        usleep(2000);
    }
    printf("%ld requests, %.3f ms on average, %.3f ms at most\n", count, 1e3 * total / count, 1e3 * longest);
    return unused;
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "whole";
    if (count > 2)
        seconds = atof(arguments[2]);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&init = found(library, "cuInit");
    *(void **)&device_get = found(library, "cuDeviceGet");
    *(void **)&retain = found(library, "cuDevicePrimaryCtxRetain");
    *(void **)&set_current = found(library, "cuCtxSetCurrent");
    *(void **)&host_alloc = found(library, "cuMemHostAlloc");
    *(void **)&free_host = found(library, "cuMemFreeHost");
    int device = 0;
    checked(init(0), "cuInit");
    checked(device_get(&device, 0), "cuDeviceGet");
    checked(retain(&context, device), "cuDevicePrimaryCtxRetain");
    if (!strcmp(mode, "pieces"))
        each = PIECE;
    printf("ready\n");
    fflush(stdout);
    pthread_t pinning, serving;
    int pin = strcmp(mode, "serve") != 0, serve = strcmp(mode, "pin") != 0;
    if (pin)
        pthread_create(&pinning, NULL, pins, NULL);
    if (serve)
        pthread_create(&serving, NULL, serves, NULL);
    if (pin)
        pthread_join(pinning, NULL);
    if (serve)
        pthread_join(serving, NULL);
    return 0;
}
