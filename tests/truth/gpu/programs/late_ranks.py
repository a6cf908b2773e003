"""Two ranks of which one is late, in one of several ways: `late_ranks.py KIND [cured]`, started by torchrun.

A line that makes a rank late ends in a comment with the kind and the rank. Rank 0 prints the seconds of its steps from
number 0 on: before, nobody is late.
"""

import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import turn  # noqa: F401  from here on the GPUs are this launch's
from torch.distributed.fsdp import fully_shard

KIND, CURED = sys.argv[1], "cured" in sys.argv
RANK = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(RANK % torch.cuda.device_count())
dist.init_process_group("nccl" if torch.cuda.device_count() > 1 else "gloo")
LATE = RANK == 1 and not CURED
FIRST = -3
weights = torch.zeros(2048, 2048, device="cuda")
pinned = torch.ones(16384, 2048, pin_memory=True)
source = np.ones((4096, 2048), np.float32)


def fresh(rows):
    return torch.ones(rows, 2048).to("cuda")  # GUILTY straggler 1, pipeline 1


def stacked(number):
    return np.vstack([source * number for _ in range(4)])  # GUILTY starved 1, ddp 1


def meet(batch):
    gradient = (batch @ weights - batch).T @ batch
    dist.all_reduce(gradient)
    weights.sub_(gradient, alpha=1e-9)


def straggler(number):
    """Late once in 20 steps."""
    if LATE and number >= 0 and number % 20 == 7:
        fresh(65536)
    meet(pinned.to("cuda", non_blocking=True))


def healthy(number):
    """Nobody is late."""
    meet(pinned.to("cuda", non_blocking=True))


def pipeline(number):
    """Rank 1's stage takes longer, and rank 0 waits for what it sends back."""
    part = torch.empty(4096, 2048, device="cuda")
    for _ in range(4):
        if RANK == 0:
            dist.send(pinned[:4096].to("cuda", non_blocking=True) @ weights, 1)
        else:
            dist.recv(part, 0)
            mask = fresh(4096) if LATE and number >= 0 else torch.ones(4096, 2048, device="cuda")
            dist.send((part @ weights) * mask, 0)
        if RANK == 0:
            dist.recv(part, 1)
            weights.add_(part.sum(), alpha=1e-9)


class Rows(torch.utils.data.IterableDataset):
    """Batches, which rank 1's worker builds in new memory."""

    def __iter__(self):
        for number in range(FIRST, 1000):
            yield torch.from_numpy(stacked(number) if LATE and number >= 0 else source)


def starved(number, loader=[]):  # noqa: B006  its worker lives as long as the program
    """Rank 1 waits for its loader's worker."""
    if not loader:
        loader.append(iter(torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=1)))
    rows = next(loader[0])  # GUILTY starved 1
    meet(rows[:4096].to("cuda"))


def layers():
    return torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(6)]).cuda()


def ddp(number, kept=[]):  # noqa: B006  the model lives as long as the program
    """DDP, and rank 1 stacks each batch in new memory."""
    if not kept:
        model = torch.nn.parallel.DistributedDataParallel(layers(), device_ids=[RANK])
        kept += [model, torch.optim.SGD(model.parameters(), 1e-3), torch.empty(2048, 4096, pin_memory=True)]
    model, optimizer, buffer = kept
    if LATE and number >= 0:
        batch = torch.from_numpy(stacked(number)[:4096]).view(2048, 4096).to("cuda")
    else:
        buffer.copy_(torch.from_numpy(source).view(2048, 4096))
        batch = buffer.to("cuda", non_blocking=True)
    trained(model, optimizer, batch)


def trained(model, optimizer, batch):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()


def fsdp2(number, kept=[]):  # noqa: B006  the model lives as long as the program
    """FSDP2; every fifth step its state is gathered, and rank 0 copies it to the host."""
    if not kept:
        model = layers()
        for each in [*model, model]:
            fully_shard(each)
        kept += [model, torch.optim.SGD(model.parameters(), 1e-3), torch.ones(2048, 4096, device="cuda"), []]
    model, optimizer, batch, buffers = kept
    trained(model, optimizer, batch)
    if number % 5 == 0 or number == FIRST:
        saved(number, [each.full_tensor().detach() for each in model.parameters()], buffers)


def gathered(number, kept=[]):  # noqa: B006  the cure keeps its buffers
    """Every fifth step rank 0 copies the state to the host."""
    meet(pinned.to("cuda", non_blocking=True))
    if number % 5 == 0 or number == FIRST:
        saved(number, [weights.clone() for _ in range(24)], kept)


def saved(number, state, kept):
    """Rank 0 copies the state to the host, and rank 1 waits in a barrier."""
    if RANK == 0 and (CURED or number < 0):
        kept[:] = kept or [torch.empty_like(each, device="cpu", pin_memory=True) for each in state]
        for to, each in zip(kept, state, strict=True):
            to.copy_(each, non_blocking=True)
        torch.cuda.synchronize()
    elif RANK == 0:
        [each.cpu() for each in state]  # GUILTY gathered 0, fsdp2 0
    dist.barrier()


step, steps = globals()[KIND], {"gathered": 100, "straggler": 100}.get(KIND, 60)
for number in range(FIRST, 0):
    step(number)
torch.cuda.synchronize()
dist.barrier()
begun = time.monotonic()
for number in range(steps):
    step(number)
torch.cuda.synchronize()
if RANK == 0:
    print("seconds", time.monotonic() - begun, flush=True)
dist.barrier()
os._exit(0)  # the end of PyTorch aborts at times, with a recorder or without
