"""A layer's weights lie in pageable memory and go to the GPU every time the layer is used."""

import sys
import time

import torch

CURED = "cured" in sys.argv
weights = [torch.randn(2048, 2048) for _ in range(24)]
if CURED:
    weights = [weight.pin_memory() for weight in weights]
batch = torch.randn(64, 2048, device="cuda")


def forward():
    values = batch
    for weight in weights:
        values = torch.relu(values @ weight.to("cuda", non_blocking=True)) * 0.03  # GUILTY
    return values


forward()
torch.cuda.synchronize()
begun = time.monotonic()
for _ in range(20):
    forward()
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun)
