"""A thread pins 4 GiB in one call while the main thread works: calls of CUDA wait for the driver's lock."""

import sys
import threading
import time

import torch

CURED = "cured" in sys.argv
PIECE = 64 << 20 if CURED else 4 << 30
pool = []


def pin():
    for _ in range((4 << 30) // PIECE):
        pool.append(torch.empty(PIECE, dtype=torch.uint8, pin_memory=True))  # GUILTY
        time.sleep(0.02)


host = torch.ones(4 << 20, pin_memory=True)
torch.cuda.synchronize()
begun = time.monotonic()
thread = threading.Thread(target=pin, name="pin")
thread.start()
for _ in range(400):
    batch = torch.empty(4 << 20, device="cuda")
    batch.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    del batch
    torch.cuda.empty_cache()
print("seconds", time.monotonic() - begun)
thread.join()
