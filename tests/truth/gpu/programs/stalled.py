"""A training loop of which one step pins 2 GiB: `stalled.py`; a flight recorder is to capture that call."""

import time

import torch

import pinprof

model = torch.nn.Linear(2048, 2048).cuda()
batch = torch.randn(512, 2048).pin_memory()


def step() -> None:
    with torch.no_grad():
        model(batch.cuda(non_blocking=True)).sum().item()


def pin() -> torch.Tensor:
    return torch.empty(2 << 30, dtype=torch.uint8, pin_memory=True)


def run(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with pinprof.phase("step"):
            step()


run(7)
with pinprof.phase("step"):
    step()
    kept = pin()
run(3)
print(kept.numel())
