/* Copies of 4 KiB of pinned memory to the GPU, one by one: `copies [COUNT]`. */
#include "result.h"
#include <cuda_runtime.h>
#include <string.h>

int main(int argc, char **argv)
{
    long long begun = now_ns(), count = argc > 1 ? atoll(argv[1]) : 200000;
    const size_t size = 4096, places = 4096;
    char *host, *device;
    if (cudaMallocHost((void **)&host, size * places) || cudaMalloc((void **)&device, size * places))
        return 1;
    memset(host, 1, size * places);
    long long first = now_ns();
    for (long long i = 0; i < count; i++)
        cudaMemcpyAsync(device + i % places * size, host + i % places * size, size, cudaMemcpyHostToDevice, 0);
    long long called = now_ns() - first;
    int status = cudaDeviceSynchronize();
    say(begun, count, called);
    return status != 0;
}
