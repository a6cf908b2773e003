// Managed memory goes to the GPU and back, so many times by touch and once by prefetch; says what it moved.
//
//     managed MIB ROUNDS [wait]
//
// With `wait` it has its memory and a context before it prints `ready`, and goes on at a line of input.
#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void add(unsigned *values, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        values[i] += 1;
}

static void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

static unsigned long long sum(const unsigned *values, size_t count)
{
    unsigned long long total = 0;
    for (size_t i = 0; i < count; ++i)
        total += values[i];
    return total;
}

int main(int argc, char **argv)
{
    const size_t bytes = (size_t)atol(argc > 1 ? argv[1] : "64") << 20, count = bytes / sizeof(unsigned);
    const int rounds = atoi(argc > 2 ? argv[2] : "3");
    unsigned *values;
    check(cudaMallocManaged(&values, bytes), "cudaMallocManaged");
    memset(values, 0, bytes);
    if (argc > 3) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    auto begun = std::chrono::steady_clock::now();
    unsigned long long total = 0;
    for (int round = 0; round <= rounds; ++round) {
        if (round == rounds) {
            cudaMemLocation gpu{cudaMemLocationTypeDevice, 0};
            check(cudaMemPrefetchAsync(values, bytes, gpu, 0, 0), "cudaMemPrefetchAsync");
        }
        add<<<(count + 255) / 256, 256>>>(values, count);
        check(cudaDeviceSynchronize(), "add");
        total += sum(values, count);
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    bool right = total == (unsigned long long)count * (rounds + 1) * (rounds + 2) / 2;
    printf("{\"seconds\": %f, \"bytes_each_way\": %zu, \"prefetched\": %zu, \"right\": %s}\n", seconds,
        bytes * (rounds + 1), bytes, right ? "true" : "false");
    return !right;
}
