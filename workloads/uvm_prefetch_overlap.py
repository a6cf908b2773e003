"""Unified memory in tiles: one arrives while the GPU computes another and a third returns.

The memory is prefetched in sixteen tiles. One stream brings tiles to the GPU, one computes, one returns them, and
events order the steps of a tile. So the kernel and both directions of the link work at once. On one stream, each waits
for the other. Tiles should be multiples of 2 MiB, the driver's block: give at least 32 MiB.
"""

from __future__ import annotations

from pinprof.scenario import RunContext, ScenarioSpec, Variant, paragraphs

TILES = 16

SPEC = ScenarioSpec(
    name="uvm-prefetch-overlap",
    family="unified memory",
    summary="prefetch of tiles on three streams with events, or on one stream",
    description=paragraphs(__doc__),
    phases=("alloc", "init", "tiles", "cpu_read", "free"),
    memory=("managed",),
    calls={
        "cuda": {
            "alloc": "cudaMallocManaged + cudaStreamCreate",
            "init": "CPU first touch",
            "tiles": "cudaMemPrefetchAsync + cuLaunchKernel + cudaMemPrefetchAsync on three streams",
            "cpu_read": "CPU reads",
            "free": "cudaFree",
        },
    },
    variants=(
        Variant("three-streams", "arriving, computing and leaving at the same time"),
        Variant(
            "one-stream",
            "one after another",
            calls={"cuda": {"tiles": "cudaMemPrefetchAsync + cuLaunchKernel + cudaMemPrefetchAsync on one stream"}},
        ),
    ),
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        memory = ctx.gpu.managed(ctx.size_bytes)
        streams = [ctx.gpu.stream() for _ in range(3 if ctx.variant == "three-streams" else 1)]
    arriving, computing, leaving = streams if len(streams) == 3 else streams * 3
    tiles = ctx.pieces(memory, count=TILES)
    with ctx.phase("init"):
        memory.fill(ctx.value)
    with ctx.phase("tiles"):
        for tile in tiles:
            arriving.prefetch(tile, "device")
            computing.wait(arriving.record())
            computing.add_two(tile)
            leaving.wait(computing.record())
            leaving.prefetch(tile, "host")
        leaving.synchronize()
    with ctx.phase("cpu_read"):
        memory.read()
    ctx.verify(memory)
    with ctx.phase("free"):
        for stream in streams:
            stream.free()
        memory.free()
