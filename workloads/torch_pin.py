"""PyTorch's ways to page-locked memory: none, pin_memory(), and tensors that are allocated in it.

non_blocking=True lets the CPU continue only if the tensor is in page-locked memory; it still waits for a copy from
pageable memory. pin_memory() allocates page-locked memory and copies into it, in addition to the pageable tensor.
torch.empty(pin_memory=True) saves that copy. PyTorch keeps freed page-locked memory for the next tensor of that size,
so only the first iteration shows its cost: run it with --warmup 0.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

from .backends.tensors import HostTensor, tell_memory, torch

SPEC = ScenarioSpec(
    name="torch-pin",
    family="PyTorch",
    summary="a tensor to the GPU and back with non_blocking=True: pageable, pin_memory(), empty(pin_memory=True)",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "h2d", "kernel", "d2h", "free"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "alloc": "torch.empty",
            "init": "Tensor.fill_",
            "pin": "Tensor.pin_memory",
            "h2d": "Tensor.copy_(non_blocking=True) + torch.cuda.synchronize",
            "kernel": "Tensor.add_ + torch.cuda.synchronize",
            "d2h": "Tensor.copy_(non_blocking=True) + torch.cuda.synchronize",
            "free": "del + torch.cuda.empty_cache",
        },
    },
    variants=(
        Variant("pageable", "no page-locked memory"),
        Variant(
            "pin-memory",
            "Tensor.pin_memory(): page-locked memory and a copy into it",
            phases=("alloc", "init", "pin", "h2d", "kernel", "d2h", "free"),
        ),
        Variant(
            "empty-pinned",
            "torch.empty(pin_memory=True): no copy",
            calls={"cuda": {"alloc": "torch.empty(pin_memory=True)"}},
        ),
    ),
    needs="torch",
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with torch() as pytorch:
        device = pytorch.device("cuda", ctx.options.device)
        count = ctx.size_bytes // 4
        with ctx.phase("alloc"):
            host = pytorch.empty(count, dtype=pytorch.float32, pin_memory=ctx.variant == "empty-pinned")
            there = pytorch.empty(count, dtype=pytorch.float32, device=device)
        with ctx.phase("init"):
            host.fill_(ctx.value)
        if ctx.variant == "pin-memory":
            with ctx.phase("pin"):
                host = host.pin_memory()
        with ctx.phase("h2d"):
            there.copy_(host, non_blocking=True)
            pytorch.cuda.synchronize(device)
        with ctx.phase("kernel"):
            there.add_(2)
            pytorch.cuda.synchronize(device)
        tell_memory(ctx, pytorch, device)
        with ctx.phase("d2h"):
            host.copy_(there, non_blocking=True)
            pytorch.cuda.synchronize(device)
        ctx.verify(HostTensor(host))
        with ctx.phase("free"):
            del host, there
            pytorch.cuda.empty_cache()
