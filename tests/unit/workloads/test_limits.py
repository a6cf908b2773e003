"""Free memory: what the machine and its control groups leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from pinprof.workloads.backends import limits

from pinprof.base.errors import ScenarioError

GIB = 1 << 30


def machine(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    meminfo = "MemTotal: 33554432 kB\nMemFree: 1 kB\nMemAvailable: 16777216 kB\n"
    for name, text in {"proc/meminfo": meminfo, "proc/self/cgroup": cgroup, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(path: str, limit: str, used: int, v1: bool = False) -> dict[str, str]:
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if v1 else ("memory.max", "memory.current")
    stat = f"anon 1\ninactive_file {GIB // 2}\n"
    return {f"{path}/{names[0]}": limit, f"{path}/{names[1]}": str(used), f"{path}/memory.stat": stat}


def test_machine_without_groups_has_what_meminfo_says(tmp_path: Path) -> None:
    root = machine(tmp_path, "", {})
    (root / "proc/self/cgroup").unlink()
    assert limits.free_host_bytes(root) == 16 * GIB


def test_group_above_the_own_one_counts_and_its_file_cache_is_free(tmp_path: Path) -> None:
    files = group("sys/fs/cgroup/a/b", "max", GIB) | group("sys/fs/cgroup/a", str(4 * GIB), 3 * GIB)
    assert limits.free_host_bytes(machine(tmp_path, "0::/a/b\n", files)) == 3 * GIB // 2


def test_container_whose_path_is_not_visible_uses_the_root_of_the_mount(tmp_path: Path) -> None:
    files = group("sys/fs/cgroup", str(2 * GIB), GIB)
    assert limits.free_host_bytes(machine(tmp_path, "0::/../../host/path\n", files)) == 3 * GIB // 2


def test_version_1_groups_count(tmp_path: Path) -> None:
    files = group("sys/fs/cgroup/memory/job", str(GIB), GIB, v1=True)
    assert limits.free_host_bytes(machine(tmp_path, "4:memory:/job\n3:cpu:/\n", files)) == GIB // 2


def test_lines_that_mean_nothing_are_passed_over(tmp_path: Path) -> None:
    files = group("sys/fs/cgroup", "many", GIB)
    assert limits.free_host_bytes(machine(tmp_path, "nonsense\n\n0::\n", files)) == 16 * GIB


def test_more_than_the_usable_share_is_refused_with_figures() -> None:
    limits.require("host memory", 9 * GIB, 10 * GIB)
    with pytest.raises(ScenarioError, match=r"9\.5 GiB of host memory, and 10 GiB are free"):
        limits.require("host memory", 19 * GIB // 2, 10 * GIB)
