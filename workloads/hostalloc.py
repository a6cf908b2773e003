"""cudaHostAlloc and its flags: default, portable, write-combined.

With all flags, the allocation creates and pins every page, as cudaMallocHost does. Portable memory counts as pinned in
every CUDA context of the process. Write-combined memory bypasses the CPU's caches: copies to the device can be
faster, but CPU reads are slower by an order of magnitude. Compare `d2h` and `verify`, in which the CPU reads it.
Memory that the CPU reads should never be write-combined. Mapped memory is the scenario `zerocopy`.
"""

from __future__ import annotations

from pinprof.scenario import HostFlag, RunContext, ScenarioSpec, Variant, paragraphs

SPEC = ScenarioSpec(
    name="hostalloc",
    family="pinning",
    summary="cudaHostAlloc with its flags: default, portable, write-combined",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "h2d", "kernel", "d2h", "free"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "alloc": "cudaHostAlloc(Default) + cudaMalloc",
            "init": "write",
            "h2d": "cudaMemcpy(HostToDevice)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpy(DeviceToHost)",
            "free": "cudaFreeHost + cudaFree",
        },
    },
    variants=(
        Variant("default", "the same as cudaMallocHost"),
        Variant(
            "portable",
            "pinned for every context of the process",
            alias="portable",
            calls={"cuda": {"alloc": "cudaHostAlloc(Portable) + cudaMalloc"}},
        ),
        Variant(
            "write-combined",
            "bypasses the CPU's caches: for memory that the CPU only writes",
            alias="write-combined",
            calls={"cuda": {"alloc": "cudaHostAlloc(WriteCombined) + cudaMalloc", "init": "write, not cached"}},
        ),
    ),
)
_FLAGS: dict[str, HostFlag] = {"default": "default", "portable": "portable", "write-combined": "write-combined"}


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        host = ctx.gpu.host_alloc(ctx.size_bytes, _FLAGS[ctx.variant])
        device = ctx.gpu.device(ctx.size_bytes)
    with ctx.phase("init"):
        host.fill(ctx.value)
    with ctx.phase("h2d"):
        ctx.gpu.copy_to_device(device, host)
    with ctx.phase("kernel"):
        ctx.gpu.add_two(device)
    with ctx.phase("d2h"):
        ctx.gpu.copy_to_host(host, device)
    ctx.verify(host)
    with ctx.phase("free"):
        host.free()
        device.free()
