"""Copies and kernels one after another, or overlapped on three streams.

The data passes through the GPU in pieces: copy to the device, compute, copy back. The blocking loop waits for each of
the three, so link and GPU take turns. With three streams, each with its own slot on the device, one piece arrives
while the GPU computes another and a third leaves: both directions of the link are busy at once, and `pipeline` falls
towards half. An event after each piece tells the host, in order, which pieces have returned. Memory is allocated once,
before the first iteration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pinprof.scenario import DeviceMemory, HostMemory, RunContext, ScenarioSpec, Variant, paragraphs

PIECES = 24
STREAMS = 3

SPEC = ScenarioSpec(
    name="overlap",
    family="mistake and cure",
    summary="a blocking loop over pieces, or three rotating streams with events",
    description=paragraphs(__doc__),
    phases=("init", "pipeline"),
    memory=("pinned", "device"),
    calls={
        "cuda": {
            "init": "write",
            "pipeline": "cudaMemcpy + cuLaunchKernel + cudaMemcpy for each piece",
        },
    },
    variants=(
        Variant("blocking", "each copy and each kernel waits for the one before"),
        Variant(
            "streams",
            "the cure: three rotating streams, an event after each piece",
            calls={"cuda": {"pipeline": "cudaMemcpyAsync + cuLaunchKernel + cudaMemcpyAsync + cudaEventRecord"}},
        ),
    ),
)


@contextlib.contextmanager
def prepare(ctx: RunContext) -> Iterator[tuple[HostMemory, list[DeviceMemory]]]:
    """Page-locked memory, and a slot on the device for each stream."""
    host = ctx.gpu.pinned(ctx.size_bytes)
    largest = ctx.pieces(host, count=PIECES)[0].size_bytes
    slots = [ctx.gpu.device(largest) for _ in range(STREAMS)]
    yield host, slots
    host.free()
    for slot in slots:
        slot.free()


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    host, slots = ctx.prepared
    streams = [ctx.gpu.stream() for _ in range(STREAMS)]
    with ctx.phase("init"):
        host.fill(ctx.value)
    with ctx.phase("pipeline"):
        events = []
        for number, piece in enumerate(ctx.pieces(host, count=PIECES)):
            slot = slots[number % STREAMS].part(0, piece.size_bytes)
            if ctx.variant == "blocking":
                ctx.gpu.copy_to_device(slot, piece)
                ctx.gpu.add_two(slot)
                ctx.gpu.copy_to_host(piece, slot)
            else:
                stream = streams[number % STREAMS]
                stream.copy_to_device(slot, piece)
                stream.add_two(slot)
                stream.copy_to_host(piece, slot)
                events.append(stream.record())
        for event in events:
            event.synchronize()
    ctx.verify(host)
    for stream in streams:
        stream.free()
