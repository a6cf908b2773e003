"""Recording what runs already, and every rank of a launch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.analyze import analyze
from pinprof.collect import permission
from pinprof.read import read

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")

PINPROF = [sys.executable, "-m", "pinprof"]
PROGRAM = """
import time
notes = open("notes", "w", buffering=1)
print("started", flush=True)
while True:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        sum(range(1000))
    time.sleep(0.02)
    print(time.monotonic_ns(), time.process_time_ns(), file=notes)
"""


@pytest.mark.parametrize("sampler", ["native", pytest.param("perf", marks=needs_perf)])
def test_a_running_program_is_recorded_for_a_time_and_goes_on(tmp_path: Path, sampler: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path, stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            program.stdout.readline()
            options = ["--with", sampler, "--pid", str(program.pid), "--duration", "0.6s", "--no-report", "-o", "out"]
            subprocess.run([*PINPROF, "record", *options], cwd=tmp_path, check=True, capture_output=True, timeout=60)
            assert program.poll() is None
        finally:
            program.kill()
    manifest = json.loads((tmp_path / "out.pinprof/manifest.json").read_text())
    assert manifest["outcome"]["state"] == "complete"
    assert manifest["outcome"]["duration_ns"] > 500_000_000
    assert manifest["command"][0] == sys.executable
    found = analyze(read(tmp_path / "out.pinprof"))
    on_cpu, off_cpu = found.events[0], found.events[-1]
    assert set(found.capture.samples.pid.tolist()) == {program.pid}
    # A busy machine gives the program few turns in that time; how many, it notes itself.
    first, last = found.capture.samples.time_ns.min(), found.capture.samples.time_ns.max()
    notes = [[int(word) for word in line.split()] for line in (tmp_path / "notes").read_text().splitlines()]
    used_ns = [used for noted, used in notes if first < noted < last] or [0]
    assert on_cpu.total > 0.5 * (used_ns[-1] - used_ns[0])
    assert off_cpu.by_leaf.get("wait.sleep", 0) >= 0.9 * 20_000_000 * (len(used_ns) - 1)
    assert found.memory is not None
    assert found.memory.peak["rss"] > 1 << 20


def test_every_rank_of_a_launch_has_its_capture_in_one_folder_and_one_page_shows_them(tmp_path: Path) -> None:
    busy = "import time\nend = time.monotonic() + 0.2\nwhile time.monotonic() < end: sum(range(999))"
    program = [sys.executable, "-c", busy]
    ranks = [
        subprocess.Popen(
            [*PINPROF, "record", "--python", "off", "--no-report", "--", *program],
            cwd=tmp_path,
            env=os.environ | {"RANK": str(number), "WORLD_SIZE": "2"},
            stderr=subprocess.PIPE,
        )
        for number in range(2)
    ]
    told = [rank.communicate(timeout=60)[1].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], told
    (folder,) = tmp_path.glob("*.ranks")
    assert sorted(path.name for path in folder.iterdir()) == ["rank-0.pinprof", "rank-1.pinprof"]
    assert f"pinprof report {folder.name}" in told[0]
    manifest = json.loads((folder / "rank-1.pinprof/manifest.json").read_text())
    assert manifest["outcome"]["rank"]["number"] == 1
    subprocess.run([*PINPROF, "report", "--format", "html", folder], cwd=tmp_path, check=True, capture_output=True)
    page = (tmp_path / f"{folder.name.removesuffix('.ranks')}.html").read_text()
    assert "rank-0.pinprof" in page
    assert "rank-1.pinprof" in page
