"""The wheel holds everything a user needs: scenarios, page templates, scripts, type marker."""

from __future__ import annotations

import io
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from pinprof.machine.libraries import LIBRARIES, MACHINES, compiler
from tests.support.wheel import ROOT, built

OTHER = "x86_64" if platform.machine() == "aarch64" else "aarch64"
CROSS = f"{OTHER.replace('_', '-')}-linux-gnu-gcc"


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
    assert {"pinprof/py.typed", "pinprof/analyze/opportunities/knobs.toml", *wanted} <= names
    assert not [name for name in names if name.startswith(("tests/", "workloads/", "reports/"))]


def test_wheel_explains_names_without_the_repository(installed: Path, tmp_path: Path) -> None:
    assert "staging-copies (finding)" in run(installed, tmp_path, "-m", "pinprof", "explain", "staging-copies")
    assert {path.name for path in (installed / "pinprof/docs").glob("*.md")} == {
        path.name for path in (ROOT / "docs").glob("*.md")
    }


def test_what_only_some_need_is_no_part_of_the_base_installation(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        needs = re.findall(r"^Requires-Dist: ([\w.-]+)(?!.*extra ==)", archive.read(metadata).decode(), re.MULTILINE)
    assert "numpy" in needs
    assert not {"nvtx", "pandas", "plotly", "py-spy", "pyarrow"} & {name.lower() for name in needs}


def libraries_of(wheel: Path, place: Path) -> dict[str, ELFFile]:
    """The C libraries of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return {path.name: ELFFile(io.BytesIO(path.read_bytes())) for path in place.rglob("*.so")}


def versions_of(library: ELFFile) -> set[tuple[int, ...]]:
    """The versions of glibc that a library binds symbols of."""
    section = library.get_section_by_name(".gnu.version_r")
    names = [version.name for _, versions in section.iter_versions() for version in versions]
    assert all(name.startswith("GLIBC_2.") for name in names)
    return {tuple(int(number) for number in name.removeprefix("GLIBC_").split(".")) for name in names}


def tag_is_true(wheel: Path, place: Path, machine: str) -> bool:
    """Whether a wheel holds every library for a machine, and its tag is the oldest glibc that all of them load on."""
    libraries = libraries_of(wheel, place)
    assert set(libraries) == {library.name_on(machine) for library in LIBRARIES}
    kinds = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
    assert {library["e_machine"] for library in libraries.values()} == {kinds[machine]}
    dynamic = [library.get_section_by_name(".dynamic") for library in libraries.values()]
    needed = {tag.needed for section in dynamic for tag in section.iter_tags("DT_NEEDED")}
    assert needed <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", f"ld-linux-{machine.replace('_', '-')}.so.2"} | {
        "ld-linux-aarch64.so.1"
    }
    newest = max(version for library in libraries.values() for version in versions_of(library))
    return wheel.name.endswith(f"-py3-none-manylinux_2_{max(newest[1], 17)}_{machine}.whl")


@pytest.mark.skipif(not compiler() or platform.machine() not in MACHINES, reason="no compiler for these processors")
def test_the_tag_is_the_oldest_glibc_that_the_libraries_load_on(wheel: Path, tmp_path: Path) -> None:
    assert tag_is_true(wheel, tmp_path, platform.machine())


@pytest.mark.skipif(not compiler() or platform.machine() not in MACHINES, reason="no compiler for these processors")
def test_the_tools_of_a_release_accept_the_wheel(wheel: Path) -> None:
    def said(*arguments: str | Path) -> str:
        return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=True).stdout

    tag = wheel.name.rpartition("-")[2].removesuffix(".whl")
    assert f'"{tag}"' in said("auditwheel", "show", wheel)
    assert "PASSED" in said("twine", "check", "--strict", wheel)


@pytest.mark.skipif(not shutil.which(CROSS), reason=f"no {CROSS}")
def test_a_wheel_for_another_processor_holds_its_libraries(source: Path, tmp_path: Path) -> None:
    shutil.rmtree(source / "build", ignore_errors=True)
    assert tag_is_true(built(source, tmp_path / "dist", CC=CROSS), tmp_path / "unpacked", OTHER)
    shutil.rmtree(source / "build", ignore_errors=True)


def test_wheel_holds_the_c_libraries_where_they_can_be_built(
    wheel: Path, installed: Path, source: Path, tmp_path: Path
) -> None:
    places = [library.source.parent.relative_to(ROOT) for library in LIBRARIES]
    if compiler():
        wanted = [f"{place}/{library.name}" for place, library in zip(places, LIBRARIES, strict=True)]
        assert set(wanted) <= set(zipfile.ZipFile(wheel).namelist())
        assert "-py3-none-manylinux_2_" in wheel.name
        ask = "from pinprof.machine.libraries import LIBRARIES\nfor library in LIBRARIES: print(library.find())"
        assert run(installed, tmp_path, "-c", ask) == "".join(f"{installed / path}\n" for path in wanted)
    shutil.rmtree(source / "build", ignore_errors=True)
    without = built(source, tmp_path, CC="false")
    assert without.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(without).namelist() if name.endswith(".so")]
    sources = {
        f"{place}/{path.name}"
        for place, library in zip(places, LIBRARIES, strict=True)
        for path in (library.source, *library.parts)
    }
    assert sources <= set(zipfile.ZipFile(without).namelist())
