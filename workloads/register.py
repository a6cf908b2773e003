"""Existing memory, pinned afterwards: cudaHostRegister, before or after its first touch.

cudaHostRegister pins existing memory. If the memory was touched, it only pins the pages, at a tenth of the cost of
cudaMallocHost. If not, it first has to create and zero every page, which makes page-locked allocation slow. Compare
`register` of the two variants: the difference is page creation, not pinning.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

SPEC = ScenarioSpec(
    name="register",
    family="pinning",
    summary="malloc, then cudaHostRegister: the cost of pinning existing or missing pages",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "register", "h2d", "kernel", "d2h", "unregister", "free"),
    memory=("pageable", "device"),
    calls={
        "cuda": {
            "alloc": "malloc + cudaMalloc",
            "init": "first write",
            "register": "cudaHostRegister",
            "h2d": "cudaMemcpy(HostToDevice)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpy(DeviceToHost)",
            "unregister": "cudaHostUnregister",
            "free": "free + cudaFree",
        },
        "host": {
            "alloc": "malloc",
            "init": "first write",
            "register": "IORING_REGISTER_BUFFERS",
            "h2d": "memcpy",
            "kernel": "numpy add",
            "d2h": "memcpy",
            "unregister": "IORING_UNREGISTER_BUFFERS",
            "free": "free",
        },
    },
    emulation="private memory pinned by io_uring registered buffers, copied by the CPU",
    variants=(
        Variant("touched", "write first, then register: the pages exist"),
        Variant(
            "untouched",
            "register first: the pages are created while they are pinned",
            phases=("alloc", "register", "init", "h2d", "kernel", "d2h", "unregister", "free"),
            calls={"cuda": {"init": "write"}, "host": {"init": "write"}},
        ),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    touched = ctx.variant == "touched"
    with ctx.phase("alloc"):
        host = ctx.backend.pageable(ctx.size_bytes)
        device = ctx.backend.device(ctx.size_bytes)
    if touched:
        with ctx.phase("init"):
            host.fill(ctx.value)
    with ctx.phase("register"):
        ctx.backend.register(host)
    if not touched:
        with ctx.phase("init"):
            host.fill(ctx.value)
    with ctx.phase("h2d"):
        ctx.backend.copy_to_device(device, host)
    with ctx.phase("kernel"):
        ctx.backend.add_two(device)
    with ctx.phase("d2h"):
        ctx.backend.copy_to_host(host, device)
    ctx.verify(host)
    with ctx.phase("unregister"):
        ctx.backend.unregister(host)
    with ctx.phase("free"):
        host.free()
        device.free()
