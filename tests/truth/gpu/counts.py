"""Whether every call of a program is counted: two runs of each program differ by exactly what the second does more.

usage: python -m tests.truth.gpu.counts OUT [--more 20000] [--nsys]

Each program copies a block to the GPU and launches a kernel COUNT times, through C++ with either form of the runtime,
the driver's API, cuda-python, PyTorch, CuPy or JAX. It runs with 1,000 and with so many more; libraries' own copies at
the start are the same in both, so the difference of the recorded calls and bytes has to be the difference of the
programs. `--nsys`: the same of nsys's record of the GPU's work. Writes OUT/counts.md; status 1 where a count differs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pinprof import read
from tests.truth.gpu import runs
from tests.truth.gpu.table import Table
from tests.truth.gpu.work import of_export

SIZE, FEW = 20_480, 1_000
COLUMNS = ("program", "what", "the program", "pinprof", "nsys", "holds")
RUNTIME = """
#include <cuda_runtime.h>
#include <stdlib.h>
__global__ void kernel(char *x) { x[threadIdx.x] += 1; }
int main(int argc, char **argv)
{
    char *host, *device;
    cudaMallocHost((void **)&host, SIZE);
    cudaMalloc((void **)&device, SIZE);
    for (long i = atol(argv[1]); i; i--) {
        cudaMemcpyAsync(device, host, SIZE, cudaMemcpyHostToDevice, 0);
        kernel<<<1, 32>>>(device);
    }
    return cudaDeviceSynchronize() || !kernel;
}
"""
DRIVER = """
#include <cuda.h>
#include <stdlib.h>
static const char *PTX = ".version 7.0\\n.target sm_50\\n.address_size 64\\n.visible .entry kernel() { ret; }\\n";
int main(int argc, char **argv)
{
    CUdevice gpu; CUcontext context; CUmodule module; CUfunction kernel; CUdeviceptr device; void *host;
    if (cuInit(0) || cuDeviceGet(&gpu, 0) || cuDevicePrimaryCtxRetain(&context, gpu) || cuCtxSetCurrent(context))
        return 1;
    if (cuModuleLoadData(&module, PTX) || cuModuleGetFunction(&kernel, module, "kernel"))
        return 2;
    if (cuMemAlloc(&device, SIZE) || cuMemAllocHost(&host, SIZE))
        return 3;
    for (long i = atol(argv[1]); i; i--) {
        cuMemcpyHtoDAsync(device, host, SIZE, NULL);
        cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    }
    return cuCtxSynchronize();
}
"""
PYTHON = {
    "PyTorch": """
import torch
host, device = torch.ones(SIZE // 4).pin_memory(), torch.empty(SIZE // 4, device="cuda")
for _ in range(COUNT):
    device.copy_(host, non_blocking=True)
    device.add_(1)
torch.cuda.synchronize()
""",
    "CuPy": """
import cupy, numpy
host, device = numpy.ones(SIZE // 4, "f4"), cupy.empty(SIZE // 4, "f4")
for _ in range(COUNT):
    device.set(host)
    device += 1
cupy.cuda.Device().synchronize()
""",
    "JAX": """
import os
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax, numpy
host, step = numpy.ones(SIZE // 4, "f4"), jax.jit(lambda x: x + 1)
for _ in range(COUNT):
    y = step(jax.device_put(host))
y.block_until_ready()
""",
    "cuda-python": """
import numpy
from cuda.bindings import runtime as cuda
host = numpy.ones(SIZE // 4, "f4")
_, device = cuda.cudaMalloc(SIZE)
for _ in range(COUNT):
    cuda.cudaMemcpy(device, host.ctypes.data, SIZE, cuda.cudaMemcpyKind.cudaMemcpyHostToDevice)
""",
}
NO_KERNELS = {"cuda-python"}


def programs(folder: Path) -> dict[str, list[str]]:
    """Name → command without the count; the compiled ones are built here."""
    found = {}
    nvcc = os.environ.get("NVCC", "nvcc")
    for name, text, ending, flags in (
        ("runtime, shared", RUNTIME, "cu", ("-cudart", "shared")),
        ("runtime, static", RUNTIME, "cu", ("-cudart", "static")),
        ("driver", DRIVER, "cpp", ("-lcuda",)),
    ):
        place = folder / name.replace(", ", "-")
        source = place.with_suffix(f".{ending}")
        source.write_text(f"#define SIZE {SIZE}\n{text}", "utf-8")
        subprocess.run([nvcc, "-o", str(place), str(source), *flags], check=True)
        found[name] = [str(place)]
    for name, text in PYTHON.items():
        script = folder / f"{name}.py"
        script.write_text(f"import sys\nSIZE, COUNT = {SIZE}, int(sys.argv[1])\n{text}", "utf-8")
        found[name] = [sys.executable, str(script)]
    return found


def counted(capture: Path) -> np.ndarray:
    """Copies, their bytes, launches, of the calls that the capture has."""
    activity = read.read(capture).activity
    if activity is None:
        return np.zeros(3, np.int64)
    calls = activity.calls
    names = np.array([re.match("cu(da)?Memcpy", name) is not None for name in calls.names])
    launches = np.array([re.match("cu(da)?LaunchKernel", name) is not None for name in calls.names])
    copies = names[calls.name]
    size = np.zeros(len(calls), np.int64) if calls.size_bytes is None else calls.size_bytes
    return np.array([copies.sum(), size[copies].sum(), launches[calls.name].sum()])


def of_nsys(export: Path) -> np.ndarray:
    """The same of nsys's record of what the GPU did."""
    work = of_export(export)
    copies = list(work.copies.values())
    return np.array([sum(count for count, _ in copies), sum(size for _, size in copies), work.kernels])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare and write."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.gpu.counts", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--more", type=int, default=20_000)
    parser.add_argument("--nsys", action="store_true")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    table = Table("Calls counted", COLUMNS)
    with tempfile.TemporaryDirectory(prefix="pinprof-counts-") as place:
        for name, command in programs(Path(place)).items():
            compare(table, name, command, given.more, Path(place) / "runs", nsys=given.nsys)
            (given.out / "counts.md").write_text(table.markdown(), "utf-8")
    print(table.markdown())
    return int(any(not row["holds"] for row in table.data))


def compare(table: Table, name: str, command: list[str], more: int, place: Path, *, nsys: bool) -> None:
    """Rows of one program; a program that fails is a note."""
    ours, theirs = [], []
    for count in (FEW, FEW + more):
        one = runs.run(runs.NATIVE, [*command, str(count)], place)
        if one.capture is None:
            table.notes.append(f"{name} was not recorded: {one.problem}.")
            return
        ours.append(counted(one.capture))
        if nsys:
            other = runs.run(runs.NSYS, [*command, str(count)], place, export=True)
            if other.export is None:
                table.notes.append(f"{name} under nsys: {other.problem}.")
            else:
                theirs.append(of_nsys(other.export))
    expected = (more, more * SIZE, 0 if name in NO_KERNELS else more)
    found = ours[1] - ours[0]
    other = theirs[1] - theirs[0] if len(theirs) == len(ours) else [None] * len(expected)
    for what, wanted, mine, its in zip(("copies", "bytes", "launches"), expected, found, other, strict=True):
        holds = int(mine) == wanted
        shown = "–" if its is None else f"{int(its):,}"
        row = (name, what, f"{wanted:,}", f"{int(mine):,}", shown, "yes" if holds else "**no**")
        table.add(row, program=name, what=what, wanted=wanted, found=int(mine), holds=holds)


if __name__ == "__main__":
    sys.exit(main())
