"""Every measure on a stand-in for CUDA, and on the host where it has an emulation: timed, verified, all freed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pinprof.workloads import backends
from pinprof.workloads.backends import cuda_api

from pinprof.base.errors import CudaError, ScenarioError
from pinprof.bench.measures import TRIALS, TrialSite, names, trial_of
from pinprof.data import rates
from pinprof.scenario import Backend
from tests.support.fake_cuda import FakeCuda

SIZES = [4096, (2 << 20) + 4096]
MORE_THAN_THE_RING = (18 << 20) + 4096
MOVING = [name for name in TRIALS if name.split(".")[0] in ("h2d", "d2h")]
WORKING = ["uvm.ondemand", "uvm.prefetched-kernel", "zerocopy.pass", "kernel.launch-sync"]
VALUE = 7.0


class LosesCopies(FakeCuda):
    def cudaMemcpy(self, target: int, source: int, size_bytes: int, kind: int) -> None: ...  # noqa: N802

    def cudaMemcpyAsync(self, target: int, source: int, size_bytes: int, kind: int, stream: int) -> None: ...  # noqa: N802


class LosesKernels(FakeCuda):
    def cuLaunchKernel(self, function: str, *arguments: object) -> None: ...  # noqa: N802


@contextmanager
def opened(monkeypatch: pytest.MonkeyPatch, fake: FakeCuda) -> Iterator[Backend]:
    monkeypatch.setattr(backends, "gpu_present", lambda: True)
    monkeypatch.setattr(cuda_api, "import_module", lambda _: fake.module)
    with closing(backends.open_backend("cuda", 0)) as backend:
        yield backend


def taken(backend: Backend, measure: str, size_bytes: int, calls: tuple[int, ...] = (1, 3)) -> list[float]:
    trial, threads = trial_of(measure)
    backend.prepare(trial.memory, size_bytes)
    timer = trial.prepare(TrialSite(backend, size_bytes, threads, VALUE))
    return [timer(count) for count in calls]


def test_each_measure_that_has_a_name_is_taken() -> None:
    assert list(TRIALS) == list(rates.MEASURES)
    assert all(rates.is_measure(name) for name in names())
    assert {"prefault.t1", "pin.alloc"} <= set(names())


def test_documentation_explains_every_measure() -> None:
    text = (Path(__file__).parents[3] / "docs" / "bench.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if re.match(r"\| `[a-z0-9]+\.", line)]
    assert sorted(name for row in rows for name in re.findall(r"`([^`]+)`", row)) == sorted(rates.MEASURES)


@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize("measure", [*(name for name in TRIALS if name != "prefault.tN"), "prefault.t3"])
def test_measure_is_timed_and_leaves_nothing(measure: str, size_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    size_bytes = max(size_bytes, trial_of(measure)[0].smallest_bytes)
    fake = FakeCuda()
    with opened(monkeypatch, fake) as backend:
        times = taken(backend, measure, size_bytes)
    assert all(time > 0 for time in times)
    assert fake.alive == {}


def test_the_ring_goes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    with opened(monkeypatch, fake) as backend:
        taken(backend, "h2d.staged", MORE_THAN_THE_RING)
    assert fake.alive == {}


@pytest.mark.parametrize("measure", MOVING)
def test_copies_that_do_not_arrive_are_seen(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = LosesCopies()
    with opened(monkeypatch, fake) as backend, pytest.raises(ScenarioError, match="wrong result: element 0 is"):
        taken(backend, measure, 1 << 16)
    assert fake.alive == {}


@pytest.mark.parametrize("measure", WORKING)
def test_kernels_that_do_nothing_are_seen(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = LosesKernels()
    with opened(monkeypatch, fake) as backend, pytest.raises(ScenarioError, match="wrong result: element 0 is"):
        taken(backend, measure, 1 << 16)
    assert fake.alive == {}


@pytest.mark.parametrize("measure", ["h2d.staged", "pin.register-touched", "uvm.prefetched-kernel", "d2h.pinned"])
def test_a_call_that_fails_is_named_and_leaves_nothing(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FakeCuda()
    with opened(monkeypatch, whole) as backend:
        setup = len(whole.calls)
        taken(backend, measure, 1 << 16)
    failed = 0
    for fail_at in range(setup, len(whole.calls)):
        fake = FakeCuda(fail_at=fail_at)
        try:
            with opened(monkeypatch, fake) as backend:
                taken(backend, measure, 1 << 16)
        except CudaError as error:
            failed += error.code == 719
        assert fake.alive == {}, fake.calls
    assert failed > 1


@pytest.mark.parametrize("size_bytes", [8192, 5 << 20])
@pytest.mark.parametrize(
    "measure", [name for name, trial in TRIALS.items() if trial.emulation and name != "prefault.tN"]
)
def test_host_emulation_is_timed_and_verified(measure: str, size_bytes: int) -> None:
    with closing(backends.open_backend("host", 0)) as backend:
        try:
            times = taken(backend, measure, max(size_bytes, trial_of(measure)[0].smallest_bytes), (1, 2))
        except ScenarioError as error:
            if error.slug in ("io-uring", "memlock", "uffd"):
                pytest.skip(error.problem)
            raise
    assert all(time > 0 for time in times)
