// Copies the same buffer of malloc to the GPU in every step: the driver stages pageable memory.
#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
int main(int argc, char **argv)
{
    bool cured = argc > 1 && !strcmp(argv[1], "cured");
    const size_t bytes = 64 << 20;
    char *host = nullptr, *device = nullptr;
    if (cured)
        cudaMallocHost(&host, bytes);
    else
        host = static_cast<char *>(malloc(bytes));
    cudaMalloc(&device, bytes);
    memset(host, 1, bytes);
    auto begun = std::chrono::steady_clock::now();
    for (int step = 0; step < 200; step++) {
        host[step] = static_cast<char>(step);
        cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice); // GUILTY
    }
    cudaDeviceSynchronize();
    printf("seconds %f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}
