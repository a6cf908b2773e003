/* Launches of a kernel that does nothing, one by one: `kernels [COUNT]`. */
#include "result.h"
#include <cuda_runtime.h>

__global__ void nothing(int) {}

int main(int argc, char **argv)
{
    long long begun = now_ns(), count = argc > 1 ? atoll(argv[1]) : 200000;
    nothing<<<1, 32>>>(0);
    if (cudaDeviceSynchronize())
        return 1;
    long long first = now_ns();
    for (long long i = 0; i < count; i++)
        nothing<<<1, 32>>>((int)i);
    long long called = now_ns() - first;
    int status = cudaDeviceSynchronize();
    say(begun, count, called);
    return status != 0;
}
