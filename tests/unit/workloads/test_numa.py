"""NUMA nodes by distance from a PCI device, as sysfs tells them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pinprof.workloads.backends.numa import nodes_by_distance

BUS = "0000:9a:00.0"


def machine(root: Path, near: str, with_memory: str, online: str, distances: str) -> Path:
    nodes = root / "devices/system/node"
    device = root / "bus/pci/devices" / BUS
    device.mkdir(parents=True)
    (device / "numa_node").write_text(near)
    for node in range(8):
        (nodes / f"node{node}").mkdir(parents=True)
        (nodes / f"node{node}" / "distance").write_text(distances)
    (nodes / "has_normal_memory").write_text(with_memory)
    (nodes / "online").write_text(online)
    return root


@pytest.mark.parametrize(
    ("near", "with_memory", "online", "distances", "nodes"),
    [
        ("1\n", "0-1\n", "0-1\n", "21 10\n", (1, 0)),
        ("-1\n", "0\n", "0\n", "10\n", (0,)),
        ("2\n", "0-3\n", "0-3\n", "32 12 10 21\n", (2, 1, 3, 0)),
        ("1\n", "0-1\n", "0-1,4\n", "40 10 80\n", (1, 0)),
        ("0\n", "0-1\n", "0-1\n", "damaged", (0, 1)),
        ("0\n", "nonsense", "0\n", "10", (0,)),
        ("0\n", "\n", "0\n", "10", (0,)),
    ],
)
def test_nearest_node_comes_first(
    near: str, with_memory: str, online: str, distances: str, nodes: tuple[int, ...], tmp_path: Path
) -> None:
    assert nodes_by_distance(BUS, machine(tmp_path, near, with_memory, online, distances)) == nodes


def test_machine_that_knows_no_nodes_has_node_0(tmp_path: Path) -> None:
    assert nodes_by_distance(BUS, tmp_path) == (0,)
