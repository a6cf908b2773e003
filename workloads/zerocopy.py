"""The device works directly in page-locked host memory: no copy at all.

Mapped page-locked memory also has an address on the device, so the kernel reads and writes it over the link. This saves
both copies and their device memory. The allocation still creates and pins every page.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, paragraphs

SPEC = ScenarioSpec(
    name="zerocopy",
    family="transfer",
    summary="cudaHostAlloc(Mapped), x += 2 over the link: no copy, the same pinning",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "kernel", "free"),
    memory=("mapped",),
    calls={
        "cuda": {
            "alloc": "cudaHostAlloc(Mapped) + cudaHostGetDevicePointer",
            "init": "write",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "free": "cudaFreeHost",
        },
        "host": {
            "alloc": "memfd + IORING_REGISTER_BUFFERS",
            "init": "write",
            "kernel": "numpy add",
            "free": "IORING_UNREGISTER_BUFFERS + munmap",
        },
    },
    aliases=("mapped", "zero-copy"),
    emulation="shared memory (memfd) pinned by io_uring registered buffers, worked on by the CPU",
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        memory = ctx.backend.mapped(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    with ctx.phase("kernel"):
        ctx.backend.add_two(memory)
    ctx.verify(memory)
    with ctx.phase("free"):
        memory.free()
