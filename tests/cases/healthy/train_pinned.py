"""A training loop with pinned buffers that stay, copies on a stream of their own, and a loss that is seldom read."""

import time

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
hosts = [torch.randn(2048, 1024).pin_memory() for _ in range(2)]
batches = [torch.empty(2048, 1024, device="cuda") for _ in hosts]
copies, losses = torch.cuda.Stream(), []
copied, used = ([torch.cuda.Event() for _ in hosts] for _ in range(2))


def copy(slot):
    with torch.cuda.stream(copies):
        copies.wait_event(used[slot])
        batches[slot].copy_(hosts[slot], non_blocking=True)
        copied[slot].record(copies)


copy(0)
begun = time.monotonic()
for step in range(600):
    slot = step % 2
    copy(1 - slot)
    torch.cuda.current_stream().wait_event(copied[slot])
    loss = model(batches[slot]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    used[slot].record()
    if step % 100 == 99:
        losses.append(loss.item())
torch.cuda.synchronize()
print("seconds", time.monotonic() - begun, losses[-1])
