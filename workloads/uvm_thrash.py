"""CPU and GPU that take turns on the same pages, and the advice that keeps the pages in one place.

Four times in a row, the GPU writes all of the memory and the CPU reads something from every page, so every page
migrates eight times. The cure sets the host as the preferred location and lets the GPU access it: the pages stay, the
kernel works over the link, and `cpu_read` costs nothing. If the program allows it, splitting the data so that each side
keeps its own is even better.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

ROUNDS = 4

SPEC = ScenarioSpec(
    name="uvm-thrash",
    family="unified memory",
    summary="CPU and GPU take turns on the same pages: ping-pong, and its cure",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "kernel", "cpu_read", "free"),
    memory=("managed",),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged",
            "init": "CPU first touch",
            "advise": "cudaMemAdvise(SetPreferredLocation, host) + cudaMemAdvise(SetAccessedBy, device)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize, faulting on the GPU",
            "cpu_read": "CPU reads, faulting pages back",
            "free": "cudaFree",
        },
    },
    variants=(
        Variant("ping-pong", "every page migrates to the GPU and back, four times"),
        Variant(
            "cure",
            "preferred location host, accessed by the GPU: no page migrates",
            phases=("alloc", "init", "advise", "kernel", "cpu_read", "free"),
            calls={
                "cuda": {"kernel": "cuLaunchKernel + cudaDeviceSynchronize, over the link", "cpu_read": "CPU reads"}
            },
        ),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        memory = ctx.gpu.managed(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    if ctx.variant == "cure":
        with ctx.phase("advise"):
            ctx.gpu.advise(memory, "preferred-location", "host")
            ctx.gpu.advise(memory, "accessed-by", "device")
    for _ in range(ROUNDS):
        with ctx.phase("kernel"):
            ctx.gpu.add_two(memory)
        with ctx.phase("cpu_read"):
            memory.read()
    ctx.verify(memory, added=2 * ROUNDS)
    with ctx.phase("free"):
        memory.free()
