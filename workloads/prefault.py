"""The cure for slow page-locked allocation: create the pages in parallel, in huge pages, and pin them then."""

from __future__ import annotations

from pinprof.workload import RunContext, Variant, WorkloadSpec

SPEC = WorkloadSpec(
    name="prefault",
    family="pinning",
    summary="mmap, touch by several threads, then cudaHostRegister: pages created in parallel, pinned at last",
    description=(
        "cudaMallocHost creates and zeroes its pages one by one in one thread of the kernel. A program can do that "
        "itself: reserve memory, let every core touch its share, and register what exists then. Huge pages leave a "
        "five-hundredth of the page faults, and fewer pages to pin. `alloc`, `touch` and `register` together replace "
        "the `alloc` of `pinned`; run it with --threads 1, 2, 4 … for the curve."
    ),
    phases=("alloc", "touch", "register", "init", "h2d", "kernel", "d2h", "unregister", "free"),
    memory=("pageable", "device"),
    calls={
        "cuda": {
            "alloc": "mmap + madvise(MADV_HUGEPAGE) + cudaMalloc",
            "touch": "first write by each thread",
            "register": "cudaHostRegister",
            "init": "write",
            "h2d": "cudaMemcpy(HostToDevice)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpy(DeviceToHost)",
            "unregister": "cudaHostUnregister",
            "free": "munmap + cudaFree",
        },
        "host": {
            "alloc": "mmap + madvise(MADV_HUGEPAGE)",
            "touch": "first write by each thread",
            "register": "IORING_REGISTER_BUFFERS",
            "init": "write",
            "h2d": "memcpy",
            "kernel": "numpy add",
            "d2h": "memcpy",
            "unregister": "IORING_UNREGISTER_BUFFERS",
            "free": "munmap",
        },
    },
    emulation="private memory pinned by io_uring registered buffers, copied by the CPU",
    variants=(
        Variant("huge", "MADV_HUGEPAGE: one page fault for each 2 MiB"),
        Variant(
            "small",
            "MADV_NOHUGEPAGE: one page fault for each 4 KiB",
            calls={
                "cuda": {"alloc": "mmap + madvise(MADV_NOHUGEPAGE) + cudaMalloc"},
                "host": {"alloc": "mmap + madvise(MADV_NOHUGEPAGE)"},
            },
        ),
    ),
    threaded=True,
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        host = ctx.backend.pages(ctx.size_bytes, huge=ctx.variant == "huge")
        device = ctx.backend.device(ctx.size_bytes)
    with ctx.phase("touch"):
        ctx.backend.touch(host, ctx.threads)
    with ctx.phase("register"):
        ctx.backend.register(host)
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
