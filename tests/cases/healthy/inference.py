"""A network of convolutions runs on batches that are on the GPU."""

import time

import torch
from torch import nn


def block(channels):
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
    )


model = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), *(block(64) for _ in range(12))).cuda().eval()
batch = torch.randn(32, 3, 224, 224, device="cuda")
with torch.inference_mode():
    model(batch)
    torch.cuda.synchronize()
    begun = time.monotonic()
    for _ in range(100):
        result = model(batch)
    torch.cuda.synchronize()
print("seconds", time.monotonic() - begun, tuple(result.shape))
