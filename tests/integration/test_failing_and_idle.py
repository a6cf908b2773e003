"""A worker whose context gives the GPU no work, a registration whose error a later launch gets, and a cache of pinned
memory that grows: recorded here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import DRIVER

STAND_IN = """
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define EXPORT __attribute__((visibility("default"), noinline))
EXPORT int cuInit(unsigned flags) { return usleep(120000); }
EXPORT int cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
    *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *p == MAP_FAILED;
}
EXPORT int cuMemHostRegister_v2(void *p, size_t n, unsigned flags) { return 2; }
EXPORT int cuMemcpyHtoD_v2(void *to, const void *from, size_t n) { return usleep(20), 0; }
EXPORT int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned n,
    void *stream, void **words, void **extra) { return usleep(20), 0; }
"""
PROGRAM = """
import ctypes, os, time
P, N = ctypes.c_void_p, ctypes.c_size_t
cuda = ctypes.CDLL("libcuda.so.1")

def worker():
    cuda.cuInit(0)  # idle
    place = P()
    cuda.cuMemHostAlloc(ctypes.byref(place), N(64 << 20), 0)
    time.sleep(1.5)
    os._exit(0)

child = os.fork()
if not child:
    worker()
os.waitpid(child, 0)
cuda.cuInit(0)
data = ctypes.create_string_buffer(1 << 20)
cuda.cuMemHostRegister_v2(data, N(1 << 20), 0)
for _ in range(20):
    cuda.cuMemcpyHtoD_v2(P(4096), data, N(1 << 20))
for _ in range(20):
    cuda.cuLaunchKernel(*[P()] + [1] * 7 + [P()] * 3)  # launch
"""
CACHE = """
import ctypes, time
P, N = ctypes.c_void_p, ctypes.c_size_t
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)

def pinned():
    place = P()
    cuda.cuMemHostAlloc(ctypes.byref(place), N(32 << 20), 0)  # keeps
    return place

for _ in range(5):
    block = pinned()
    for _ in range(3):
        cuda.cuMemcpyHtoD_v2(P(4096), block, N(1 << 20))
time.sleep(4)
ring = pinned()
cuda.cuMemcpyHtoD_v2(P(4096), ring, N(1 << 20))
"""


def line(name: str, program: str = PROGRAM) -> int:
    return next(number for number, text in enumerate(program.splitlines(), 1) if text.endswith(f"# {name}"))


def findings(folder: Path, program: str) -> dict[str, dict[str, Any]]:
    """By rule, of a recording of a program before the stand-in for CUDA's driver."""
    (folder / "driver.c").write_text(STAND_IN)
    (folder / "program.py").write_text(program)
    built = ["cc", "-O1", "-g", *DRIVER, "-o", "libcuda.so.1", "driver.c"]
    subprocess.run(built, check=True, cwd=folder)
    pinprof, capture = [sys.executable, "-m", "pinprof"], folder / "out.pinprof"
    subprocess.run(
        [*pinprof, "record", "--no-report", "--no-calibrate", "-o", capture, "--", sys.executable, "program.py"],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        check=True,
        cwd=folder,
        timeout=120,
    )
    told = subprocess.run([*pinprof, "report", "--format", "json", capture], check=True, capture_output=True)
    return {finding["rule"]: finding for finding in json.loads(told.stdout)["findings"]}


@pytest.mark.skipif(shutil.which("cc") is None, reason="cc is not installed")
def test_cache_of_pinned_memory_that_grows_is_named_with_its_line(tmp_path: Path) -> None:
    idle = findings(tmp_path, CACHE)["idle-pinned"]
    assert (idle["severity"], idle["title"]) == (
        "warning", "The program keeps pinned memory that no copy uses any more, and pins more beside it.",
    )  # fmt: skip
    kept = f"pinned (program.py:{line('keeps', CACHE)}) keeps 5 blocks of 160 MiB in all. No copy uses any of it in the"
    assert idle["evidence"][0].startswith(kept)
    assert idle["evidence"][0].endswith("4 were made while an unused one of that size or larger was there.")


@pytest.mark.skipif(shutil.which("cc") is None, reason="cc is not installed")
def test_idle_context_and_the_launch_that_gets_an_error_are_named(tmp_path: Path) -> None:
    told = findings(tmp_path, PROGRAM)
    idle, failed = told["idle-context"], told["failed-pinned"]
    assert idle["title"] == "1 CUDA context gives its GPU no work."
    assert f"program.py:{line('idle')}" in idle["evidence"][0]
    assert "It page-locks 64 MiB." in idle["evidence"][0]
    (surfaces,) = [text for text in failed["evidence"] if "cudaGetLastError" in text]
    assert f"cuLaunchKernel at <module> (program.py:{line('launch')})" in surfaces
