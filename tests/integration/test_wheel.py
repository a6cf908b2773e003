"""The wheel holds everything a user needs: scenarios, page templates, scripts, type marker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pinprof.libraries import LIBRARIES, compiler

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git tracks, so that no stale build folder can leak into the wheel."""
    source = tmp_path_factory.mktemp("source")
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


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(source, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def run(site: Path, cwd: Path, *arguments: str) -> str:
    """The output of a Python command that sees the unpacked wheel before anything else of pinprof."""
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_wheel_lists_every_scenario_of_the_repository(installed: Path, tmp_path: Path) -> None:
    where = run(installed, tmp_path, "-c", "import pinprof; print(pinprof.__file__)")
    assert where.startswith(str(installed))
    listing = run(installed, tmp_path, "-m", "pinprof", "list")
    scenarios = {path.stem.replace("_", "-") for path in (ROOT / "workloads").glob("*.py")} - {"--init--"}
    assert {"pageable", "pinned", "zerocopy", "uvm"} <= scenarios
    assert all(f"  {name} " in listing for name in scenarios)


def test_wheel_holds_the_page_and_the_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = [
        path.relative_to(ROOT).as_posix()
        for folder in ("report/assets", "report/templates")
        for path in (ROOT / "pinprof" / folder).rglob("*")
        if path.is_file()
    ]
    assert wanted
    assert {"pinprof/py.typed", *wanted} <= names
    assert not [name for name in names if name.startswith(("tests/", "workloads/", "reports/"))]


def test_wheel_holds_the_c_libraries_where_they_can_be_built(
    wheel: Path, installed: Path, source: Path, tmp_path: Path
) -> None:
    places = [library.source.parent.relative_to(ROOT) for library in LIBRARIES]
    if compiler():
        wanted = [f"{place}/{library.name}" for place, library in zip(places, LIBRARIES, strict=True)]
        assert set(wanted) <= set(zipfile.ZipFile(wheel).namelist())
        assert "-py3-none-linux_" in wheel.name
        ask = "from pinprof.libraries import LIBRARIES\nfor library in LIBRARIES: print(library.find())"
        assert run(installed, tmp_path, "-c", ask) == "".join(f"{installed / path}\n" for path in wanted)
    shutil.rmtree(source / "build", ignore_errors=True)
    without = built(source, tmp_path, CC="false")
    assert without.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(without).namelist() if name.endswith(".so")]
    sources = {f"{place}/{library.source.name}" for place, library in zip(places, LIBRARIES, strict=True)}
    assert sources <= set(zipfile.ZipFile(without).namelist())
