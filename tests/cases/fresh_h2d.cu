// Every step fills a new buffer of 64 MiB, copies it to the GPU and frees it.
#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
int main(int argc, char **argv)
{
    bool cured = argc > 1 && !strcmp(argv[1], "cured");
    const size_t bytes = 64 << 20;
    void *kept = nullptr, *device = nullptr;
    if (cured)
        cudaMallocHost(&kept, bytes);
    cudaMalloc(&device, bytes);
    auto begun = std::chrono::steady_clock::now();
    for (int step = 0; step < 50; step++) {
        void *host = cured ? kept : malloc(bytes);
        memset(host, step, bytes);                               // GUILTY
        cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice); // GUILTY
        if (!cured)
            free(host);
    }
    cudaDeviceSynchronize();
    printf("seconds %f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}
