"""What PyTorch says of its own memory: its allocators' pools by line, and the counts of the pinned one."""

from __future__ import annotations

from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class TorchLine:
    """What one line of the program has of a pool."""

    line: str
    """`function (file.py:12)`, as the ledger names lines; empty where the snapshot has no stack of Python."""
    blocks: int
    """At the snapshot."""
    bytes: int
    """What these blocks have, as PyTorch rounds them."""
    peak_bytes: int | None
    """What it had when the pool had most, as requested; None without a history."""


@dataclass(frozen=True)
class TorchPool:
    """The memory that one allocator of PyTorch has from CUDA."""

    name: str
    """`cuda:0`, or `pinned` for the host's."""
    segments: int
    reserved_bytes: int
    """From CUDA, at the snapshot."""
    used_bytes: int
    """The part that tensors have, or whose free waits for a stream."""
    requested_bytes: int | None
    """What tensors requested of that; None where PyTorch does not say: of pinned memory."""
    peak_bytes: int | None
    """The most that was used at once in the recorded history, as tensors requested it; None without one."""
    lines: tuple[TorchLine, ...]
    """The lines that have most, now or at the peak, first."""
    others_bytes: int
    """What lines that are not among them have at the snapshot."""

    @property
    def free_bytes(self) -> int:
        """What the pool could give without asking CUDA, apart from fragmentation."""
        return self.reserved_bytes - max(self.used_bytes, self.peak_bytes or 0)


@dataclass(frozen=True)
class TorchHostStats:
    """`torch.cuda.host_memory_stats()`: the allocator of pinned memory since the program's start."""

    held_bytes: int
    """From CUDA, in use or kept for reuse, rounded up to powers of two."""
    most_held_bytes: int
    used_bytes: int
    most_used_bytes: int
    allocations: int
    """Calls of CUDA that pinned memory."""
    allocating_ns: int
    frees: int
    freeing_ns: int


@dataclass(frozen=True)
class TorchMemory:
    """What files of PyTorch say; at least one part is there."""

    pools: tuple[TorchPool, ...]
    """A snapshot's: those of GPUs, then the pinned one; empty without a snapshot."""
    host: TorchHostStats | None
