"""Two ranks train together, started by torchrun; rank 1 takes each batch from fresh pageable memory."""

import os
import sys
import time

import torch
import torch.distributed as dist

CURED = "cured" in sys.argv
RANK, GPUS = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
torch.cuda.set_device(RANK % GPUS)
dist.init_process_group("nccl" if GPUS > 1 else "gloo")
weights = torch.zeros(1024, 1024, device="cuda")
pinned = torch.ones(16384, 1024, pin_memory=True)


def fresh():
    return torch.ones(16384, 1024).to("cuda")  # GUILTY


def step():
    batch = fresh() if RANK and not CURED else pinned.to("cuda", non_blocking=True)
    gradient = (batch @ weights - batch).T @ batch
    dist.all_reduce(gradient)
    weights.sub_(gradient, alpha=1e-9)


for _ in range(3):
    step()
torch.cuda.synchronize()
begun = time.monotonic()
for _ in range(60):
    step()
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun)
dist.destroy_process_group()
