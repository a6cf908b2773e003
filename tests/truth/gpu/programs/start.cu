/* What starting CUDA takes: a call is cuInit, the whole is everything up to the first allocation. */
#include "result.h"
#include <cuda.h>

int main()
{
    long long begun = now_ns();
    CUresult status = cuInit(0);
    long long first = now_ns() - begun;
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    if (status || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context) ||
        cuMemAlloc(&memory, 1 << 20))
        return 1;
    say(begun, 1, first);
    return 0;
}
