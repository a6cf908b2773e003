"""The wheel of this source, built once for all processes of a run of the tests."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def copied(source: Path) -> Path:
    """A copy of what git tracks, so that no stale build folder can leak into the wheel."""
    archive = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, archive.decode().split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "reports/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    return source


def built(source: Path, dist: Path, **variables: str) -> Path:
    """The wheel of a source."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(source)]
    result = subprocess.run(build, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = dist.glob("*.whl")
    return wheel


def shared(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that whichever process of the run comes first makes, and the others wait for."""
    place = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        place = place.parent
    folder = place / name
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = place / f"{name}.making"
            making.mkdir()
            make(making)
            making.rename(folder)
    return folder


def unpacked(wheel: Path, site: Path) -> None:
    """Install a wheel into a folder, as pip does for one without scripts."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
