"""Copies from and to memory of malloc: a program before any optimisation.

Memory from malloc has no pages until the program touches it, so the first write causes a page fault for each 4 KiB.
The device cannot read it directly: the driver copies it, piece by piece, through a small page-locked buffer.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, paragraphs

SPEC = ScenarioSpec(
    name="pageable",
    family="transfer",
    summary="malloc, copy to the device, x += 2, copy back: page faults and staging copies",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "h2d", "kernel", "d2h", "free"),
    memory=("pageable", "device"),
    calls={
        "cuda": {
            "alloc": "malloc + cudaMalloc",
            "init": "first write",
            "h2d": "cudaMemcpy(HostToDevice)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpy(DeviceToHost)",
            "free": "free + cudaFree",
        },
        "host": {
            "alloc": "malloc",
            "init": "first write",
            "h2d": "memcpy × 2 through registered buffers",
            "kernel": "numpy add",
            "d2h": "memcpy × 2 through registered buffers",
            "free": "free",
        },
    },
    emulation="private memory, staged through a small ring of io_uring registered buffers",
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        host = ctx.backend.pageable(ctx.size_bytes)
        device = ctx.backend.device(ctx.size_bytes)
    with ctx.phase("init"):
        host.fill(ctx.value)
    with ctx.phase("h2d"):
        ctx.backend.copy_to_device(device, host)
    with ctx.phase("kernel"):
        ctx.backend.add_two(device)
    with ctx.phase("d2h"):
        ctx.backend.copy_to_host(host, device)
    ctx.verify(host)
    with ctx.phase("free"):
        host.free()
        device.free()
