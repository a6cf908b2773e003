// A kernel is the first to touch managed memory that the host has filled: the GPU faults on every piece.
#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>
__global__ void add(float *values, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        values[i] += 1;
}
int main(int argc, char **argv)
{
    bool cured = argc > 1 && !strcmp(argv[1], "cured");
    const size_t count = 64 << 20, bytes = count * sizeof(float);
    std::vector<float *> batches(6);
    for (auto &batch : batches)
        cudaMallocManaged(&batch, bytes), memset(batch, 0, bytes);
    cudaMemLocation gpu{cudaMemLocationTypeDevice, 0};
    cudaDeviceSynchronize();
    auto begun = std::chrono::steady_clock::now();
    for (auto batch : batches) {
        if (cured)
            cudaMemPrefetchAsync(batch, bytes, gpu, 0, 0);
        add<<<(count + 255) / 256, 256>>>(batch, count); // GUILTY
        cudaDeviceSynchronize();                         // GUILTY
    }
    printf("seconds %f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}
