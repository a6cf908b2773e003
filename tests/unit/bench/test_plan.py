"""Which sizes are measured, what is left out and why, and what no request can ask for."""

from __future__ import annotations

from typing import Any

import pytest

from pinprof.base.errors import ScenarioError, UsageError
from pinprof.bench.plan import BenchRequest, Job, chosen, plan, set_values

GPU = {
    "emulated": False,
    "device_name": "A GPU",
    "free_host_bytes": 64 << 30,
    "free_device_bytes": 40 << 30,
}
HOST = GPU | {"emulated": True, "device_name": "no GPU", "free_device_bytes": None}


def sizes(request: BenchRequest, facts: dict[str, Any]) -> list[int]:
    return sorted({job.size_bytes for job in plan(request, facts)[0]} - {0})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"size_min": 4095}, r"--size-min 4,095 bytes is less than a page"),
        ({"size_max": 1}, r"--size-max 1 byte is less than a page"),
        ({"size_min": 1 << 20, "size_max": 1 << 16}, "is above --size-max"),
        ({"only": ("pin.aloc",)}, r"no measure 'pin\.aloc'. Did you mean pin\.alloc"),
        ({"only": ("zzz",)}, r"The families are alloc, touch, pin"),
        ({"only": ("prefault.t0",)}, "no measure"),
        ({"time_s": 0.2}, "less than a second"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        BenchRequest(**values)


def test_a_family_stands_for_its_measures() -> None:
    assert chosen(("h2d",)) == ("h2d.pageable", "h2d.pinned", "h2d.staged", "h2d.write-combined", "h2d.small")
    assert chosen(("pin.alloc", "alloc.malloc", "pin.alloc")) == ("alloc.malloc", "pin.alloc")
    assert chosen(("prefault.t77",)) == ("prefault.t77",)
    assert len(chosen(())) == len(set(chosen(())))


def test_sizes_reach_from_64_kib_to_4_gib() -> None:
    assert sizes(BenchRequest(), GPU) == [1 << power for power in range(16, 33, 2)]
    assert sizes(BenchRequest(quick=True), GPU) == [1 << 20, 16 << 20, 256 << 20]
    assert sizes(BenchRequest(size_min=4096, size_max=70_000), GPU) == [4096, 16384, 65536, 69632 - 69632 % 4096]


def test_sizes_that_are_not_safe_are_left_out_with_the_figures() -> None:
    jobs, left_out = plan(BenchRequest(), GPU | {"free_device_bytes": 3 << 30})
    assert max(job.size_bytes for job in jobs) == 1 << 30
    (above,) = [one for one in left_out if one.size_bytes == 4 << 30]
    assert "64 GiB of host memory are free; 3 GiB of memory of A GPU are free" in above.reason


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"free_host_bytes": 1 << 30}, "--size-max is 8 GiB, and 1 GiB of host memory are free"),
        ({"free_device_bytes": 1 << 30}, "--size-max is 8 GiB, and 1 GiB of memory of A GPU are free"),
    ],
)
def test_a_size_above_free_memory_is_refused_with_the_figures(facts: dict[str, int], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        plan(BenchRequest(size_max=8 << 30), GPU | facts)


def test_without_room_for_anything_nothing_is_measured() -> None:
    with pytest.raises(ScenarioError, match="too little memory to measure even 64 KiB"):
        plan(BenchRequest(), GPU | {"free_host_bytes": 1 << 16})


def test_what_only_a_gpu_can_do_is_left_out_without_one() -> None:
    jobs, left_out = plan(BenchRequest(quick=True), HOST)
    missing = {one.measure for one in left_out if one.size_bytes is None}
    assert missing == {
        "pin.hostalloc",
        "h2d.write-combined",
        "uvm.first-touch",
        "uvm.prefetch",
        "uvm.prefetch-back",
        "uvm.prefetched-kernel",
        "h2d.small",
        "kernel.launch-sync",
    }
    assert not missing & {job.measure for job in jobs}
    with pytest.raises(ScenarioError, match=r"None of these can be measured without a GPU: uvm\.prefetch"):
        plan(BenchRequest(only=("uvm.prefetch",)), HOST)


def test_huge_pages_need_their_size() -> None:
    jobs, left_out = plan(BenchRequest(only=("touch.huge",), size_min=1 << 20, size_max=4 << 20), HOST)
    assert [job.size_bytes for job in jobs] == [4 << 20]
    assert [(one.size_bytes, one.reason) for one in left_out] == [(1 << 20, "smaller than a huge page")]
    with pytest.raises(ScenarioError, match="a huge page has 2 MiB"):
        plan(BenchRequest(only=("touch.huge",), size_max=1 << 20), HOST)


def job(size: int, call_s: float, loops: int = 1) -> Job:
    return Job("pin.alloc", size, loops=loops, call_s=call_s)


def test_dear_jobs_get_fewer_values() -> None:
    cheap, dear = job(1, 1e-4, 100), job(2, 0.5)
    assert set_values([cheap, dear], 60.0, quick=True) == ([], 2)
    assert (cheap.values, cheap.warmups, dear.values) == (3, 1, 1)


def test_what_does_not_fit_into_the_time_is_left_out_from_the_largest_size_on() -> None:
    jobs = [job(1, 0.1), job(2, 1.0), job(3, 30.0)]
    dropped, processes = set_values(jobs, 10.0, quick=True)
    assert [one.size_bytes for one in dropped] == [3]
    assert processes == 1


def test_one_process_is_better_than_leaving_out() -> None:
    jobs = [job(1, 0.1), job(2, 3.0)]
    assert set_values(jobs, 10.0, quick=True) == ([], 1)
    assert [one.warmups for one in jobs] == [1, 1]
    assert set_values(jobs, 4.0, quick=True) == ([], 1)
    assert [one.warmups for one in jobs] == [0, 0]


def test_something_is_always_measured() -> None:
    only = job(1, 100.0)
    assert set_values([only], 1.0, quick=True) == ([], 1)
    assert (only.values, only.warmups) == (1, 0)
