"""Finding nsys and its importer, and saying why a report cannot be opened; the tools are stand-ins made of sh."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pinprof.base.errors import CaptureError, ToolMissing
from pinprof.machine import nsys
from pinprof.machine.children import Limits
from pinprof.read import read
from tests.support.nsys_file import DATA, real

REPORT = DATA / "h200" / "both.nsys-rep"
TOO_OLD = 'echo "Exportation error: Version not supported: 36398880"; exit 1'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any nsys: only `sh` and the like are on PATH, and nothing is in the usual folders."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cp", "sleep"):
        (folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(folder))
    for variable in (nsys.NSYS_VARIABLE, nsys.IMPORTER_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(nsys, "_INSTALLED", ())
    monkeypatch.setattr(nsys, "_IMPORTERS_ELSEWHERE", ())
    return folder


def tool(path: Path, export: str, version: str = "2022.4.2.1-df9881f") -> Path:
    """A program that answers --version and runs `export` otherwise; $6 is the output, $7 the report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version {version}"; exit; fi\n{export}\n'
    )
    path.chmod(0o755)
    return path


def test_a_report_without_any_nsys_names_the_version_and_the_way_out(machine: Path) -> None:
    with pytest.raises(ToolMissing) as caught:
        read(REPORT)
    assert "nsys is not installed here" in caught.value.problem
    assert "Nsight Systems 2025.3 or newer" in caught.value.remedy
    assert "nsys export --type sqlite" in caught.value.remedy


def test_a_report_newer_than_the_tool_names_both_versions(machine: Path) -> None:
    path = tool(machine / "nsys", TOO_OLD)
    with pytest.raises(CaptureError) as caught:
        read(REPORT)
    assert f"newer Nsight Systems than the 2022.4.2.1 at {path}" in caught.value.problem
    assert "Nsight Systems 2025.3 or newer" in caught.value.remedy


def test_a_report_is_read_through_the_export_of_nsys(machine: Path) -> None:
    tool(machine / "nsys", f'cp {real("both.sqlite")} "$7"')
    capture = read(REPORT)
    assert capture.path == str(REPORT)
    assert len(capture.ranges) == 35


def test_another_nsys_is_tried_when_the_first_is_too_old(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(machine / "nsys", TOO_OLD)
    newer = tool(tmp_path / "opt" / "2025.3" / "target-linux-x64" / "nsys", f'cp {real("both.sqlite")} "$7"')
    monkeypatch.setattr(nsys, "_INSTALLED", (f"{tmp_path}/opt/*/target-linux-*/nsys",))
    assert nsys.find_nsys() == [machine / "nsys", newer]
    assert len(read(REPORT).ranges) == 35


def test_the_newest_installation_comes_first(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [tool(tmp_path / "opt" / version / "bin" / "nsys", "") for version in ("2024.10.1", "2024.9.3", "2025.1.1")]
    monkeypatch.setattr(nsys, "_INSTALLED", (f"{tmp_path}/opt/*/bin/nsys",))
    assert nsys.find_nsys() == [found[2], found[0], found[1]]


def test_the_variable_wins_over_path(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(machine / "nsys", "")
    own = tool(tmp_path / "own" / "nsys", "")
    monkeypatch.setenv(nsys.NSYS_VARIABLE, str(own))
    assert nsys.find_nsys() == [own, machine / "nsys"]


@pytest.mark.parametrize("variable", [nsys.NSYS_VARIABLE, nsys.IMPORTER_VARIABLE])
def test_a_variable_that_names_no_program_is_an_error(
    machine: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "/nowhere/nsys")
    with pytest.raises(ToolMissing, match="which is not a program"):
        nsys.find_importers(nsys.find_nsys())


def test_an_importer_beside_the_target_folder_is_found(machine: Path, tmp_path: Path) -> None:
    home = tmp_path / "nsight-compute" / "host"
    bundled = tool(home / "target-linux-x64" / "nsys", "")
    importer = tool(home / "linux-desktop-glibc_2_11_3-x64" / "QdstrmImporter", "")
    (machine / "nsys").symlink_to(bundled)
    assert nsys.find_importers(nsys.find_nsys()) == [importer]


def test_a_raw_stream_goes_through_the_importer_and_then_the_export(machine: Path, tmp_path: Path) -> None:
    stream = tmp_path / "run.qdstrm"
    stream.write_bytes(b"U3w[END]" + nsys.STREAM_MAGIC + b"2022.4.2.1-df9881f!\n")
    tool(machine / "nsys", f'cp {real("both.sqlite")} "$7"')
    with pytest.raises(ToolMissing, match="QdstrmImporter is not installed") as caught:
        read(stream)
    assert "Nsight Systems 2022.4 or newer" in caught.value.remedy
    tool(tmp_path / "host-linux-x64" / "QdstrmImporter", f'cp {REPORT} "$4"')
    (machine / "nsys").rename(tmp_path / "nsys-elsewhere")
    tool(tmp_path / "target-linux-x64" / "nsys", f'cp {real("both.sqlite")} "$7"')
    (machine / "nsys").symlink_to(tmp_path / "target-linux-x64" / "nsys")
    assert len(read(stream).ranges) == 35


def test_a_stub_that_nsys_leaves_behind_is_no_export(machine: Path, tmp_path: Path) -> None:
    stub = tmp_path / "stub.sqlite"
    with closing(sqlite3.connect(stub)) as base, base:
        base.execute("CREATE TABLE a (x)")
        base.execute("CREATE TABLE b (x)")
    tool(machine / "nsys", f'cp {stub} "$7"; echo "Something went wrong"')
    with pytest.raises(CaptureError, match="said: Something went wrong"):
        read(REPORT)


def test_a_missing_library_is_named(machine: Path) -> None:
    tool(machine / "nsys", 'echo "nsys: error while loading shared libraries: libdw.so.1: cannot open" >&2; exit 127')
    with pytest.raises(ToolMissing, match=r"libdw\.so\.1 is missing"):
        read(REPORT)


def test_a_tool_that_cannot_be_started_says_why(machine: Path) -> None:
    (machine / "nsys").write_bytes(b"\x7fELF nonsense")
    (machine / "nsys").chmod(0o755)
    with pytest.raises(CaptureError, match="Exec format error"):
        read(REPORT)


def test_an_export_without_end_is_ended_and_the_limit_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(machine / "nsys", f'cp {real("both.sqlite")} "$7"; sleep 600')
    monkeypatch.setattr(nsys, "_limits", lambda size: Limits(seconds=0.5))
    with pytest.raises(CaptureError, match="said: It took more than 0 seconds, and was ended"):
        read(REPORT)


def test_an_export_larger_than_it_may_be_is_none(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = 'while [ "$(ulimit -f)" = unlimited ]; do sleep 0.01; done'
    tool(machine / "nsys", f'{limited}; cp {real("both.sqlite")} "$7"')
    monkeypatch.setattr(nsys, "_limits", lambda size: Limits(written=size))
    with pytest.raises(CaptureError, match=r"It wrote more than [\d,]+ bytes, and was ended"):
        read(REPORT)


@pytest.mark.parametrize(
    ("head", "version"),
    [
        (b"NVIDIA Tegra Profiler Report 36398880.\n", "2025.3"),
        (b"NVIDIA Tegra Profiler Report 36000000.\n", "2025.3"),
        (b"NVIDIA Tegra Profiler Report 99999999.\n", "2026.3"),
        (b"NVIDIA Tegra Profiler Report 1.\n", ""),
        (b"U3w[END]NVIDIA Nsight Systems Stream 2022.4.2.1-df9881f!", "2022.4"),
        (b"SQLite format 3\0", ""),
    ],
)
def test_the_needed_version_is_told_from_the_head(head: bytes, version: str) -> None:
    assert nsys.needed_version(head) == version
