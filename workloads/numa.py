"""Unified memory that returns to a chosen NUMA node of the host.

Since CUDA 12.2, a prefetch names its target as a cudaMemLocation, which can be one NUMA node of the host. Memory on
the GPU's own node does not cross sockets. `prefetch_back` to the farthest node shows the cost of the link between
sockets. On a machine with one node, both variants are the same.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

SPEC = ScenarioSpec(
    name="numa",
    family="unified memory",
    summary="cudaMemPrefetchAsync to a NUMA node of the host: the one nearest to the GPU, or the farthest",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "prefetch", "kernel", "prefetch_back", "cpu_read", "free"),
    memory=("managed",),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged",
            "init": "CPU first touch",
            "prefetch": "cudaMemPrefetchAsync(device) + cudaDeviceSynchronize",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "prefetch_back": "cudaMemPrefetchAsync(nearest host NUMA node) + cudaDeviceSynchronize",
            "cpu_read": "CPU reads",
            "free": "cudaFree",
        },
    },
    variants=(
        Variant("nearest", "back to the node nearest to the GPU"),
        Variant(
            "farthest",
            "back to the node farthest from it",
            calls={"cuda": {"prefetch_back": "cudaMemPrefetchAsync(farthest host NUMA node) + cudaDeviceSynchronize"}},
        ),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    nodes = ctx.gpu.host_nodes()
    node = nodes[0] if ctx.variant == "nearest" else nodes[-1]
    with ctx.phase("alloc"):
        memory = ctx.gpu.managed(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    with ctx.phase("prefetch"):
        ctx.gpu.prefetch(memory, "device")
    with ctx.phase("kernel"):
        ctx.gpu.add_two(memory)
    with ctx.phase("prefetch_back"):
        ctx.gpu.prefetch(memory, node)
    with ctx.phase("cpu_read"):
        memory.read()
    ctx.verify(memory)
    with ctx.phase("free"):
        memory.free()
