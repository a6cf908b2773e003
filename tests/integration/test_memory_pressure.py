"""Programs that wait for a disk, or for the kernel to free memory under a limit: both are named, recorded here."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PINPROF = (sys.executable, "-m", "pinprof")
SOURCE = Path(__file__).with_name("mapped_file.c")
MIB = 1 << 20
GROUPS = Path("/sys/fs/cgroup")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    built = tmp_path_factory.mktemp("built") / SOURCE.stem
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", SOURCE, "-o", built], check=True)
    return built


def written(path: Path, size: int) -> Path:
    """A file on a disk that forgets what is in memory when asked to; the test is skipped where there is none."""
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(4096) * (MIB // 4096))
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as mapping:
            pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
            address = ctypes.addressof(start := ctypes.c_char.from_buffer(mapping))
            ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
            del start
    if sum(page & 1 for page in pages) > len(pages) // 10:
        pytest.skip("files of this file system stay in memory")
    return path


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that may use 64 MiB, as a folder."""
    if (GROUPS / "cgroup.controllers").exists():
        made, limit = GROUPS / f"pinprof-test-{os.getpid()}", "memory.max"
    else:
        made, limit = GROUPS / "memory" / f"pinprof-test-{os.getpid()}", "memory.limit_in_bytes"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control groups can be made: {error}")
    try:
        try:
            (made / limit).write_text(str(64 * MIB))
        except OSError as error:
            pytest.skip(f"no memory limit can be set: {error}")
        yield made
    finally:
        made.rmdir()


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
    first = reported(tmp_path, program, written(tmp_path / "weights.bin", 64 * MIB), "1", "random")["opportunities"][0]
    assert (first["site"]["file"], first["site"]["line"]) == (SOURCE.name, guilty())
    assert first["cure"]["id"] == "read-ahead"
    assert "page by page" in first["title"]


def test_memory_limit_is_the_cause_where_the_kernel_frees_memory(program: Path, group: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "weights.bin", 256 * MIB)
    inside = 'echo $$ > "$1/cgroup.procs" && exec "$2" "$3" 6'
    report = reported(tmp_path, "sh", "-c", inside, "sh", group, program, file)
    first = report["opportunities"][0]
    assert first["cure"]["id"] == "memory-limit"
    assert "its control group has reached its memory limit" in first["title"]
    assert first["causes"]["fault.reclaim"] > 0
