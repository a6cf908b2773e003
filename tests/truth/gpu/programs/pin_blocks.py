"""Pins eight blocks of 260 MiB by PyTorch, whose allocator asks for powers of two, and copies each to the GPU."""

import torch

blocks = [torch.empty(260 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(8)]
on_gpu = torch.empty(260 << 20, dtype=torch.uint8, device="cuda")
for block in blocks:
    on_gpu.copy_(block, non_blocking=True)
torch.cuda.synchronize()
print(sum(block.numel() for block in blocks))
