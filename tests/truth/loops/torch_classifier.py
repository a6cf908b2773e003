"""Trains a small network with PyTorch on the CPU: data and model first, steps to warm up, then the timed ones."""

import time

import torch
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)
inputs = torch.randn(40_000, 256)
labels = (inputs.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)


def step(rows):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    return loss


for _ in range(5):
    step(slice(0, 1000))
begun = time.monotonic()
for _ in range(2):
    for first in range(0, len(inputs), 1000):
        loss = step(slice(first, first + 1000))
print("seconds", time.monotonic() - begun, float(loss.detach()))
