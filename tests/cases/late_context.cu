// The timed work makes the first call of CUDA, which creates the context.
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
    const size_t count = 16 << 20;
    float *values = nullptr;
    if (argc > 1 && !strcmp(argv[1], "cured"))
        cudaFree(nullptr); // before the work
    auto begun = std::chrono::steady_clock::now();
    cudaMalloc(&values, count * sizeof(float)); // GUILTY
    cudaMemset(values, 0, count * sizeof(float));
    for (int step = 0; step < 2000; step++)
        add<<<(count + 255) / 256, 256>>>(values, count);
    cudaDeviceSynchronize();
    printf("seconds %f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}
