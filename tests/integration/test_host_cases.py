"""Programs with a known problem of host memory, recorded here: the answer has the line and the cure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.programs import CANNOT, Skipped, programs

CURES = {
    "copy_on_write": "spawn",
    "dropped_pages": "keep-pages",
    "fresh_buffers": "reuse-memory",
    "mapped_records": "map-at-once",
    "pinned_forks": "dont-fork",
    "pickled_results": "share-memory",
    "protected_arena": "protect-less",
    "shared_table": "sync-file-less",
    "shm_worker": "reuse-shared-memory",
    "worker_waits": "reuse-memory",
    "write_barrier": "track-writes",
    "zero_pages": "reuse-memory",
}
"""Program → the cure of its first opportunity."""


@pytest.mark.parametrize("name", CURES)
def test_first_opportunity_has_the_line_at_fault_and_the_cure(name: str, tmp_path: Path) -> None:
    (program,) = programs([name])
    try:
        command = program.command(tmp_path, sys.executable)
    except Skipped as reason:
        pytest.skip(str(reason))
    target = tmp_path / "out.pinprof"
    pinprof = (sys.executable, "-m", "pinprof")
    recorded = subprocess.run(
        [*pinprof, "record", "--no-report", "-o", str(target), "--", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    if recorded.returncode == CANNOT:
        pytest.skip(recorded.stderr)
    assert recorded.returncode == 0, recorded.stderr
    told = subprocess.run(
        [*pinprof, "report", str(target), "--format", "json"], capture_output=True, text=True, timeout=120, check=True
    )
    report = json.loads(told.stdout)
    first = report["opportunities"][0]
    place = f"{Path(first['site']['file']).name}:{first['site']['line']}"
    assert place in {f"{program.path.name}:{line}" for line in program.guilty()}
    assert first["cure"]["id"] == CURES[name]
    work = next(phase["wall_ns"] for phase in report["phases"] if phase["name"] == "work")
    assert 0 < first["saving_ns"]["low"] <= first["saving_ns"]["likely"] <= first["saving_ns"]["high"]
    assert first["saving_ns"]["likely"] <= work, "the interval is that of other runs, which may work longer"
