"""Thousands of copies of 4 KiB, or one copy of everything.

Each copy costs some microseconds before its first byte moves, so a copy of 4 KiB reaches a hundredth of the link's
rate. The mistake copies the buffer in pieces of 4 KiB, in both directions. The cure copies it at once, as if small
arrays were packed into one buffer. `divide` only prepares the list of pieces. Memory is allocated once, before the
first iteration. The buffer has at most 16 MiB, which makes 4,096 copies each way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pinprof.scenario import DeviceMemory, HostMemory, RunContext, ScenarioSpec, Variant, paragraphs

PIECE_BYTES = 4096

SPEC = ScenarioSpec(
    name="small-copies",
    family="mistake and cure",
    summary="one copy for each 4 KiB, or one for all",
    description=paragraphs(__doc__),
    phases=("divide", "init", "h2d", "kernel", "d2h"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "divide": "list of pieces",
            "init": "write",
            "h2d": "cudaMemcpy(HostToDevice) for each 4 KiB",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpy(DeviceToHost) for each 4 KiB",
        },
        "host": {
            "divide": "list of pieces",
            "init": "write",
            "h2d": "memcpy for each 4 KiB",
            "kernel": "numpy add",
            "d2h": "memcpy for each 4 KiB",
        },
    },
    most_bytes=4096 * PIECE_BYTES,
    emulation="shared memory (memfd) pinned by io_uring; each copy is a memcpy and costs Python's call, not a driver's",
    variants=(
        Variant("many", "one copy for each 4 KiB"),
        Variant(
            "batch",
            "the cure: one copy for all",
            calls={
                "cuda": {"h2d": "cudaMemcpy(HostToDevice)", "d2h": "cudaMemcpy(DeviceToHost)"},
                "host": {"h2d": "memcpy", "d2h": "memcpy"},
            },
        ),
    ),
)


@contextlib.contextmanager
def prepare(ctx: RunContext) -> Iterator[tuple[HostMemory, DeviceMemory]]:
    """Memory on both sides."""
    host, device = ctx.backend.pinned(ctx.size_bytes), ctx.backend.device(ctx.size_bytes)
    yield host, device
    host.free()
    device.free()


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    host, device = ctx.prepared
    with ctx.phase("divide"):
        size_bytes = PIECE_BYTES if ctx.variant == "many" else ctx.size_bytes
        parts = ctx.pieces(host, size_bytes=size_bytes), ctx.pieces(device, size_bytes=size_bytes)
        pairs = list(zip(*parts, strict=True))
    with ctx.phase("init"):
        host.fill(ctx.value)
    with ctx.phase("h2d"):
        for here, there in pairs:
            ctx.backend.copy_to_device(there, here)
    with ctx.phase("kernel"):
        ctx.backend.add_two(device)
    with ctx.phase("d2h"):
        for here, there in pairs:
            ctx.backend.copy_to_host(here, there)
    ctx.verify(host)
