// Fills a ring of pinned buffers, and copies each on a stream of its own while the next is filled.
#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstring>
__global__ void add(float *values, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        values[i] += 1;
}
int main()
{
    const size_t count = 4 << 20, bytes = count * sizeof(float);
    const int slots = 4;
    float *host[slots], *device[slots];
    cudaStream_t stream[slots];
    for (int i = 0; i < slots; i++) {
        cudaMallocHost(&host[i], bytes);
        cudaMalloc(&device[i], bytes);
        cudaStreamCreate(&stream[i]);
    }
    auto begun = std::chrono::steady_clock::now();
    for (int step = 0; step < 400; step++) {
        int i = step % slots;
        cudaStreamSynchronize(stream[i]);
        memset(host[i], step, bytes);
        cudaMemcpyAsync(device[i], host[i], bytes, cudaMemcpyHostToDevice, stream[i]);
        add<<<(count + 255) / 256, 256, 0, stream[i]>>>(device[i], count);
    }
    cudaDeviceSynchronize();
    printf("seconds %f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}
