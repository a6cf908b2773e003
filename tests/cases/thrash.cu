// The CPU and the GPU change the same managed memory in turns; its pages move there and back in every step.
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
int main(int argc, char **argv)
{
    bool cured = argc > 1 && !strcmp(argv[1], "cured");
    const size_t count = 16 << 20, bytes = count * sizeof(float);
    float *shared = nullptr, *device = nullptr; // cured: `shared` is pinned, and copied there and back
    if (cured)
        cudaMallocHost(&shared, bytes), cudaMalloc(&device, bytes);
    else
        cudaMallocManaged(&shared, bytes);
    memset(shared, 0, bytes);
    cudaDeviceSynchronize();
    auto begun = std::chrono::steady_clock::now();
    for (int step = 0; step < 20; step++) {
        if (cured)
            cudaMemcpyAsync(device, shared, bytes, cudaMemcpyHostToDevice, 0);
        add<<<(count + 255) / 256, 256>>>(cured ? device : shared, count);
        if (cured)
            cudaMemcpyAsync(shared, device, bytes, cudaMemcpyDeviceToHost, 0);
        cudaDeviceSynchronize(); // GUILTY
        for (size_t i = 0; i < count; i += 16)
            shared[i] *= 2; // GUILTY
    }
    printf(
        "seconds %f %g\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(), shared[0]);
}
