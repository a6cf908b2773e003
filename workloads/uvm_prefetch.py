"""Unified memory that is prefetched before it is needed.

The same program as `uvm`, with one prefetch before the kernel and one before the CPU reads. The pages migrate in
large pieces at nearly the rate of the link instead of fault by fault, and the kernel runs at the rate of the GPU's
memory. Compare `prefetch` + `kernel` with the `kernel` of `uvm`.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, paragraphs

SPEC = ScenarioSpec(
    name="uvm-prefetch",
    family="unified memory",
    summary="cudaMallocManaged with cudaMemPrefetchAsync both ways: no fault on the GPU, none on the CPU",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "prefetch", "kernel", "prefetch_back", "cpu_read", "free"),
    memory=("managed",),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged",
            "init": "CPU first touch",
            "prefetch": "cudaMemPrefetchAsync(device) + cudaDeviceSynchronize",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "prefetch_back": "cudaMemPrefetchAsync(host) + cudaDeviceSynchronize",
            "cpu_read": "CPU reads",
            "free": "cudaFree",
        },
    },
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        memory = ctx.gpu.managed(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    with ctx.phase("prefetch"):
        ctx.gpu.prefetch(memory, "device")
    with ctx.phase("kernel"):
        ctx.gpu.add_two(memory)
    with ctx.phase("prefetch_back"):
        ctx.gpu.prefetch(memory, "host")
    with ctx.phase("cpu_read"):
        memory.read()
    ctx.verify(memory)
    with ctx.phase("free"):
        memory.free()
