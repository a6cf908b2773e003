"""A program that profiles itself with torch.profiler, and says how many events of each kind it got."""

import time
from collections import Counter

import torch
from say import say
from torch.profiler import ProfilerActivity, profile

STEPS = 200
x = torch.randn(1024, 1024, device="cuda")
host = torch.randn(1024, 1024).pin_memory()


def step() -> None:
    y = torch.relu(x @ x) + host.cuda(non_blocking=True)
    y.sum().item()


for _ in range(10):
    step()
torch.cuda.synchronize()
begun = time.monotonic_ns()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
called = time.monotonic_ns() - begun
events: Counter[str] = Counter()
for event in profiler.profiler.kineto_results.events():
    on_device = "CUDA" in str(event.device_type())
    kind = "copies" if event.name().startswith("Mem") else "kernels"
    events[f"{kind} of the GPU" if on_device else "of the CPU"] += 1
say(STEPS, called, events=dict(events))
