"""Unified memory that does not fit into the rest of the GPU's memory: pages are evicted while the kernel runs.

Managed memory may be larger than the GPU. The driver then evicts pages to make room for others. The scenario never
requests more than the GPU has free: after the CPU has written the data, a plain cudaMalloc takes everything but two
thirds of its size, so the kernel has to evict a third. During the run, no other program gets memory of this GPU, and an
eviction storm slows all programs on it. The scenario runs only if it is named. Do not run it on a shared GPU.
"""

from __future__ import annotations

from pinprof.base.errors import UsageError
from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

SPEC = ScenarioSpec(
    name="uvm-oversubscribe",
    family="unified memory",
    summary="managed memory larger than the GPU's free memory: eviction; needs --variant really",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "ballast", "kernel", "cpu_read", "free"),
    memory=("managed",),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged",
            "init": "CPU first touch",
            "ballast": "cudaMalloc of all but two thirds of the size",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize, faulting and evicting",
            "cpu_read": "CPU reads, faulting pages back",
            "free": "cudaFree × 2",
        },
    },
    variants=(
        Variant("refuse", "only describes what it would do"),
        Variant("really", "fills the GPU's memory; use it only on a GPU that nobody else uses", guarded=True),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    if ctx.variant != "really":
        raise UsageError(
            "uvm-oversubscribe takes all free memory of the GPU and makes its driver evict pages.",
            "If nobody else uses this GPU, add --variant really.",
            "guarded",
        )
    with ctx.phase("alloc"):
        memory = ctx.gpu.managed(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    with ctx.phase("ballast"):
        ballast = ctx.gpu.device(ctx.gpu.free_bytes() - ctx.size_bytes * 2 // 3)
    with ctx.phase("kernel"):
        ctx.gpu.add_two(memory)
    with ctx.phase("cpu_read"):
        memory.read()
    ctx.verify(memory)
    with ctx.phase("free"):
        memory.free()
        ballast.free()
