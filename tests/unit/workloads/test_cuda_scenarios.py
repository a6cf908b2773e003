"""Every scenario through the cuda backend, on a stand-in for CUDA that works as late as it may and fails on demand."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from pinprof.workloads import backends
from pinprof.workloads.backends import cuda_api, libc
from pinprof.workloads.backends.tensors import torch

from pinprof import scenario
from pinprof.base.errors import CudaError, ScenarioError, ToolMissing, UsageError
from pinprof.scenario import Options, catalog
from tests.support.fake_cuda import FakeCuda

CASES = [
    (spec.name, variant)
    for spec in scenario.specs()
    if spec.name != "uvm-oversubscribe" and not spec.needs
    for variant in [one.name for one in spec.variants] or [None]
]
PLACES = functools.cache(catalog._places)
SIZES = [4096, 5001, (2 << 20) + 12]


@pytest.fixture(autouse=True)
def scenarios_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of runs, each of which would read the entry points of every installed package."""
    monkeypatch.setattr(catalog, "_places", PLACES)


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeCuda) -> FakeCuda:
    monkeypatch.setattr(backends, "gpu_present", lambda: True)
    monkeypatch.setattr(cuda_api, "import_module", lambda _: fake.module)
    return fake


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_scenario_waits_for_its_results_and_frees_what_it_made(
    name: str, variant: str | None, size_bytes: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = install(monkeypatch, FakeCuda(version))
    result = scenario.run(name, Options(size_bytes, iterations=2, variant=variant))
    assert result.verified == 2
    own = {name for name in result.times_ns if re.fullmatch(r"\d+ threads?", name)}
    assert set(result.times_ns) - own == {*result.spec.phases, "verify", "iteration"}
    assert bool(own) == (variant == "curve")
    assert fake.alive == {}


@pytest.mark.parametrize(
    ("name", "variant", "pins"),
    [
        ("round-trip", "copied", 1),
        ("round-trip", "resident", 1),
        ("small-copies", "many", 1),
        ("overlap", "blocking", 1),
        ("overlap", "streams", 1),
        ("alloc-loop", "pool", 1),
        ("alloc-loop", "mistake", 3 * 8),
    ],
)
def test_only_the_scenario_of_repeated_allocation_allocates_again(
    name: str, variant: str, pins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = install(monkeypatch, FakeCuda())
    scenario.run(name, Options(1 << 20, iterations=2, warmup=1, variant=variant))
    assert fake.calls.count("cudaMallocHost") == fake.calls.count("cudaFreeHost") == pins


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_call_that_fails_in_the_middle_is_named_and_leaves_nothing(
    name: str, variant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = install(monkeypatch, FakeCuda())
    options = Options(40_000, iterations=1, warmup=0, variant=variant)
    scenario.run(name, options)
    setup = whole.calls.index("cudaMemGetInfo") + 1
    codes = []
    for fail_at in range(setup, len(whole.calls)):
        fake = install(monkeypatch, FakeCuda(fail_at=fail_at))
        try:
            scenario.run(name, options)
        except CudaError as error:
            codes.append(error.code)
        assert fake.alive == {}, fake.calls
    assert len(codes) > 1
    assert set(codes) == {719}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), CASES)
def test_gpu_that_is_lost_is_one_error_and_the_hosts_memory_is_given_back(
    name: str, variant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Counter[int] = Counter()
    malloc, free = libc.malloc, libc.free

    def counted_malloc(size_bytes: int) -> int:
        address = malloc(size_bytes)
        given[address] += 1
        return address

    def counted_free(address: int) -> None:
        given[address] -= 1
        free(address)

    whole = install(monkeypatch, FakeCuda())
    options = Options(40_000, iterations=1, warmup=0, variant=variant)
    scenario.run(name, options)
    monkeypatch.setattr(libc, "malloc", counted_malloc)
    monkeypatch.setattr(libc, "free", counted_free)
    for fail_at in range(whole.calls.index("cudaMemGetInfo") + 1, len(whole.calls) - 1, 3):
        fake = install(monkeypatch, FakeCuda(fail_at=fail_at, lost=True))
        given.clear()
        with pytest.raises(CudaError, match=r"^cu\w+ failed with error 999: .* Check the GPU with nvidia-smi"):
            scenario.run(name, options)
        held = {address for kind, address in fake.alive if kind in ("host", "device")}
        assert {address for address, count in given.items() if count} == held


def test_device_out_of_range_is_refused_with_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeCuda())
    with pytest.raises(UsageError, match=r"no CUDA device 1: this machine shows 1\. Give --device 0\."):
        scenario.run("pinned", Options(device=1))


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize(
    ("name", "variant", "places"),
    [
        ("uvm-prefetch", None, [(1, 0), (2, 0)]),
        ("numa", "nearest", [(1, 0), (3, 0)]),
        ("uvm-advise", "preferred-location", [(2, 0)]),
        ("uvm-advise", "accessed-by", [(1, 0)]),
        ("uvm-thrash", "cure", [(2, 0), (1, 0)]),
    ],
)
def test_managed_memory_is_sent_where_the_scenario_says(
    name: str, variant: str | None, places: list[tuple[int, int]], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = install(monkeypatch, FakeCuda(version))
    scenario.run(name, Options(4096, iterations=1, warmup=0, variant=variant))
    assert fake.places == places


def test_size_beyond_the_free_memory_of_the_gpu_is_refused_with_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeCuda(free_bytes=1 << 20))
    with pytest.raises(ScenarioError, match=r"2 MiB of memory of Fake GPU, and 1 MiB are free"):
        scenario.run("uvm-prefetch", Options(2 << 20))
    assert fake.alive == {}


def test_oversubscription_refuses_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeCuda())
    with pytest.raises(UsageError, match="add --variant really"):
        scenario.run("uvm-oversubscribe", Options(1 << 20))
    assert "cudaMallocManaged" not in fake.calls
    assert fake.alive == {}


def test_oversubscription_asks_for_less_than_is_free_and_fills_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeCuda(free_bytes=16 << 20))
    result = scenario.run("uvm-oversubscribe", Options(12 << 20, iterations=1, warmup=0, variant="really"))
    assert result.verified == 1
    assert fake.sizes == {"cudaMallocManaged": [12 << 20], "cudaMalloc": [8 << 20]}
    with pytest.raises(ScenarioError, match="free"):
        scenario.run("uvm-oversubscribe", Options(15 << 20, variant="really"))
    assert fake.alive == {}


@pytest.mark.parametrize("name", ["torch-pin", "torch-dataloader"])
def test_absent_package_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeCuda())
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ToolMissing, match=rf"{name} needs the Python package torch.* pip install 'pinprof\[torch\]'"):
        scenario.run(name, Options(1 << 20))
    assert fake.alive == {}


def module(available: bool) -> SimpleNamespace:
    return SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: available))


def test_what_pytorch_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", module(available=True))  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"^PyTorch failed: CUDA error: out of memory\. Check") as raised, torch():
        raise RuntimeError("CUDA error: out of memory\nand a long trace")
    assert raised.value.slug == "torch"


def test_pytorch_without_cuda_says_so_and_frees_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeCuda())
    monkeypatch.setitem(sys.modules, "torch", module(available=False))  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"PyTorch sees no GPU\. Check that"):
        scenario.run("torch-pin", Options(1 << 20))
    assert fake.alive == {}
