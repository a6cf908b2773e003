"""Asks for the loss in every small step, so that CPU and GPU work in turns instead of at the same time."""

import random
import sys
import time

import torch

CURED = "cured" in sys.argv
STEPS = 2500
weights = [torch.randn(1024, 1024, device="cuda") / 32 for _ in range(3)]
batch = torch.randn(4096, 1024, device="cuda")


def train(step):
    scale = sum(random.random() for _ in range(5000)) / 2500  # the CPU's part of the step
    values = batch * scale
    for weight in weights:
        values = torch.relu(values @ weight)
    loss = values.mean()
    return loss.item() if not CURED or step % 100 == 0 else 0.0  # GUILTY


for step in range(10):
    train(step)
torch.cuda.synchronize()
begun = time.monotonic()
total = sum(train(step) for step in range(STEPS))
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun, total)
