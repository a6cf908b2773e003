/* Managed memory that a kernel writes and the host reads, three times: `read_back [MIB]`. */
#include "result.h"
#include <cuda_runtime.h>

__global__ void edit(unsigned *data, size_t count)
{
    size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (at < count)
        data[at] += 1;
}

int main(int argc, char **argv)
{
    long long begun = now_ns();
    size_t size = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20, count = size / sizeof(unsigned);
    unsigned *data, sum = 0;
    if (cudaMallocManaged((void **)&data, size))
        return 1;
    for (size_t i = 0; i < count; i++)
        data[i] = 1;
    long long first = now_ns();
    for (int turn = 0; turn < 3; turn++) {
        edit<<<(unsigned)((count + 255) / 256), 256>>>(data, count);
        if (cudaDeviceSynchronize())
            return 1;
        for (size_t i = 0; i < count; i += 1024)
            sum += data[i];
    }
    say(begun, 3, now_ns() - first);
    return sum != (2 + 3 + 4) * (unsigned)(count / 1024);
}
