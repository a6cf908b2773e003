"""Small kernels, one after another: `launches.py [COUNT]`."""

import sys
import time

import torch
from say import say

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
x = torch.zeros(1024, device="cuda")
for _ in range(100):
    x.add_(1)
torch.cuda.synchronize()
begun = time.monotonic_ns()
for _ in range(COUNT):
    x.add_(1)
called = time.monotonic_ns() - begun
torch.cuda.synchronize()
say(COUNT, called)
