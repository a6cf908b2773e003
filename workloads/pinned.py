"""Copies from and to page-locked memory: fast transfers, an expensive allocation.

The device copies page-locked memory itself, at the full rate of the link. The cost is in the allocation: it creates,
zeroes and pins every page before the program has written anything.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, paragraphs

SPEC = ScenarioSpec(
    name="pinned",
    family="transfer",
    summary="cudaMallocHost, copy to the device, x += 2, copy back: pages created and pinned in the allocation",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "h2d", "kernel", "d2h", "free"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "alloc": "cudaMallocHost + cudaMalloc",
            "init": "write",
            "h2d": "cudaMemcpy(HostToDevice)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpy(DeviceToHost)",
            "free": "cudaFreeHost + cudaFree",
        },
        "host": {
            "alloc": "memfd + IORING_REGISTER_BUFFERS",
            "init": "write",
            "h2d": "memcpy",
            "kernel": "numpy add",
            "d2h": "memcpy",
            "free": "IORING_UNREGISTER_BUFFERS + munmap",
        },
    },
    emulation="shared memory (memfd) pinned by io_uring registered buffers, copied by the CPU",
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        host = ctx.backend.pinned(ctx.size_bytes)
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
