"""Many small kernels on tensors that stay on the GPU, captured once in a graph."""

import time

import torch

values = torch.randn(1 << 20, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    torch.sin(values)
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(50):
        values.sin_().mul_(1.01)
torch.cuda.synchronize()
begun = time.monotonic()
for _ in range(2000):
    graph.replay()
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun)
