"""Batches of PyTorch's DataLoader: worker processes, with and without its thread that pins.

Two worker processes make eight batches, each an eighth of the size, and hand them over in shared memory. Without
pin_memory, the copy to the GPU is one from pageable memory, and the program waits for it. With pin_memory, a thread of
the loader copies every batch into page-locked memory before the program sees it: `h2d` gets faster, and the thread pays
for pinning until PyTorch's cache of page-locked memory is warm. `next` is the time that the program waits for a batch.
"""

from __future__ import annotations

import importlib
from typing import Any

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

from .backends.tensors import HostTensor, tell_memory, torch

BATCHES = 8
WORKERS = 2

SPEC = ScenarioSpec(
    name="torch-dataloader",
    family="PyTorch",
    summary="batches from DataLoader workers to the GPU: pageable, or pinned by its thread",
    description=paragraphs(__doc__),
    phases=("start", "next", "h2d", "kernel", "d2h", "stop"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "start": "iter(DataLoader(num_workers=2))",
            "next": "next(iterator)",
            "h2d": "Tensor.to(device, non_blocking=True) + torch.cuda.synchronize",
            "kernel": "Tensor.add_ + torch.cuda.synchronize",
            "d2h": "Tensor.cpu",
            "stop": "end of the workers",
        },
    },
    variants=(
        Variant("pageable", "batches in pageable memory"),
        Variant(
            "pinned",
            "pin_memory=True: a thread of the loader pins each batch",
            calls={"cuda": {"start": "iter(DataLoader(num_workers=2, pin_memory=True))"}},
        ),
    ),
    needs="torch",
)


class Batches:
    """A data set of equal batches, made by the workers."""

    def __init__(self, count: int, value: float) -> None:
        self._count = count
        self._value = value

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> Any:
        if index >= BATCHES:
            raise IndexError(index)
        pytorch = importlib.import_module("torch")
        return pytorch.full((self._count,), self._value, dtype=pytorch.float32)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with torch() as pytorch:
        device = pytorch.device("cuda", ctx.options.device)
        data = importlib.import_module("torch.utils.data")
        with ctx.phase("start"):
            batches = Batches(ctx.size_bytes // 4 // BATCHES, ctx.value)
            pinned = ctx.variant == "pinned"
            iterator = iter(data.DataLoader(batches, batch_size=None, num_workers=WORKERS, pin_memory=pinned))
        try:
            for _ in range(BATCHES):
                with ctx.phase("next"):
                    batch = next(iterator)
                with ctx.phase("h2d"):
                    there = batch.to(device, non_blocking=True)
                    pytorch.cuda.synchronize(device)
                with ctx.phase("kernel"):
                    there.add_(2)
                    pytorch.cuda.synchronize(device)
                tell_memory(ctx, pytorch, device)
                with ctx.phase("d2h"):
                    result = there.cpu()
                ctx.verify(HostTensor(result))
        finally:
            # The workers end with the last reference to the iterator.
            with ctx.phase("stop"):
                del iterator
