"""A compiled function of PyTorch on the CPU: the first call compiles it, the timed ones run it."""

import time

import torch

torch.set_num_threads(1)
table = torch.randn(2000, 2000)


@torch.compile
def blend(values, factor):
    return torch.tanh(values * factor).add(values.sin()).mul(0.5).relu()


blend(table, 0.5)
begun = time.monotonic()
for _ in range(150):
    result = blend(table, 0.5)
print("seconds", time.monotonic() - begun, float(result.sum()))
