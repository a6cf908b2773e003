"""Copies from every kind of memory through the stand-ins for CUDA's libraries; each line's have a size of their own.

`cuda_program.py FOLDER FILE`; the lines that call CUDA end in a comment that names them.
"""

import ctypes
import mmap
import sys
from pathlib import Path

MIB = 1 << 20
driver, runtime = (ctypes.CDLL(f"{sys.argv[1]}/{name}") for name in ("libcuda.so.1", "libcudart.so.13"))
P, N = ctypes.c_void_p, ctypes.c_size_t


def granted(function, *more):
    place = P()
    assert function(ctypes.byref(place), N(MIB), *more) == 0
    return place.value


def from_pageable(device, source):
    driver.cuMemcpyHtoD_v2(P(device), P(source), N(1001))  # pageable


def from_pinned(device, source):
    runtime.cudaMemcpy(P(device), P(source), N(1002), 1)  # pinned


def to_registered(device, target):
    driver.cuMemcpyDtoH_v2(P(target), P(device), N(1003))  # registered


def wait():
    driver.cuCtxSynchronize()  # wait


driver.cuInit(0)
device = granted(driver.cuMemAlloc_v2)
pinned = granted(runtime.cudaMallocHost)
managed = granted(driver.cuMemAllocManaged, 1)
reserved = granted(driver.cuMemReserve)
plain = ctypes.addressof(keep := ctypes.create_string_buffer(2 * MIB))
with Path(sys.argv[2]).open("rb") as file:
    weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
mapped = ctypes.addressof(ctypes.c_char.from_buffer(weights))
for _ in range(20_000):
    from_pageable(device, plain)
for _ in range(20_000):
    from_pinned(device, pinned + 64)
driver.cuMemHostRegister_v2(P(plain), N(MIB), 0)
for _ in range(20_000):
    to_registered(device, plain + 128)
for _ in range(230):
    wait()
driver.cuMemcpyHtoD_v2(P(device), P(plain + MIB), N(1004))
driver.cuMemHostUnregister(P(plain))
driver.cuMemcpyHtoD_v2(P(device), P(plain), N(1005))
driver.cuMemcpyHtoD_v2(P(managed), P(mapped), N(1006))
driver.cuMemcpyAsync(P(reserved), P(mapped), N(1007), None)
driver.cuMemcpyAsync(P(pinned), P(reserved), N(1008), None)
driver.cuMemcpy(P(plain), P(managed), N(1009))
driver.cuMemFreeHost(P(pinned))
