"""A training loop: each step copies a batch from pinned memory and updates three layers. `train.py [STEPS]`."""

import sys
import time

import torch
from say import say

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
torch.manual_seed(7)
model = torch.nn.Sequential(
    torch.nn.Linear(2048, 4096),
    torch.nn.ReLU(),
    torch.nn.Linear(4096, 4096),
    torch.nn.ReLU(),
    torch.nn.Linear(4096, 10),
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [torch.randn(512, 2048).pin_memory() for _ in range(4)]
labels = torch.randint(0, 10, (512,)).cuda()


def step(number: int) -> None:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batches[number % 4].cuda(non_blocking=True)), labels)
    loss.backward()
    optimizer.step()
    if number % 50 == 0:
        loss.item()


for number in range(10):
    step(number)
torch.cuda.synchronize()
begun = time.monotonic_ns()
for number in range(STEPS):
    step(number)
torch.cuda.synchronize()
say(STEPS, time.monotonic_ns() - begun)
