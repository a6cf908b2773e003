"""A recording on a machine that nobody measured brings rates of its own, unless they are not wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pinprof import read
from pinprof.analyze import analyze
from pinprof.bench import kept_rates
from pinprof.bench.calibration import wanted
from pinprof.bench.recorded_rates import NO_CALIBRATION_VARIABLE
from pinprof.collect import host, permission
from pinprof.data import rates
from pinprof.data.rate_book import CALIBRATION, RateBook

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")
DIM = "Measuring memory costs on this machine"
PINPROF = ("-m", "pinprof")
_UNHURRIED = """
from pinprof.__main__ import main
from pinprof.bench import recorded_rates
recorded_rates.LIMIT_S = 60.0
main()
"""
UNHURRIED = ("-c", _UNHURRIED)
"""pinprof with time for a calibration on a busy machine, which in three seconds may measure nothing."""


def record(
    tmp_path: Path, *options: str, pinprof: tuple[str, ...] = PINPROF, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != NO_CALIBRATION_VARIABLE}
    return subprocess.run(
        [sys.executable, *pinprof, "record", "-o", "out", "--python=off", *options, "--", "sleep", "0.05"],
        cwd=tmp_path,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def test_a_program_without_cuda_is_followed_by_a_calibration_of_the_host(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    result = record(tmp_path, pinprof=UNHURRIED, SECRET_TOKEN="hunter2", XDG_CACHE_HOME=cache)
    assert DIM in result.stderr
    report = [sys.executable, "-m", "pinprof", "report", "--format", "text", "--all", "out.pinprof"]
    told = subprocess.run(report, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "were measured after this recording" in " ".join(told.split())
    capture = read.read(tmp_path / "out.pinprof", read.ReadOptions())
    assert capture.rates is not None
    assert (capture.rates.measured_by, capture.rates.backend) == ("calibration", "host")
    assert capture.rates.machine == rates.machine_of(host.facts())
    cost = RateBook.of(capture).cost("touch.first", 64 << 20)
    assert cost is not None
    assert cost.source == CALIBRATION
    assert 1e6 < cost.ns < 1e10
    assert "hunter2" not in (tmp_path / "out.pinprof" / "rates.json").read_text()
    # It was measured after the recording.
    assert not any("calibration" in name for name in analyze(capture).capture.threads.values())
    assert rates.load_for(host.facts()) is None


@pytest.mark.parametrize(("options", "environment"), [(("--no-calibrate",), {}), ((), {NO_CALIBRATION_VARIABLE: "1"})])
def test_who_wants_no_calibration_gets_none(
    options: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    result = record(tmp_path, *options, "--no-report", XDG_CACHE_HOME=str(tmp_path / "cache"), **environment)
    assert DIM not in result.stderr
    assert not (tmp_path / "out.pinprof" / "rates.json").exists()


def test_what_is_kept_of_this_machine_leaves_nothing_to_calibrate(tmp_path: Path) -> None:
    home = tmp_path / "cache"
    rate = rates.Rate("touch.first", 1 << 20, 1, 1, 1)
    made = rates.Rates(rates.machine_of(host.facts()), "host", datetime.now(UTC).isoformat(), (rate,), "calibration")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        kept_rates.keep(kept_rates.KeptRates(made, frozenset(wanted(cuda=False))), os.environ)
    result = record(tmp_path, "--no-report", XDG_CACHE_HOME=str(home))
    assert DIM not in result.stderr
    assert rates.read(tmp_path / "out.pinprof" / "rates.json") == made


def test_rates_of_bench_leave_nothing_to_calibrate(tmp_path: Path) -> None:
    machine = rates.machine_of(host.facts())
    home = tmp_path / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home))
        rates.save(rates.Rates(machine, "host", "2026-01-02T03:04:05+00:00", (rates.Rate("touch.first", 1, 1, 1, 1),)))
    result = record(tmp_path, "--no-report", XDG_DATA_HOME=str(home))
    assert DIM not in result.stderr
    assert rates.read(tmp_path / "out.pinprof" / "rates.json").measured_by == "bench"
