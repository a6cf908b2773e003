"""Programs that wait for a disk, or for the kernel to free memory under a limit: both are named, recorded here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pressed import MIB, Unable, inside, limited, written

PINPROF = (sys.executable, "-m", "pinprof")
SOURCE = Path(__file__).with_name("mapped_file.c")
READER = """\
import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
pages = random.Random(1).sample(range(os.fstat(file).st_size >> 12), 8000)
for page in pages:
    os.pread(file, 4096, page << 12)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    built = tmp_path_factory.mktemp("built") / SOURCE.stem
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", SOURCE, "-o", built], check=True)
    return built


@pytest.fixture
def group() -> Iterator[Path]:
    try:
        with limited(64 * MIB) as made:
            yield made
    except Unable as error:
        pytest.skip(str(error))


def on_disk(path: Path, size: int) -> Path:
    try:
        return written(path, size)
    except Unable as error:
        pytest.skip(str(error))


def reported(tmp_path: Path, *command: str | Path) -> dict[str, Any]:
    target = tmp_path / "out.pinprof"
    recorded = subprocess.run(
        [*PINPROF, "record", "--no-report", "-o", target, "--", *command],
        capture_output=True, text=True, timeout=180, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert recorded.returncode == 0, recorded.stderr
    told = subprocess.run(
        [*PINPROF, "report", target, "--format", "json"], capture_output=True, text=True, timeout=120, check=True
    )
    return dict(json.loads(told.stdout))


def guilty() -> int:
    return next(number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if line.endswith("// GUILTY"))


def test_cold_file_is_read_ahead(program: Path, tmp_path: Path) -> None:
    first = reported(tmp_path, program, on_disk(tmp_path / "weights.bin", 64 * MIB), "1", "random")["opportunities"][0]
    assert (first["site"]["file"], first["site"]["line"]) == (SOURCE.name, guilty())
    assert first["cure"]["id"] == "read-ahead"
    assert "page by page" in first["title"]


def test_reads_of_a_cold_file_begin_earlier(tmp_path: Path) -> None:
    reader = tmp_path / "reader.py"
    reader.write_text(READER)
    first = reported(tmp_path, sys.executable, reader, on_disk(tmp_path / "records.bin", 64 * MIB))["opportunities"][0]
    assert (first["site"]["file"], first["site"]["line"]) == (reader.name, len(READER.splitlines()))
    assert first["cure"]["id"] == "read-ahead"
    assert "reads a file from the disk" in first["title"]


def test_memory_limit_is_the_cause_where_the_kernel_frees_memory(program: Path, group: Path, tmp_path: Path) -> None:
    file = on_disk(tmp_path / "weights.bin", 256 * MIB)
    report = reported(tmp_path, *inside(group, program, file, "6"))
    first = report["opportunities"][0]
    assert first["cure"]["id"] == "memory-limit"
    assert "its control group has reached its memory limit" in first["title"]
    assert first["causes"]["fault.reclaim"] > 0
