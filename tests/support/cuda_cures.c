/*
 * A program that uses CUDA's runtime, and a stand-in for that runtime, which finds the driver as libcudart does:
 * dlopen, dlsym of cuGetProcAddress_v2, and that one for all others. With -DPROGRAM or -DRUNTIME one of the two alone;
 * without, the runtime is linked statically.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cudaMallocHost(void **start, size_t size);
int cudaFreeHost(void *start);
int cudaMalloc(void **start, size_t size);
int cudaMemcpyToDevice(void *to, const void *from, size_t size);
int cudaMemcpyFromDeviceAsync(void *to, const void *from, size_t size);

#ifndef PROGRAM
static void *driver(const char *name, int version)
{
    static int (*get)(const char *, void **, int, uint64_t, int *);
    void *found = NULL;
    if (!get) {
        void *first = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
        ((int (*)(const char *, void **, int, uint64_t, int *))first)("cuGetProcAddress", &found, 12000, 0, NULL);
        *(void **)&get = found;
    }
    get(name, &found, version, PER_THREAD, NULL);
    return found;
}

int cudaMallocHost(void **start, size_t size)
{
    return ((int (*)(void **, size_t, unsigned))driver("cuMemHostAlloc", 2020))(start, size, 0);
}

int cudaFreeHost(void *start) { return ((int (*)(void *))driver("cuMemFreeHost", 2000))(start); }

int cudaMalloc(void **start, size_t size)
{
    return ((int (*)(void **, size_t))driver("cuMemAlloc", 3020))(start, size);
}

int cudaMemcpyToDevice(void *to, const void *from, size_t size)
{
    return ((int (*)(void *, const void *, size_t))driver("cuMemcpyHtoD", 7000))(to, from, size);
}

int cudaMemcpyFromDeviceAsync(void *to, const void *from, size_t size)
{
    return ((int (*)(void *, const void *, size_t, void *))driver("cuMemcpyDtoHAsync", 7000))(to, from, size, NULL);
}
#endif

#ifndef RUNTIME
int main(void)
{
    size_t size = 9 << 20;
    char *pinned = NULL, *again = NULL, *device, *from = malloc(size), *to = malloc(size);
    memset(from, 7, size);
    memset(to, 0, size);
    int answer = cudaMallocHost((void **)&pinned, size);
    pinned[size - 1] = 1;
    answer |= cudaFreeHost(pinned) | cudaMallocHost((void **)&again, size) | cudaFreeHost(again);
    answer |= cudaMalloc((void **)&device, size) | cudaMemcpyToDevice(device, from, size);
    answer |= cudaMemcpyFromDeviceAsync(to, device, size);
    int (*count)(const char *) = (int (*)(const char *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_count");
    printf("answer %d reused %d same %d\n", answer, pinned == again, !memcmp(from, to, size));
    printf("register %d allocate %d pageable %d\n", count("cuMemHostRegister_v2"), count("cuMemHostAlloc"),
        count("cuMemcpyHtoD_v2") + count("cuMemcpyHtoD_v2_ptds"));
    return 0;
}
#endif
