"""`pinprof bench` as a user runs it, on the host backend, with small sizes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pinprof.workloads import backends

from pinprof.collect import host
from pinprof.data import rates

Run = Callable[..., subprocess.CompletedProcess[str]]
MEASURES = ("touch.first", "free.pageable", "memcpy.host", "uvm.prefetch")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def pinprof(home: Path) -> Run:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=home,
            env=os.environ | {"XDG_DATA_HOME": str(home / "data")} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return run


@pytest.fixture(scope="module")
def measured(pinprof: Run) -> subprocess.CompletedProcess[str]:
    only = [word for measure in MEASURES for word in ("--only", measure)]
    options = ["--backend", "host", "--time", "100s", "--size-min", "64KiB", "--size-max", "1MiB", "-o", "out/run.json"]
    return pinprof("pinprof", "bench", "--quick", *only, *options)


def test_a_measurement_prints_writes_and_stores(measured: subprocess.CompletedProcess[str], home: Path) -> None:
    assert measured.returncode == 0, measured.stderr
    assert "host emulation" in measured.stdout
    assert "touch.first" in measured.stdout
    assert "uvm.prefetch: only a GPU can do it" in measured.stdout
    page = (home / "out" / "run.html").read_text("utf-8")
    assert "pinprof bench --quick --size-min 64KiB" in re.sub("<[^>]*>", "", page)
    assert str(home) not in page
    (stored,) = (home / "data" / "pinprof" / "rates").iterdir()
    found = rates.read(stored)
    assert found.machine == rates.machine_of(host.facts())
    assert {rate.size_bytes for rate in found.of("memcpy.host")} == {65536, 1 << 20}
    assert all(0 < rate.low_ns <= rate.median_ns <= rate.high_ns for rate in found.rates)


def test_pyperf_reads_the_file_and_it_names_no_host(
    measured: subprocess.CompletedProcess[str], pinprof: Run, home: Path
) -> None:
    stats = pinprof("pyperf", "stats", "out/run.json")
    assert stats.returncode == 0, stats.stderr
    assert "touch.first 64KiB" in stats.stdout
    compared = pinprof("pyperf", "compare_to", "out/run.json", "out/run.json")
    assert compared.returncode == 0, compared.stderr
    text = (home / "out" / "run.json").read_text("utf-8")
    assert os.uname().nodename not in text
    assert "hostname" not in text
    calibrated = [run for one in json.loads(text)["benchmarks"] for run in one["runs"] if "values" not in run]
    assert len(calibrated) == 6


def test_a_run_compared_with_itself_has_not_changed(measured: subprocess.CompletedProcess[str], pinprof: Run) -> None:
    result = pinprof("pinprof", "bench", "compare", "out/run.json", "out/run.json")
    assert result.returncode == 0, result.stderr
    assert "No significant change" in result.stdout
    assert "1.00 ×" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--size-min", "100"], 2, "is less than a page"),
        (["--size-max", "900TiB", "--backend", "host"], 1, "of host memory are free"),
        (["--only", "pin.aloc"], 2, "Did you mean pin.alloc?"),
        (["--only", "uvm.prefetch", "--backend", "host"], 1, "None of these can be measured without a GPU"),
        (["--size-max", "much"], 2, "is not a size"),
        (["-o", "."], 1, "is a directory"),
        (["-o", "out/run.json"], 1, "exists already"),
        (["-o", "out/run.json/x.json"], 1, "cannot be written"),
    ],
)
def test_mistakes_are_named_before_anything_is_measured(
    arguments: list[str], status: int, words: str, measured: subprocess.CompletedProcess[str], pinprof: Run
) -> None:
    result = pinprof("pinprof", "bench", *arguments)
    assert result.returncode == status
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("pinprof: error: ")
    assert words in line


@pytest.mark.skipif(backends.gpu_present(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_no_silent_fallback(pinprof: Run) -> None:
    result = pinprof("pinprof", "bench", "--quick", "--backend", "cuda", "--no-page", "-o", "gpu.json")
    assert result.returncode == 1
    assert "There is no NVIDIA GPU on this machine" in result.stderr
    assert "Traceback" not in result.stderr
