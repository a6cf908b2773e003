"""Costs of page-locked memory and contexts that no case has: `kinds.py contexts|cache|forks`; takes PyTorch.

contexts   waits for GPU 0, and then works on GPU 1 alone
cache      pins batches of growing size once each, which PyTorch keeps, and goes on with small ones
forks      forks while 512 MiB are registered with CUDA
"""

import os
import sys
import time

import torch


def work(device: int, seconds: float) -> None:
    matrix = torch.randn(1024, 1024, device=f"cuda:{device}")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            matrix = (matrix @ matrix).tanh()
        torch.cuda.synchronize(device)


def contexts() -> None:
    torch.cuda.synchronize(0)  # GUILTY: contexts
    torch.cuda.set_device(1)
    work(1, 3)


def cache() -> None:
    work(0, 0.5)
    for number in range(6):
        torch.empty((64 + number) << 18).pin_memory().cuda()  # GUILTY: cache
    end, small = time.monotonic() + 4, torch.empty(1 << 18).pin_memory()
    while time.monotonic() < end:
        small.cuda(non_blocking=True)
        work(0, 0.2)


def forks() -> None:
    work(0, 0.5)
    memory = torch.ones(512 << 18)
    assert int(torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), 512 << 20, 0)) == 0
    for _ in range(10):
        child = os.fork()  # GUILTY: forks
        if not child:
            os._exit(0)
        os.waitpid(child, 0)


begun = time.monotonic()
globals()[sys.argv[1]]()
print(f"seconds {time.monotonic() - begun:.3f}")
