"""Page-locked memory allocated in each step, or taken from a pool that pins once.

Eight steps work on an eighth of the data each. The mistake allocates, pins and frees a buffer in each step, so every
byte is pinned once and copied once: this costs more than a pageable copy. The pool pins one buffer, before the first
iteration, and uses it in all steps of all iterations: a few copies repay the pin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pinprof.scenario import DeviceMemory, HostMemory, RunContext, ScenarioSpec, Variant, paragraphs

STEPS = 8
_PAGE = 4096
_Buffers = tuple[HostMemory, DeviceMemory]

SPEC = ScenarioSpec(
    name="alloc-loop",
    family="mistake and cure",
    summary="eight steps that each pin and free their buffer, or a pool that pins once",
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
        Variant(
            "pool", "the cure: pin once, reuse in every step", phases=("init", "h2d", "kernel", "d2h"), alias="pool"
        ),
    ),
)


@contextlib.contextmanager
def prepare(ctx: RunContext) -> Iterator[_Buffers | None]:
    """The pool: one buffer of a step on both sides."""
    buffers = _allocate(ctx) if ctx.variant == "pool" else None
    yield buffers
    if buffers is not None:
        _free(buffers)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    for _ in range(STEPS):
        if ctx.prepared is not None:
            _step(ctx, *ctx.prepared)
            continue
        with ctx.phase("alloc"):
            buffers = _allocate(ctx)
        _step(ctx, *buffers)
        with ctx.phase("free"):
            _free(buffers)


def _allocate(ctx: RunContext) -> _Buffers:
    size_bytes = max(_PAGE, ctx.size_bytes // STEPS // _PAGE * _PAGE)
    return ctx.backend.pinned(size_bytes), ctx.backend.device(size_bytes)


def _free(buffers: _Buffers) -> None:
    for memory in buffers:
        memory.free()


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
