"""The host's NUMA nodes as a PCI device sees them."""

from __future__ import annotations

from pathlib import Path


def nodes_by_distance(bus_id: str, sys: Path) -> tuple[int, ...]:
    """Nodes with normal memory, nearest to the PCI device first; (0,) where the kernel knows of none.

    Sources: bus/pci/devices/ID/numa_node (-1 when unknown, taken as node 0), devices/system/node/has_normal_memory
    (a list of ranges) and node*/distance (one figure for each online node). A GPU's own memory node, as on Grace, is no
    node of the host and has no normal memory.
    """
    nodes = sys / "devices/system/node"
    try:
        with_memory = _ranges((nodes / "has_normal_memory").read_text("ascii"))
        online = _ranges((nodes / "online").read_text("ascii"))
    except (OSError, ValueError):
        return (0,)
    try:
        near = max(0, int((sys / "bus/pci/devices" / bus_id / "numa_node").read_text("ascii")))
    except (OSError, ValueError):
        near = 0
    try:
        distances = [int(figure) for figure in (nodes / f"node{near}/distance").read_text("ascii").split()]
    except (OSError, ValueError):
        distances = []
    known = dict(zip(online, distances, strict=False))
    return tuple(sorted(with_memory, key=lambda node: (node != near, known.get(node, 0), node))) or (0,)


def _ranges(text: str) -> list[int]:
    """`0-1,4` as numbers."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
