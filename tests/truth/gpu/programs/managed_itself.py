"""A program that records itself: managed memory goes to the GPU by prefetch, and back by touch.

    python managed_itself.py CAPTURE MIB

It prints what it moved, as managed.cu does.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

import pinprof

CUDA = ctypes.CDLL("libcuda.so.1")
GLOBAL = 1
PAGE = 4096


def check(status: int) -> None:
    if status:
        sys.exit(f"CUDA error {status}")


def main() -> None:
    """One way and back."""
    size = int(sys.argv[2]) << 20
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    check(CUDA.cuInit(0))
    check(CUDA.cuDeviceGet(ctypes.byref(device), 0))
    check(CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(CUDA.cuCtxSetCurrent(context))
    check(CUDA.cuMemAllocManaged(ctypes.byref(memory), ctypes.c_size_t(size), GLOBAL))
    ctypes.memset(memory.value, 1, size)
    with pinprof.record(output=sys.argv[1], gpu="uvm", force=True, calibrate=False):
        time.sleep(0.3)  # the follower finds the descriptor within a few hundredths of a second
        begun = time.monotonic()
        check(CUDA.cuMemPrefetchAsync(memory, ctypes.c_size_t(size), device, None))
        check(CUDA.cuCtxSynchronize())
        right = all(ctypes.c_uint8.from_address(memory.value + at).value == 1 for at in range(0, size, PAGE))
        seconds = time.monotonic() - begun
    print(json.dumps({"seconds": seconds, "bytes_each_way": size, "prefetched": size, "right": right}))


if __name__ == "__main__":
    main()
