"""What each piece of advice about unified memory changes, one by one.

The GPU reads managed memory, the CPU reads it, the GPU reads it again; results go to device memory. Without advice, the
pages migrate each time. Read-mostly leaves a copy on both sides, so only the first `kernel` pays. With the host as
preferred location, the GPU maps the pages where they are and reads them over the link each time. Accessed-by creates
that mapping at once, without a fault, and also leaves the pages where they are.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

_ADVISED = ("alloc", "init", "advise", "kernel", "cpu_read", "kernel_again", "d2h", "free")

SPEC = ScenarioSpec(
    name="uvm-advise",
    family="unified memory",
    summary="cudaMemAdvise one by one: read-mostly, preferred location, accessed-by",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "kernel", "cpu_read", "kernel_again", "d2h", "free"),
    memory=("managed", "device", "pageable"),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged + cudaMalloc + malloc",
            "init": "CPU first touch",
            "advise": "cudaMemAdvise",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize, reading managed memory",
            "cpu_read": "CPU reads",
            "kernel_again": "cuLaunchKernel + cudaDeviceSynchronize, reading managed memory",
            "d2h": "cudaMemcpy(DeviceToHost)",
            "free": "cudaFree × 2 + free",
        },
    },
    variants=(
        Variant("none", "no advice: the pages migrate at each change of side"),
        Variant(
            "read-mostly",
            "a copy on each side",
            phases=_ADVISED,
            calls={"cuda": {"advise": "cudaMemAdvise(SetReadMostly)"}},
        ),
        Variant(
            "preferred-location",
            "the host keeps the pages, the GPU maps them on its first fault",
            phases=_ADVISED,
            calls={"cuda": {"advise": "cudaMemAdvise(SetPreferredLocation, host)"}},
        ),
        Variant(
            "accessed-by",
            "the GPU maps the pages before it touches them",
            phases=_ADVISED,
            calls={"cuda": {"advise": "cudaMemAdvise(SetAccessedBy, device)"}},
        ),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        memory = ctx.gpu.managed(ctx.size_bytes)
        result = ctx.gpu.device(ctx.size_bytes)
        host = ctx.gpu.pageable(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    if ctx.variant != "none":
        with ctx.phase("advise"):
            if ctx.variant == "read-mostly":
                ctx.gpu.advise(memory, "read-mostly", "device")
            elif ctx.variant == "preferred-location":
                ctx.gpu.advise(memory, "preferred-location", "host")
            else:
                ctx.gpu.advise(memory, "accessed-by", "device")
    with ctx.phase("kernel"):
        ctx.gpu.add_two_into(result, memory)
    with ctx.phase("cpu_read"):
        memory.read()
    with ctx.phase("kernel_again"):
        ctx.gpu.add_two_into(result, memory)
    with ctx.phase("d2h"):
        ctx.gpu.copy_to_host(host, result)
    ctx.verify(host)
    with ctx.phase("free"):
        memory.free()
        result.free()
        host.free()
