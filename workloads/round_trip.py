"""Data copied to the device and back in every step, or kept on the GPU.

Eight kernels in a row work on the same data. The mistake copies it back to the host after each, as code does that wraps
every operation separately: sixteen copies for eight kernels that take a hundredth of their time. The cure leaves the
data on the GPU and copies twice in total. Memory is allocated once, before the first iteration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pinprof.scenario import DeviceMemory, HostMemory, RunContext, ScenarioSpec, Variant, paragraphs

STEPS = 8

SPEC = ScenarioSpec(
    name="round-trip",
    family="mistake and cure",
    summary="eight kernels with copies both ways around each, or with one copy each way in total",
    description=paragraphs(__doc__),
    phases=("init", "h2d", "kernel", "d2h"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "init": "write",
            "h2d": "cudaMemcpy(HostToDevice)",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpy(DeviceToHost)",
        },
        "host": {
            "init": "write",
            "h2d": "memcpy",
            "kernel": "numpy add",
            "d2h": "memcpy",
        },
    },
    emulation="shared memory (memfd) pinned by io_uring registered buffers, copied by the CPU",
    variants=(
        Variant("copied", "the data goes to the GPU and back around each of eight kernels"),
        Variant("resident", "the cure: the data stays on the GPU between them"),
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
    resident = ctx.variant == "resident"
    host, device = ctx.prepared
    with ctx.phase("init"):
        host.fill(ctx.value)
    for step in range(STEPS):
        if not resident or step == 0:
            with ctx.phase("h2d"):
                ctx.backend.copy_to_device(device, host)
        with ctx.phase("kernel"):
            ctx.backend.add_two(device)
        if not resident or step == STEPS - 1:
            with ctx.phase("d2h"):
                ctx.backend.copy_to_host(host, device)
    ctx.verify(host, added=2 * STEPS)
