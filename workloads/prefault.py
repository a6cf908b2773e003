"""The cure for slow page-locked allocation: create the pages in parallel, in huge pages, then pin them.

cudaMallocHost creates and zeroes its pages one by one, in one thread of the kernel. A program can do that itself:
reserve memory, let every core touch its share, and then register the existing pages. Huge pages need 512 times fewer
page faults, and there are fewer pages to pin. `alloc`, `touch` and `register` together replace the `alloc` of
`pinned`.

The variant `curve` does this with 1, 2, 4 … threads, up to --threads, and once per iteration it allocates the same
size with cudaMallocHost. A range named after the threads spans the time from the first call to usable pinned memory,
so one run shows what parallel page creation saves on this machine.
"""

from __future__ import annotations

from pinprof.scenario import DeviceMemory, HostMemory, RunContext, ScenarioSpec, Variant, paragraphs

_PHASES = ("alloc", "touch", "register", "init", "h2d", "kernel", "d2h", "unregister", "free")

SPEC = ScenarioSpec(
    name="prefault",
    family="pinning",
    summary="mmap, touch by several threads, then cudaHostRegister: pages created in parallel, then pinned",
    description=paragraphs(__doc__),
    phases=_PHASES,
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
        Variant(
            "curve",
            "huge pages touched by 1, 2, 4 … threads up to --threads, compared with cudaMallocHost",
            phases=("malloc_host", "free_host", "device", *_PHASES),
            calls={
                "cuda": {
                    "malloc_host": "cudaMallocHost",
                    "free_host": "cudaFreeHost",
                    "device": "cudaMalloc",
                    "alloc": "mmap + madvise(MADV_HUGEPAGE)",
                },
                "host": {
                    "malloc_host": "memfd + IORING_REGISTER_BUFFERS",
                    "free_host": "IORING_UNREGISTER_BUFFERS + munmap",
                    "device": "existing memory",
                },
            },
        ),
    ),
    threaded=True,
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    if ctx.variant == "curve":
        _curve(ctx)
        return
    with ctx.phase("alloc"):
        host = ctx.backend.pages(ctx.size_bytes, huge=ctx.variant == "huge")
        device = ctx.backend.device(ctx.size_bytes)
    _pin(ctx, host, ctx.threads)
    _use(ctx, host, device)
    with ctx.phase("free"):
        host.free()
        device.free()


def _curve(ctx: RunContext) -> None:
    with ctx.phase("malloc_host"):
        baseline = ctx.backend.pinned(ctx.size_bytes)
    with ctx.phase("free_host"):
        baseline.free()
    with ctx.phase("device"):
        device = ctx.backend.device(ctx.size_bytes)
    for threads in steps(ctx.threads):
        with ctx.phase(f"{threads} {'thread' if threads == 1 else 'threads'}"):
            with ctx.phase("alloc"):
                host = ctx.backend.pages(ctx.size_bytes, huge=True)
            _pin(ctx, host, threads)
        _use(ctx, host, device)
        with ctx.phase("free"):
            host.free()
    device.free()


def steps(most: int) -> list[int]:
    """1, 2, 4 … and the most."""
    return [*(1 << power for power in range(most.bit_length()) if 1 << power < most), most]


def _pin(ctx: RunContext, host: HostMemory, threads: int) -> None:
    with ctx.phase("touch"):
        ctx.backend.touch(host, threads)
    with ctx.phase("register"):
        ctx.backend.register(host)


def _use(ctx: RunContext, host: HostMemory, device: DeviceMemory) -> None:
    """Use it as pinned memory, verify the result, and end the registration."""
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
