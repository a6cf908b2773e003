/* What CUDA 12.8 and 13 brought: batched copies, pools of device and host memory, physical memory that is mapped.
 *
 * `batches [TURNS]`; a call that this driver or machine does not know is left out, and said.
 */
#include "result.h"
#include <cuda.h>
#include <cuda_runtime.h>

enum { PIECES = 200 };
static const size_t PIECE = 16384;

static void said(const char *what, int status)
{
    if (status)
        printf("%s: %d\n", what, status);
}

static int copy_batch(char *device, char *host, cudaStream_t stream)
{
    const void *from[PIECES];
    void *to[PIECES];
    size_t sizes[PIECES], first = 0;
    for (int i = 0; i < PIECES; i++) {
        from[i] = host + i * PIECE;
        to[i] = device + i * PIECE;
        sizes[i] = PIECE - (size_t)(i % 4) * 1024;
    }
    struct cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync(to, from, sizes, PIECES, &attributes, &first, 1, stream);
#elif CUDART_VERSION >= 12080
    size_t failed;
    return cudaMemcpyBatchAsync(to, (void **)from, sizes, PIECES, &attributes, &first, 1, &failed, stream);
#else
    (void)stream, (void)first;
    return cudaErrorNotSupported;
#endif
}

static int pool_at(enum cudaMemLocationType where, cudaStream_t stream)
{
    struct cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = where;
    cudaMemPool_t pool;
    void *memory;
    int status = cudaMemPoolCreate(&pool, &properties);
    if (!status)
        status = cudaMallocFromPoolAsync(&memory, 8 << 20, pool, stream);
    if (!status)
        status = cudaFreeAsync(memory, stream);
    cudaStreamSynchronize(stream);
    return status;
}

static int physical(void)
{
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    size_t size = 32 << 20;
    int status = cuMemCreate(&handle, size, &properties, 0);
    if (!status)
        status = cuMemAddressReserve(&address, size, 0, 0, 0);
    if (!status)
        status = cuMemMap(address, size, 0, handle, 0);
    if (!status)
        status = cuMemUnmap(address, size) | cuMemAddressFree(address, size) | cuMemRelease(handle);
    return status;
}

int main(int argc, char **argv)
{
    long long begun = now_ns(), turns = argc > 1 ? atoll(argv[1]) : 50;
    char *host, *device;
    cudaStream_t stream;
    if (cudaMallocHost((void **)&host, PIECES * PIECE) || cudaMalloc((void **)&device, PIECES * PIECE) ||
        cudaStreamCreate(&stream))
        return 1;
    int status = 0;
    long long first = now_ns();
    for (long long turn = 0; turn < turns && !status; turn++)
        status = copy_batch(device, host, stream);
    long long called = now_ns() - first;
    said("cudaMemcpyBatchAsync", status);
    said("a pool of the device", pool_at(cudaMemLocationTypeDevice, stream));
#if CUDART_VERSION >= 12020
    said("a pool of the host", pool_at(cudaMemLocationTypeHost, stream));
    said("a pool of a NUMA node", pool_at(cudaMemLocationTypeHostNuma, stream));
#endif
    said("physical memory", physical());
    status = cudaDeviceSynchronize();
    say(begun, turns, called);
    return status != 0;
}
