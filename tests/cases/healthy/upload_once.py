"""Uploads 256 MiB once, and computes on it for long."""

import time

import torch

table = torch.ones(64 << 20)
torch.zeros(1, device="cuda")
torch.cuda.synchronize()
begun = time.monotonic()
values = table.to("cuda")
for _ in range(4000):
    values.mul_(1.0001)
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun)
