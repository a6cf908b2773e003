"""Pins 4 GiB for staging, and uses 64 MiB of it."""

import sys
import time

import torch

CURED = "cured" in sys.argv
USED = 64 << 20
device = torch.zeros(USED, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
begun = time.monotonic()
staging = torch.empty(USED if CURED else 4 << 30, dtype=torch.uint8, pin_memory=True)  # GUILTY
for step in range(100):
    part = staging[:USED]
    part[:4096] = step
    device.copy_(part, non_blocking=True)
    torch.cuda.synchronize()
print("seconds", time.monotonic() - begun)
