"""The ledger against the truth: a program that allocates by a random plan, where a stand-in takes the place of CUDA.

The program says at checkpoints what lives, by line (tests/truth/gpu/ledger.py runs the same on a GPU). Memory from a
pool has no address in traced calls, so here all of it has one size; on a GPU CUPTI tells the addresses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.probes import needs_probes
from tests.truth.gpu import ledger

STAND_IN = Path(__file__).parents[1] / "data/cuda/allocating.c"


def built(folder: Path) -> Path:
    """The program, beside libraries that stand in for CUDA's."""
    if not any((place / "nvtx3/nvToolsExt.h").is_file() for place in ledger._header_folders()):
        pytest.skip("no nvtx3/nvToolsExt.h: pip install nvidia-nvtx")
    driver, runtime = folder / "libcuda.so.1", folder / "libcudart.so.13"
    shared = ("-shared", "-fPIC")
    for command in (
        (*shared, "-o", driver, STAND_IN),
        (*shared, "-DRUNTIME", "-o", runtime, STAND_IN, driver, "-Wl,-rpath,$ORIGIN"),
    ):
        subprocess.run(["cc", *ledger.FLAGS, *command], check=True, cwd=folder)
    return ledger.built(folder / "program")


@needs_probes
@pytest.mark.parametrize("seed", [17, 4711])
def test_live_bytes_of_a_random_plan_are_right_at_every_checkpoint(tmp_path: Path, seed: int) -> None:
    program = built(tmp_path)
    plan = [tmp_path / "libcudart.so.13", seed, 60, 10, 1 << 20]
    record = [sys.executable, "-m", "pinprof", "record", "--python", "off", "--no-report", "--no-calibrate"]
    result = subprocess.run(
        [*record, "-o", str(tmp_path / "out.pinprof"), "--", program, *map(str, plan)],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    report = [sys.executable, "-m", "pinprof", "report", "--format", "json", str(tmp_path / "out.pinprof")]
    answer = json.loads(subprocess.run(report, check=True, capture_output=True, timeout=120).stdout)
    found = ledger.compared(result.stdout, answer)
    assert found["first_wrong"] == []
    assert (found["checkpoints"], found["undecided_frees"], found["unknown_frees"]) == (10, 0, 0)
    assert found["apis"] == [
        "cuMemHostAlloc", "cudaHostAlloc", "cudaHostRegister", "cudaMallocAsync", "cudaMallocHost", "cudaMallocManaged",
    ]  # fmt: skip
    assert found["threads"] == 2
    assert all(found["live_bytes"])
    sites = answer["ledger"]["sites"]
    assert sum(site["live_bytes"] for site in sites) == found["live_bytes"][-1]
