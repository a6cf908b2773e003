"""The agent's part for NVTX inside real programs: C, C++ and Python, threads, forks, and what goes wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.base.errors import ToolMissing
from pinprof.collect import RecordRequest, collector, nvtx
from pinprof.collect.collector import Setup
from pinprof.machine.libraries import INSIDE, Library, compiler
from pinprof.read import ReadOptions, read
from pinprof.read.nvtx.injection import LoadedNvtx, read_folder
from pinprof.streams import store
from tests.support.nvtx_headers import headers

DATA = Path(__file__).parents[1] / "data/nvtx"
PINPROF = [sys.executable, "-m", "pinprof"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not compiler():
        pytest.skip("no C compiler")
    return INSIDE.compile_into(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`speaks` and `speaks++`, which say things through NVTX."""
    include, folder = headers(), tmp_path_factory.mktemp("programs")
    if include is None:
        pytest.skip("no NVTX headers: pip install nvidia-nvtx")
    if not shutil.which("gcc") or not shutil.which("g++"):
        pytest.skip("no C or C++ compiler")
    common = ["-I", str(include), "-ldl", "-pthread"]
    subprocess.run(["gcc", str(DATA / "speaks.c"), "-o", str(folder / "speaks"), *common], check=True)
    subprocess.run(["g++", "-std=c++17", str(DATA / "speaks.cpp"), "-o", str(folder / "speaks++"), *common], check=True)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "nvtx").mkdir()
    return tmp_path / "nvtx"


def speak(library: Path, place: Path, *command: str | Path, status: int = 0) -> LoadedNvtx:
    """What the library recorded of a command that ends with that status."""
    environment = {**os.environ, nvtx.LIBRARY_VARIABLE: str(library), nvtx.FOLDER_VARIABLE: str(place)}
    ended = subprocess.run(command, env=environment, check=False, timeout=600, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    return read_folder(place)


def named(found: LoadedNvtx) -> list[tuple[str, str, int]]:
    table = found.ranges
    return list(zip(table.domain, table.name, table.depth.tolist(), strict=True))


EVERY = [
    ("", "a", 0),
    ("", "w", 1),
    ("", "ex", 2),
    ("", "wide ex", 3),
    ("plain", "registered", 4),
    ("größe", "registriert → 😀", 5),
    ("plain", "(no name)", 6),
    ("", "start a", 0),
    ("", "start w", 0),
    ("", "ex", 0),
    ("plain", "registered", 0),
    ("", "(no name)", 0),
    ("", "(no name)", 0),
    (f"domain {0xDEAD}", "ex", 0),
]


def test_every_function_of_nvtx_is_recorded(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks", "every")
    assert named(found) == EVERY
    assert found.notes == ()
    texts = [found.marks.names[number] for number in found.marks.name]
    assert texts == ["mark a", "mark w", "ex", "registered"]
    (pid,) = set(found.ranges.pid.tolist())
    assert found.thread_names == {(pid, pid): "speaker", (pid, 1): "fädchen"}


def test_ranges_of_cpp(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks++")
    assert named(found) == [
        ("", "whole", 0),
        ("a library", "function", 1),
        ("a library", "registered by its type", 1),
        ("", "ended in another thread", 1),
        ("", "left by an exception", 1),
    ]
    assert found.notes == ()


def test_ranges_of_python(library: Path, place: Path) -> None:
    code = """
import nvtx, threading
@nvtx.annotate("decorated", domain="app", category="work", payload=3)
def work():
    nvtx.mark("mark", domain="app")
with nvtx.annotate("größer"):
    work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
nvtx.end_range(nvtx.start_range("started", domain="app"))
"""
    found = speak(library, place, sys.executable, "-c", code)
    assert named(found) == [
        ("", "größer", 0),
        ("app", "decorated", 1),
        ("app", "decorated", 0),
        ("app", "started", 0),
    ]
    assert len(set(found.ranges.tid.tolist())) == 2
    assert len(found.marks) == 2


def test_ranges_through_nvidias_shared_library(library: Path, place: Path) -> None:
    include = headers()
    found = list(include.parent.glob("lib/libnvtx3interop.so*")) if include else []
    if not found:
        pytest.skip("no libnvtx3interop: pip install nvidia-nvtx")
    code = "import ctypes, sys; nvtx = ctypes.CDLL(sys.argv[1]); nvtx.nvtxRangePushA(b'by ctypes'); nvtx.nvtxRangePop()"
    assert named(speak(library, place, sys.executable, "-c", code, found[0])) == [("", "by ctypes", 0)]


def test_each_thread_has_its_own_ranges_and_ended_ones_leave_their_room(
    library: Path, programs: Path, place: Path
) -> None:
    found = speak(library, place, programs / "speaks", "threads")
    table = found.ranges
    assert Counter(table.name) == {**{f"thread {number}": 1 for number in range(400)}, "inner": 400}
    for tid in set(table.tid.tolist()):
        assert sorted(table.depth[table.tid == tid].tolist()) in ([0, 1], [0, 0, 1, 1])  # ids may come again
    (file,) = place.iterdir()
    # Eight at once, of 16 KiB each; some may have begun before others gave their room back.
    assert file.stat().st_size < 40 * 16384
    assert found.notes == ()


def test_forked_processes_have_files_of_their_own_and_know_their_parents_names(
    library: Path, programs: Path, place: Path
) -> None:
    found = speak(library, place, programs / "speaks", "fork")
    inherited = ("parent's domain", "parent's string", 0)
    assert sorted(named(found)) == sorted(
        [
            ("", "parent", 0),
            *3 * [inherited],
            ("", "child", 1),
            ("", "grandchild", 1),
            ("", "cloned", 1),
        ]
    )
    assert len(list(place.iterdir())) == len(set(found.ranges.pid.tolist())) == 4
    assert found.unmatched == 3


def test_an_executed_program_begins_anew(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks", "exec")
    assert Counter(found.ranges.name) == {"before": 1, "loop": 10000}
    assert len(list(place.iterdir())) == 2
    assert found.open_ranges == 1


def test_a_killed_process_has_lost_nothing(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks", "kill", status=-signal.SIGKILL)
    assert Counter(found.ranges.name) == {"loop": 1000, "open": 1}
    assert found.ranges.end_ns[-1] == found.marks.time_ns[0]
    assert (found.open_ranges, found.lost) == (1, 0)


def test_a_file_of_the_program_is_never_taken_for_ours(library: Path, programs: Path, place: Path) -> None:
    theirs = place.parent / "theirs"
    found = speak(library, place, programs / "speaks", "close", theirs)
    assert theirs.read_bytes() == b"mine"
    assert len(found.ranges) == 5010


def test_signal_handlers_may_speak_at_any_moment(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks", "signals")
    assert len(found.ranges) + found.lost >= 200001
    assert found.damaged == 0


def test_ten_thousand_domains(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks", "domains")
    assert set(found.ranges.domain) == {f"domain {number}" for number in range(10000)}


def test_texts_of_any_length_and_content(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks", "long")
    cut = "é" * 512 + "…"
    assert found.ranges.name == (cut, cut, "\ufffd\ufffd<script>\n\x1b[31m", "(no name)")
    assert found.cut == 1, "both are the same text"


def test_unbalanced_programs_are_counted(library: Path, programs: Path, place: Path) -> None:
    found = speak(library, place, programs / "speaks", "unbalanced")
    assert found.unmatched == 1
    assert found.too_deep > 0
    assert max(found.ranges.depth) < 128


def test_a_limit_of_file_sizes_ends_the_recording_and_not_the_program(
    library: Path, programs: Path, place: Path
) -> None:
    found = speak(library, place, programs / "speaks", "limit")
    assert 2 * len(found.ranges) - found.open_ranges + found.lost == 20000
    assert 0 < found.lost < 20000


def test_a_full_disk_ends_the_recording_and_not_the_program(library: Path, programs: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        found = speak(library, disk, programs / "speaks", "loop")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert 2 * len(found.ranges) - found.open_ranges + found.lost == 20000
    assert 0 < found.lost < 20000


def test_the_program_finds_errno_and_descriptors_as_they_were(library: Path, programs: Path, place: Path) -> None:
    environment = {**os.environ, nvtx.LIBRARY_VARIABLE: str(library), nvtx.FOLDER_VARIABLE: str(place)}
    said = subprocess.run(
        [programs / "speaks", "errno"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert said.stdout == b"1234 0\n"


@pytest.mark.parametrize("folder", ["", "relative", "/none/such", "/" + "x" * 5000])
def test_without_a_place_to_write_nvtx_does_nothing(library: Path, programs: Path, folder: str) -> None:
    environment = {**os.environ, nvtx.LIBRARY_VARIABLE: str(library), nvtx.FOLDER_VARIABLE: folder}
    subprocess.run([programs / "speaks", "every"], env=environment, check=True)


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_recorded_program_has_its_ranges_in_the_report(programs: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.pinprof"
    command = [*PINPROF, "record", "--with", "perf", "-o", str(target), "--", str(programs / "speaks++")]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert said.returncode == 0, said.stderr
    report = [*PINPROF, "report", "--format", "text", "--all", str(target)]
    told = subprocess.run(report, capture_output=True, text=True, check=True, timeout=600).stdout
    assert "registered by its type" in told
    capture = read(target, ReadOptions())
    assert capture.ranges.name[:3] == ("whole", "function", "registered by its type")
    assert (target / store.NVTX).is_dir()


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_phase_is_in_the_report_once(tmp_path: Path) -> None:
    code = """
from pinprof.scenario import phase
import nvtx
with phase("outer"):
    with phase("inner"), nvtx.annotate("library"):
        sum(range(1000))
"""
    target = tmp_path / "out.pinprof"
    command = [*PINPROF, "record", "--with", "perf", "--no-report", "-o", str(target)]
    subprocess.run([*command, "--", sys.executable, "-c", code], check=True, capture_output=True, timeout=600)
    ranges = read(target, ReadOptions()).ranges
    assert list(zip(ranges.domain, ranges.name, ranges.depth.tolist(), strict=True)) == [
        ("pinprof", "outer", 0),
        ("pinprof", "inner", 1),
        ("", "library", 2),
    ]


def joined(capture: Path, *collectors: str) -> Setup:
    """A recording by these collectors, perf alone by default, that the library has joined."""
    setup = Setup(RecordRequest(("true",), collectors or ("perf",)), capture, ExitStack(), dict(os.environ))
    assert nvtx.COLLECTOR.join(setup) == []
    return setup


def test_a_library_that_the_user_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(nvtx.LIBRARY_VARIABLE, "/their/tool.so")
    setup = joined(tmp_path)
    assert setup.environment == dict(os.environ)
    assert setup.notes == ["NVTX_INJECTION64_PATH is set, so NVTX ranges go to that library and not into the capture."]
    assert joined(tmp_path, "perf", "nsys").notes == []
    assert list(tmp_path.iterdir()) == []


def test_under_another_pinprof_the_inner_one_records(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nvtx.LIBRARY_VARIABLE, str(library))
    monkeypatch.setenv(nvtx.FOLDER_VARIABLE, "/outer")
    setup = joined(tmp_path)
    assert setup.environment[nvtx.FOLDER_VARIABLE] == str(tmp_path / "nvtx")
    setup.places.close()
    assert list(tmp_path.iterdir()) == []


def not_built(folder: Path) -> Library:
    """The library as in a package that was built without a compiler."""
    inside = shutil.copytree(INSIDE.source.parent, folder / "inside", ignore=shutil.ignore_patterns("*.so"))
    return replace(INSIDE, source=inside / INSIDE.source.name)


def test_the_library_is_built_once_into_the_users_cache(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbuilt = not_built(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = unbuilt.find()
    assert made == tmp_path / "cache/pinprof" / unbuilt.name
    before = made.stat().st_mtime_ns
    assert unbuilt.find() == made
    assert made.stat().st_mtime_ns == before
    made.unlink()
    made.parent.chmod(0o777)
    with pytest.raises(ToolMissing, match="other users can write"):
        unbuilt.find()


def test_without_library_and_compiler_the_recording_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(nvtx.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(collector, "INSIDE", not_built(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    setup = joined(tmp_path)
    assert setup.environment == dict(os.environ)
    assert "no C compiler" in setup.notes[0]
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("CC", "false")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "could not be compiled" in joined(tmp_path).notes[0]
