"""A worker whose context gives the GPU no work, and a registration whose error a later launch gets: recorded here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def line(name: str) -> int:
    return next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"# {name}"))


@pytest.mark.skipif(shutil.which("cc") is None, reason="cc is not installed")
def test_idle_context_and_the_launch_that_gets_an_error_are_named(tmp_path: Path) -> None:
    (tmp_path / "driver.c").write_text(STAND_IN)
    (tmp_path / "program.py").write_text(PROGRAM)
    built = ["cc", "-O1", "-g", *DRIVER, "-o", "libcuda.so.1", "driver.c"]
    subprocess.run(built, check=True, cwd=tmp_path)
    pinprof, capture = [sys.executable, "-m", "pinprof"], tmp_path / "out.pinprof"
    subprocess.run(
        [*pinprof, "record", "--no-report", "--no-calibrate", "-o", capture, "--", sys.executable, "program.py"],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        check=True,
        cwd=tmp_path,
        timeout=120,
    )
    told = subprocess.run([*pinprof, "report", "--format", "json", capture], check=True, capture_output=True)
    findings = {finding["rule"]: finding for finding in json.loads(told.stdout)["findings"]}
    idle, failed = findings["idle-context"], findings["failed-pinned"]
    assert idle["title"] == "1 process creates a CUDA context and gives the GPU no work."
    assert f"program.py:{line('idle')}" in idle["evidence"][0]
    assert "It page-locks 64 MiB." in idle["evidence"][0]
    (surfaces,) = [text for text in failed["evidence"] if "cudaGetLastError" in text]
    assert f"cuLaunchKernel at <module> (program.py:{line('launch')})" in surfaces
