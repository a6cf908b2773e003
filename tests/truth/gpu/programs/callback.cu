/* A short program: streams that copy, work, and call a function of the host when that is done. */
#include "result.h"
#include <cuda_runtime.h>

__global__ void add_one(int *values, int count)
{
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count)
        values[place]++;
}

static void CUDART_CB done(void *values)
{
    if (*(int *)values != 1)
        abort();
}

int main()
{
    long long begun = now_ns();
    const int count = 1 << 20, streams = 8;
    cudaStream_t stream[streams];
    int *host[streams], *device[streams];
    for (int one = 0; one < streams; one++) {
        size_t size = count * sizeof(int);
        if (cudaStreamCreate(&stream[one]) || cudaMallocHost(&host[one], size) || cudaMalloc(&device[one], size))
            return 1;
        cudaMemsetAsync(device[one], 0, size, stream[one]);
        add_one<<<count / 256, 256, 0, stream[one]>>>(device[one], count);
        cudaMemcpyAsync(host[one], device[one], size, cudaMemcpyDeviceToHost, stream[one]);
        cudaLaunchHostFunc(stream[one], done, host[one]);
    }
    if (cudaDeviceSynchronize())
        return 1;
    say(begun, streams, now_ns() - begun);
    return 0;
}
