// Managed memory that is prefetched to where it is used next, and seldom moves.
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
    const size_t count = 32 << 20, bytes = count * sizeof(float);
    float *values = nullptr;
    cudaMemLocation host{cudaMemLocationTypeHost, 0}, gpu{cudaMemLocationTypeDevice, 0};
    cudaMallocManaged(&values, bytes);
    memset(values, 0, bytes);
    double total = 0;
    auto begun = std::chrono::steady_clock::now();
    for (int step = 0; step < 4; step++) {
        cudaMemPrefetchAsync(values, bytes, gpu, 0, 0);
        for (int i = 0; i < 3000; i++)
            add<<<(count + 255) / 256, 256>>>(values, count);
        cudaMemPrefetchAsync(values, bytes, host, 0, 0);
        cudaDeviceSynchronize();
        for (size_t i = 0; i < count; i += 1024)
            total += values[i];
    }
    printf("seconds %f %g\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(), total);
}
