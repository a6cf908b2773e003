"""What distinguishes captures: labels, rank, host, driver, kernel, NUMA node, versions, day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pinprof.analyze.run import Run

HOST, NUMA, RANK, DAY = "host", "NUMA node", "rank", "day"
ON_HOST = "NUMA node of host"
_MOST_LABELS = 50
_NUMA_LABELS = ("numa", "numa-node", "numa_node", "NUMA node")

_FROM_SURROUNDINGS = {
    "GPU driver": "driver",
    "kernel": "kernel",
    "pinprof": "version",
    "CUDA": "CUDA",
    "GPU": "GPU",
    "processor": "processor",
    "processors": "processors",
    "memory": "memory",
    "virtual machine": "virtual machine",
    "huge pages": "huge pages",
    "huge pages: defragmentation": "huge pages: defragmentation",
    "NUMA nodes": "NUMA nodes",
    "NUMA balancing": "NUMA balancing",
    "zeroing of allocations": "zeroing of allocations",
    "recorders": "recorders",
    "samples per second": "samples per second",
}
"""What `compare.surroundings` calls it → what the fleet does."""
_ORDER = (HOST, NUMA, ON_HOST, "driver", "kernel", "version", RANK, DAY)
"""Of dimensions that part the captures alike, what is named first."""


def facts_of(analysis: Run, around: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(dimension, value) of one capture, each dimension once; what the recording does not say is absent."""
    manifest = analysis.capture.manifest
    labels = {name: value for name, value in list(manifest.labels.items())[:_MOST_LABELS] if value}
    facts = {ours: around[theirs] for theirs, ours in _FROM_SURROUNDINGS.items() if theirs in around}
    rank = manifest.outcome.get("rank")
    if isinstance(rank, Mapping) and isinstance(rank.get("number"), int):
        facts[RANK] = str(rank["number"])
    started = str(manifest.outcome.get("started_utc") or "")
    if len(started) >= 10:
        facts[DAY] = started[:10]
    node = next((labels.pop(name) for name in _NUMA_LABELS if name in labels), "") or _numa_node(manifest.host)
    facts |= labels
    if node:
        facts[NUMA] = node
        if HOST in facts:
            facts[ON_HOST] = f"{facts[HOST]} node {node}"
    yield from facts.items()


def _numa_node(host: Mapping[str, Any]) -> str:
    """The GPU's, where there is one GPU or all are on one node."""
    gpus = host.get("gpus")
    nodes = {gpu.get("numa_node") for gpu in gpus if isinstance(gpu, Mapping)} if isinstance(gpus, list) else set()
    return str(nodes.pop()) if len(nodes) == 1 and None not in nodes else ""


def place_of(dimension: str) -> tuple[int, str]:
    """A key that sorts dimensions: those that are known to matter first, then by name."""
    return (_ORDER.index(dimension) if dimension in _ORDER else len(_ORDER), dimension)
