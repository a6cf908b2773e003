"""Copies the state to the host in every step, and uses it in every fiftieth."""

import sys
import time

import torch

CURED = "cured" in sys.argv
STEPS = 300
state = torch.zeros(8 << 20, device="cuda")
torch.cuda.synchronize()
begun = time.monotonic()
saved = []
for step in range(STEPS):
    state += 1
    if CURED:
        if step % 50 == 0:
            saved.append(state.cpu().numpy()[0])
        continue
    host = state.cpu().numpy()  # GUILTY
    if step % 50 == 0:
        saved.append(host[0])
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun, saved)
