"""What was wanted of an allocator that rounds up: PyTorch's pins powers of two.

Copies tell, where they reach into more than half of such a block: PyTorch would have pinned half as much otherwise. A
block that copies reach less far into counts as wanted whole.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.allocations.results import KINDS, AllocationTable
from pinprof.analyze.ledger.results import BASES, Use
from pinprof.base.columns import Int64, UInt8
from pinprof.data.model import Bool, StackTable

_LIBRARIES = ("libtorch", "libc10")


def wanted_of(
    table: AllocationTable,
    use: Use | None,
    stack: Int64,
    stacks: StackTable | None,
) -> tuple[Int64, UInt8]:
    """Per allocation the bytes that were wanted, and who tells: index into `BASES`.

    `stack`: where each was called.
    """
    wanted, basis = table.wanted_bytes.copy(), np.zeros(len(table), np.uint8)
    size = table.size_bytes
    rounded = np.isin(table.kind, (KINDS.index("pinned"), KINDS.index("registered")))
    rounded &= (size > 0) & ((size & (size - 1)) == 0)
    rows = np.flatnonzero(rounded)
    if use is not None and len(rows):
        reached = use.reached_bytes[rows]
        fits = (2 * reached > size[rows]) & (reached < size[rows]) & _by_torch(stack[rows], stacks)
        wanted[rows[fits]] = reached[fits]
        basis[rows[fits]] = BASES.index("copies")
    return wanted, basis


def _by_torch(stack: Int64, stacks: StackTable | None) -> Bool:
    """Whether calls came out of PyTorch's libraries."""
    if stacks is None:
        return np.zeros(len(stack), np.bool_)
    frames = stacks.frames
    torch = np.array([dso.name.startswith(_LIBRARIES) for dso in frames.dsos] or [False], np.bool_)
    nodes, which = np.unique(stack, return_inverse=True)
    of_node = [
        node >= 0 and any(torch[int(frames.dso[int(stacks.frame[above])])] for above in stacks.chain(node))
        for node in nodes.tolist()
    ]
    return np.array(of_node or [False], np.bool_)[which.reshape(-1)]
