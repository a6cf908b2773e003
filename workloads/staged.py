"""Large data through one small page-locked ring that is reused: most of the bandwidth for little pinned memory.

The CPU copies pageable data into one of four page-locked slots. The device fetches it from there while the CPU fills
the next slot. Only 16 MiB are ever pinned, so the allocation costs very little, and copies become asynchronous. The
rate is that of the CPU's memcpy or of the link, whichever is lower. The driver does the same for `pageable`, in smaller
pieces.
"""

from __future__ import annotations

from collections import deque

from pinprof.scenario import HostMemory, RunContext, ScenarioSpec, StreamEvent, paragraphs

SLOTS = 4
SLOT_BYTES = 4 << 20

SPEC = ScenarioSpec(
    name="staged",
    family="transfer",
    summary="malloc, copied through one reused ring of pinned memory: 16 MiB pinned at any size",
    description=paragraphs(__doc__),
    phases=("alloc", "ring", "init", "h2d", "kernel", "d2h", "free"),
    memory=("pageable", "device"),
    calls={
        "cuda": {
            "alloc": "malloc + cudaMalloc",
            "ring": "cudaMallocHost + cudaStreamCreate",
            "init": "first write",
            "h2d": "memcpy + cudaMemcpyAsync + cudaEventRecord, alternating",
            "kernel": "cuLaunchKernel + cudaDeviceSynchronize",
            "d2h": "cudaMemcpyAsync + cudaEventSynchronize + memcpy, alternating",
            "free": "free + cudaFree + cudaFreeHost",
        },
        "host": {
            "alloc": "malloc",
            "ring": "memfd + IORING_REGISTER_BUFFERS",
            "init": "first write",
            "h2d": "memcpy × 2 through the ring",
            "kernel": "numpy add",
            "d2h": "memcpy × 2 through the ring",
            "free": "free + IORING_UNREGISTER_BUFFERS",
        },
    },
    emulation="a ring of shared memory (memfd) pinned by io_uring; both copies are the CPU's, one after the other",
)


def iterate(ctx: RunContext) -> None:
    """One iteration."""
    with ctx.phase("alloc"):
        host = ctx.backend.pageable(ctx.size_bytes)
        device = ctx.backend.device(ctx.size_bytes)
    with ctx.phase("ring"):
        ring = ctx.backend.pinned(SLOTS * SLOT_BYTES)
        stream = ctx.backend.stream()
    slots = ctx.pieces(ring, size_bytes=SLOT_BYTES)
    pairs = list(zip(ctx.pieces(host, size_bytes=SLOT_BYTES), ctx.pieces(device, size_bytes=SLOT_BYTES), strict=True))
    with ctx.phase("init"):
        host.fill(ctx.value)
    with ctx.phase("h2d"):
        filled: deque[StreamEvent] = deque()
        for number, (source, target) in enumerate(pairs):
            if len(filled) == SLOTS:
                filled.popleft().synchronize()
            slot = slots[number % SLOTS].part(0, source.size_bytes)
            slot.copy_from(source)
            stream.copy_to_device(target, slot)
            filled.append(stream.record())
        stream.synchronize()
    with ctx.phase("kernel"):
        ctx.backend.add_two(device)
    with ctx.phase("d2h"):
        coming: deque[tuple[StreamEvent, HostMemory, HostMemory]] = deque()
        for number, (to, piece) in enumerate(pairs):
            if len(coming) == SLOTS:
                _take(*coming.popleft())
            slot = slots[number % SLOTS].part(0, piece.size_bytes)
            stream.copy_to_host(slot, piece)
            coming.append((stream.record(), slot, to))
        while coming:
            _take(*coming.popleft())
    ctx.verify(host)
    with ctx.phase("free"):
        stream.free()
        host.free()
        device.free()
        ring.free()


def _take(arrived: StreamEvent, slot: HostMemory, target: HostMemory) -> None:
    """Copy what has arrived in a slot to where it belongs."""
    arrived.synchronize()
    target.copy_from(slot)
