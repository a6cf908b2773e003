"""Unified memory on demand, and how the kernel's access determines the number of faults.

The GPU faults in pages of 64 KiB. With one thread per element, hundreds of warps touch a page at once, and all of them
fault: the driver spends its time on duplicates. With one warp per page, each page is requested once, and many pages are
in flight at a time. Both kernels compute the same; `naive` is the usual way to write it.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

SPEC = ScenarioSpec(
    name="uvm-warp-per-page",
    family="unified memory",
    summary="migration on demand with one warp for each 64 KiB page, or one thread for each element",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "kernel", "cpu_read", "free"),
    memory=("managed",),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged",
            "init": "CPU first touch",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize, one warp for each 64 KiB",
            "cpu_read": "CPU reads, faulting pages back",
            "free": "cudaFree",
        },
    },
    variants=(
        Variant("warp-per-page", "one warp walks through each 64 KiB page"),
        Variant(
            "naive",
            "one thread for each element",
            alias="uvm-naive",
            calls={"cuda": {"kernel": "cuLaunchKernel + cudaDeviceSynchronize, one thread for each element"}},
        ),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        memory = ctx.gpu.managed(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    with ctx.phase("kernel"):
        if ctx.variant == "naive":
            ctx.gpu.add_two(memory)
        else:
            ctx.gpu.add_two_by_warp(memory)
    with ctx.phase("cpu_read"):
        memory.read()
    ctx.verify(memory)
    with ctx.phase("free"):
        memory.free()
