"""Two workers of a DataLoader make batches of 32 MiB in fresh shared memory; a thread pins each."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

CURED = "cured" in sys.argv
BATCHES, SIZE = 80, 32 << 20


class Images(Dataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        if CURED:  # hand over the small encoded form; decode on the GPU
            return torch.full((SIZE // 4,), index, dtype=torch.uint8)
        return torch.full((SIZE // 4,), index, dtype=torch.float32)  # GUILTY


device = torch.zeros(SIZE // 4, device="cuda")
loader = DataLoader(Images(), batch_size=None, num_workers=2, pin_memory=True)
torch.cuda.synchronize()
begun = time.monotonic()
for batch in loader:  # GUILTY
    device.copy_(batch.to("cuda", non_blocking=True))
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun)
