"""Unified memory: pages migrate to the side that touches them.

Managed memory has one address for CPU and GPU. The program copies nothing explicitly: each side faults on the pages
that the other holds, and the driver migrates them, so every change of side costs again.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, paragraphs

SPEC = ScenarioSpec(
    name="uvm",
    family="unified memory",
    summary="cudaMallocManaged, CPU writes, GPU x += 2, CPU reads: migration on demand, both ways",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "kernel", "cpu_read", "free"),
    memory=("managed",),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged",
            "init": "CPU first touch",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize, faulting on the GPU",
            "cpu_read": "CPU reads, faulting pages back",
            "free": "cudaFree",
        },
        "host": {
            "alloc": "mmap + UFFDIO_REGISTER",
            "init": "CPU first touch, UFFDIO_COPY",
            "kernel": "memcpy + MADV_DONTNEED, numpy add",
            "cpu_read": "CPU reads, UFFDIO_COPY",
            "free": "UFFDIO_UNREGISTER + munmap",
        },
    },
    emulation="private memory whose missing pages userfaultfd serves in 2 MiB blocks; this is userfaultfd, not UVM",
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        memory = ctx.backend.managed(ctx.size_bytes)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    with ctx.phase("kernel"):
        ctx.backend.add_two(memory)
    with ctx.phase("cpu_read"):
        memory.read()
    ctx.verify(memory)
    with ctx.phase("free"):
        memory.free()
