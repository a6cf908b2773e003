"""A program whose use of host memory can be changed by a known amount, for checks that must notice it.

usage: checked.py FOLDER [--pins N] [--pairs N] [--faults SHARE] [--slower SHARE]

FOLDER has the stand-ins for CUDA's libraries (tests/data/cuda). Each step allocates and frees pinned memory, touches
new pages and computes, in ranges `upload`, `touch` and `compute`.
"""

import argparse
import ctypes
import hashlib
import mmap

import nvtx

MIB = 1 << 20
STEPS, KEPT, PAIRS, PAGES, ROUNDS = 10, 4, 2, 2000, 100

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--pins", type=int, default=0, help="more pinned buffers that are kept, of 1 MiB")
parser.add_argument("--pairs", type=int, default=0, help="more allocate/free pairs in the whole run")
parser.add_argument("--faults", type=float, default=0.0, help="more page faults, as a share of the run's")
parser.add_argument("--slower", type=float, default=0.0, help="more rounds in range compute, as a share")
asked = parser.parse_args()
driver, runtime = (ctypes.CDLL(f"{asked.folder}/{name}") for name in ("libcuda.so.1", "libcudart.so.13"))
DATA = bytes(range(256)) * 4096


def pinned(size):
    place = ctypes.c_void_p()
    assert runtime.cudaMallocHost(ctypes.byref(place), ctypes.c_size_t(size)) == 0
    return place


def touch(pages):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


driver.cuInit(0)
kept = [pinned(MIB) for _ in range(KEPT + asked.pins)]
more_pages = 0
if asked.faults:
    import resource

    # Those so far, and those of the steps: pages that they touch, and pinned memory that the stand-in zeroes.
    used = resource.getrusage(resource.RUSAGE_SELF)
    whole = used.ru_minflt + used.ru_majflt + STEPS * (PAGES + PAIRS * MIB // mmap.PAGESIZE)
    more_pages = round(asked.faults * whole / STEPS)
for step in range(STEPS):
    with nvtx.annotate("upload"):
        for _ in range(PAIRS + (asked.pairs if step == STEPS - 1 else 0)):
            runtime.cudaFreeHost(pinned(MIB))
    with nvtx.annotate("touch"):
        touch(PAGES + more_pages)
    with nvtx.annotate("compute"):
        for _ in range(round(ROUNDS * (1 + asked.slower))):
            hashlib.sha256(DATA).digest()
