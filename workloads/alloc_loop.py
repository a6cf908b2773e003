"""Page-locked memory allocated for each step, against a pool: pin once, reuse.

The data is worked on in eight steps of an eighth each. The mistake allocates, pins and frees a buffer in each step,
so every byte that is copied once has been pinned once: more expensive than a pageable copy. The pool pins one buffer
and uses it in all steps; `alloc` and `free` are paid once, and a pin is repaid after a few copies.
"""

from __future__ import annotations

from pinprof.scenario import DeviceMemory, HostMemory, RunContext, ScenarioSpec, Variant, paragraphs

STEPS = 8
_PAGE = 4096

SPEC = ScenarioSpec(
    name="alloc-loop",
    family="mistake and cure",
    summary="eight steps that each pin and free their buffer, against a pool that pins once",
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
    variants=(
        Variant("mistake", "pin and free in each of eight steps"),
        Variant("pool", "the cure: pin once, reuse eight times", alias="pool"),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    if ctx.variant == "pool":
        buffers = _allocate(ctx)
        for _ in range(STEPS):
            _step(ctx, *buffers)
        _free(ctx, *buffers)
    else:
        for _ in range(STEPS):
            buffers = _allocate(ctx)
            _step(ctx, *buffers)
            _free(ctx, *buffers)


def _allocate(ctx: RunContext) -> tuple[HostMemory, DeviceMemory]:
    size_bytes = max(_PAGE, ctx.size_bytes // STEPS // _PAGE * _PAGE)
    with ctx.phase("alloc"):
        return ctx.backend.pinned(size_bytes), ctx.backend.device(size_bytes)


def _step(ctx: RunContext, host: HostMemory, device: DeviceMemory) -> None:
    with ctx.phase("init"):
        host.fill(ctx.value)
    with ctx.phase("h2d"):
        ctx.backend.copy_to_device(device, host)
    with ctx.phase("kernel"):
        ctx.backend.add_two(device)
    with ctx.phase("d2h"):
        ctx.backend.copy_to_host(host, device)
    ctx.verify(host)


def _free(ctx: RunContext, host: HostMemory, device: DeviceMemory) -> None:
    with ctx.phase("free"):
        host.free()
        device.free()
