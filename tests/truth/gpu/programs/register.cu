/* Memory that the program has is pinned for each copy, and unpinned after it: `register [TIMES]`. */
#include "result.h"
#include <cuda_runtime.h>
#include <string.h>

int main(int count, char **words)
{
    long long begun = now_ns();
    int times = count > 1 ? atoi(words[1]) : 40;
    size_t size = 64 << 20;
    char *host = (char *)aligned_alloc(4096, size);
    void *device;
    memset(host, 1, size);
    if (cudaMalloc(&device, size))
        return 1;
    long long first = now_ns();
    for (int time = 0; time < times; time++) {
        if (cudaHostRegister(host, size, cudaHostRegisterDefault) ||
            cudaMemcpy(device, host, size, cudaMemcpyHostToDevice) || cudaHostUnregister(host))
            return 1;
    }
    say(begun, times, now_ns() - first);
    return 0;
}
