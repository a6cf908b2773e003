"""Rates are stored per machine and come back as they were; a file from elsewhere cannot bring nonsense in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pinprof.base.errors import CaptureError
from pinprof.data import rates

HOST = {
    "cpu": "A processor",
    "kernel": "6.1",
    "cores_online": 2,
    "memory_bytes": 1,
    "gpus": [{"name": "A GPU", "link_generation_max": 5, "link_width_max": 16, "link_generation": 1}],
}


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def some(backend: str = "cuda", *found: rates.Rate, host: dict[str, Any] = HOST) -> rates.Rates:
    rows = found or (rates.Rate("pin.alloc", 1 << 20, 100.5, 90.0, 120.0), rates.Rate("pin.alloc", 1 << 16, 10, 9, 12))
    return rates.Rates(rates.machine_of(host), backend, "2026-01-02T03:04:05+00:00", rows)


def test_rates_round_trip_by_machine_and_backend(tmp_path: Path) -> None:
    assert rates.load_for(HOST) is None
    host, cuda = some("host"), some("cuda")
    assert rates.save(host).is_relative_to(tmp_path)
    assert rates.load_for(HOST) == host
    rates.save(cuda)
    assert rates.load_for(HOST) == cuda
    assert rates.load_for(HOST, "host") == host
    assert [rate.size_bytes for rate in cuda.of("pin.alloc")] == [1 << 16, 1 << 20]


@pytest.mark.parametrize("backend", ["../../outside", "x" * 300, "a/b", "\0", "gpu"])
def test_the_name_of_a_backend_is_never_a_path(backend: str, tmp_path: Path) -> None:
    path = rates.save(some())
    outside = path.parents[2] / "outside.json"
    outside.write_text(path.read_text())
    (path.parent / f"{path.stem.partition('-')[0]}-..").mkdir()
    assert rates.load_for(HOST, backend) is None
    path.write_text(rates.to_json(some(backend)))
    with pytest.raises(CaptureError, match="backend is not one of 'cuda', 'host'"):
        rates.load_for(HOST)


def test_a_link_that_sleeps_is_the_same_machine_and_another_kernel_is_not() -> None:
    rates.save(some())
    awake = HOST | {"gpus": [HOST["gpus"][0] | {"link_generation": 5}], "memory_bytes": 2}
    assert rates.load_for(awake) is not None
    assert rates.load_for(HOST | {"kernel": "6.2"}) is None
    assert rates.load_for(HOST | {"gpus": []}) is None


def test_newer_rates_replace_those_of_the_same_size() -> None:
    newer = some("cuda", rates.Rate("pin.alloc", 1 << 20, 50, 40, 60), rates.Rate("h2d.pinned", 1 << 20, 1, 1, 1))
    found = some().updated(newer)
    assert {(rate.measure, rate.size_bytes): rate.median_ns for rate in found.rates} == {
        ("pin.alloc", 1 << 16): 10,
        ("pin.alloc", 1 << 20): 50,
        ("h2d.pinned", 1 << 20): 1,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 99},
        {"rates": [{"measure": "pin.alloc", "size_bytes": 1, "median_ns": float("nan"), "low_ns": 1, "high_ns": 1}]},
        {"rates": [{"measure": "pin.alloc", "size_bytes": -1, "median_ns": 1, "low_ns": 1, "high_ns": 1}]},
        {"rates": [{"measure": "pin.alloc"}]},
        {"rates": 5},
        {"machine": "x"},
    ],
)
def test_a_file_that_is_no_rates_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(json.loads(rates.to_json(some())) | change))
    with pytest.raises(CaptureError, match=r"rates\.json can't be read"):
        rates.read(path)


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", "\x00"])
def test_a_file_that_is_no_json_object_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rates.json"
    path.write_text(content)
    with pytest.raises(CaptureError):
        rates.read(path)


@pytest.mark.parametrize(
    ("name", "known"),
    [("pin.alloc", True), ("prefault.t8", True), ("prefault.tN", False), ("prefault.t0", False), ("pin", False)],
)
def test_measures_have_names(name: str, known: bool) -> None:
    assert rates.is_measure(name) is known


def test_a_file_of_before_is_of_bench_and_a_calibration_says_so(tmp_path: Path) -> None:
    file = tmp_path / "rates.json"
    stored = json.loads(rates.to_json(some()))
    del stored["measured_by"]
    file.write_text(json.dumps(stored))
    assert rates.read(file).measured_by == "bench"
    file.write_text(json.dumps(stored | {"measured_by": "calibration"}))
    assert rates.read(file).measured_by == "calibration"
