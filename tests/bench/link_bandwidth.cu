// What a plain program gets from the link: pinned copies both ways, timed on the device.
//
//     nvcc -O2 -o link_bandwidth link_bandwidth.cu && ./link_bandwidth [MIB [COPIES]]
//
// Prints the median and the best rate of each direction in decimal GB/s, one direction a line: `h2d 55.41 55.52`.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void check(cudaError_t code, const char *call)
{
    if (code == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
    std::exit(1);
}
#define CHECK(call) check((call), #call)

int main(int argc, char **argv)
{
    const int mebibytes = argc > 1 ? std::atoi(argv[1]) : 256, copies = argc > 2 ? std::atoi(argv[2]) : 20;
    if (mebibytes < 1 || copies < 1) {
        std::fprintf(stderr, "usage: link_bandwidth [MIB [COPIES]]\n");
        return 2;
    }
    const size_t size = static_cast<size_t>(mebibytes) << 20;
    void *host = nullptr, *device = nullptr;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CHECK(cudaMallocHost(&host, size));
    CHECK(cudaMalloc(&device, size));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::memset(host, 1, size);

    const struct {
        const char *name;
        cudaMemcpyKind kind;
    } ways[] = {
        {"h2d", cudaMemcpyHostToDevice},
        {"d2h", cudaMemcpyDeviceToHost},
    };
    for (const auto &way : ways) {
        void *to = way.kind == cudaMemcpyHostToDevice ? device : host;
        void *from = way.kind == cudaMemcpyHostToDevice ? host : device;
        std::vector<double> rates;
        for (int copy = -2; copy < copies; ++copy) {
            float milliseconds = 0;
            CHECK(cudaEventRecord(begin, stream));
            CHECK(cudaMemcpyAsync(to, from, size, way.kind, stream));
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaEventSynchronize(end));
            CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            // The first two wake the link up.
            if (copy >= 0)
                rates.push_back(size / (milliseconds * 1e6));
        }
        std::sort(rates.begin(), rates.end());
        std::printf("%s %.2f %.2f\n", way.name, rates[rates.size() / 2], rates.back());
    }

    CHECK(cudaEventDestroy(end));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
    return 0;
}
