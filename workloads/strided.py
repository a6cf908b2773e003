"""One kernel, three orders of access: neighbouring threads on neighbouring elements, far apart, and shifted by one.

The GPU serves a warp's 32 accesses in lines of 128 bytes. Coalesced accesses need one line. Accesses 128 bytes apart
need 32 lines; each brings 4 useful bytes and is fetched again later. Accesses shifted by one element need two lines,
which caches mostly hide. The copies are the same in all variants: only `kernel` differs.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

STRIDE = 32
"""Elements: 128 bytes, so that each thread of a warp touches a cache line of its own."""

SPEC = ScenarioSpec(
    name="strided",
    family="kernel",
    summary="x += 2 on device memory: coalesced, strided by 128 bytes, shifted by one element",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "h2d", "kernel", "d2h", "free"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "alloc": "cudaMallocHost + cudaMalloc",
            "init": "write",
            "h2d": "cudaMemcpy(HostToDevice)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize, coalesced",
            "d2h": "cudaMemcpy(DeviceToHost)",
            "free": "cudaFreeHost + cudaFree",
        },
    },
    variants=(
        Variant("coalesced", "neighbouring threads on neighbouring elements"),
        Variant(
            "strided",
            "neighbouring threads 128 bytes apart",
            calls={"cuda": {"kernel": "cuLaunchKernel + cudaDeviceSynchronize, strided"}},
        ),
        Variant(
            "misaligned",
            "coalesced, but beginning one element after a line's",
            calls={"cuda": {"kernel": "cuLaunchKernel + cudaDeviceSynchronize, misaligned"}},
        ),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        host = ctx.gpu.pinned(ctx.size_bytes)
        device = ctx.gpu.device(ctx.size_bytes)
    with ctx.phase("init"):
        host.fill(ctx.value)
    with ctx.phase("h2d"):
        ctx.gpu.copy_to_device(device, host)
    with ctx.phase("kernel"):
        stride = STRIDE if ctx.variant == "strided" else 1
        ctx.gpu.add_two_strided(device, stride, offset=int(ctx.variant == "misaligned"))
    with ctx.phase("d2h"):
        ctx.gpu.copy_to_host(host, device)
    ctx.verify(host)
    with ctx.phase("free"):
        host.free()
        device.free()
