"""Pins 1.1 GiB in one tensor: PyTorch's allocator rounds it up to 2 GiB, all of which is created and pinned."""

import sys
import time

import torch

CURED = "cured" in sys.argv
SIZE = (11 << 30) // 10
device = torch.zeros(SIZE, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
begun = time.monotonic()
at = 0
for size in (1 << 30, SIZE - (1 << 30)) if CURED else (SIZE,):  # a power of two and a small rest, or all
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)  # GUILTY
    host.copy_(device[at : at + size], non_blocking=True)
    at += size
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun)
