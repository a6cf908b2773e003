"""What the pytest plugin costs: CPU time of a run with many small tests less that of a run with one.

usage: python tests/bench/bench_pytest.py [TESTS] [ROUNDS]

Processor time is that of pytest and of everything it starts. Marks are compared with the same tests without a mark.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PLAIN = "    memory = bytearray(8 << 20)\n"
CUDA = """
    place = ctypes.c_void_p()
    for _ in range(10):
        RUNTIME.cudaMallocHost(ctypes.byref(place), ctypes.c_size_t(1 << 20))
        RUNTIME.cudaMemcpy(DEVICE, place, ctypes.c_size_t(1 << 20), 1)
        RUNTIME.cudaFreeHost(place)
"""
"""Thirty calls of what stands in for CUDA's libraries (tests/data/cuda)."""
HEAD = """
import ctypes, os, pytest
RUNTIME = ctypes.CDLL(os.environ["STANDS_IN"] + "/libcudart.so.13")
DEVICE = (ctypes.c_char * (1 << 20))()
"""
COUNTS, SHARES = "page_faults=10_000_000", 'page_faults=10_000_000, cause={"fault": "99 %"}'
CALLS = 'pinned_bytes="1 GiB", pairs=1000, pageable_bytes=0'
CASES = {
    "no mark": ("import pytest\n", "", PLAIN),
    "counts decide": ("import pytest\n", COUNTS, PLAIN),
    "samples are read": ("import pytest\n", SHARES, PLAIN),
    "no mark, CUDA": (HEAD, "", CUDA),
    "calls are judged": (HEAD, CALLS, CUDA),
}
"""Name → what comes first, the mark's keywords, the body. Costs are those beside the last case without a mark."""
SOURCES = Path(__file__).parents[1] / "data/cuda"


def build(folder: Path) -> None:
    """Build what stands in for CUDA's libraries."""
    driver, origin = folder / "libcuda.so.1", "-Wl,-rpath,$ORIGIN"
    for name, more in (("libcuda.so.1", ["driver.c"]), ("libcudart.so.13", ["runtime.c", str(driver), origin])):
        command = ["cc", "-O1", "-g", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", str(folder / name)]
        subprocess.run([*command, *more], cwd=SOURCES, check=True)


def seconds(folder: Path, case: tuple[str, str, str], tests: int) -> float:
    """Of CPU time, for a run of so many tests."""
    head, keywords, body = case
    mark = f"@pytest.mark.pinprof({keywords})\n" if keywords else ""
    (folder / "test_cost.py").write_text(
        f"{head}{mark}@pytest.mark.parametrize('number', range({tests}))\ndef test_cost(number):\n{body}"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    options = ["-q", "-p", "no:cacheprovider", "--pinprof-allow-unassessable"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"STANDS_IN": str(folder), "LD_LIBRARY_PATH": str(folder)}
    command = [sys.executable, "-m", "pytest", *options]
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """One line for each kind of mark."""
    tests = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        for _ in range(rounds):
            for name, case in CASES.items():
                one, many = (seconds(Path(folder), case, count) for count in (1, tests + 1))
                found[name].append((one, (many - one) / tests))
    plain = found["no mark"]
    for name, measured in found.items():
        if not CASES[name][1]:
            plain = measured
        first = statistics.median(one for one, _ in measured) - statistics.median(one for one, _ in plain)
        each = statistics.median(each for _, each in measured) - statistics.median(each for _, each in plain)
        print(f"{name:20} first test {first:6.2f} s   each {1e3 * each:6.1f} ms")


if __name__ == "__main__":
    main()
