"""A program recorded and judged, with a baseline in turns; no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import mmap, sys
pages = mmap.mmap(-1, int(sys.argv[1]) << 12)
for page in range(int(sys.argv[1])):
    pages[page << 12] = 1
"""


def test_a_program_is_judged_by_what_it_does_more_than_its_baseline(tmp_path: Path) -> None:
    (tmp_path / "pinprof.toml").write_text('[[budget]]\npage-faults = "baseline + 1000"\n')
    (tmp_path / "program.py").write_text(PROGRAM)
    program = [sys.executable, "program.py"]
    words = [sys.executable, "-m", "pinprof", "check", "--write", "json=out.json", "--keep", "kept"]
    words += ["--baseline", " ".join([*program, "8000"]), "--", *program, "28000"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    (verdict,) = json.loads((tmp_path / "out.json").read_text())["verdicts"]
    # Python's own start has about 1,200 faults, and may have some more or less where its files are not in memory.
    assert 18_000 < verdict["found"] - verdict["limit"] < 20_000
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["baseline-1.pinprof", "run-1.pinprof"]
    again = subprocess.run(
        [*words[:4], "kept/run-1.pinprof", "--against", "kept/baseline-1.pinprof"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert again.returncode == 3, again.stderr
