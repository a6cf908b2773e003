"""What a user's mistakes look like: one sentence on what is wrong, one on what to do, exit 1, never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pinprof.collect import permission
from tests.support.command import pinprof
from tests.support.h200 import DATA, unpack

ROOT = Path(__file__).parents[2]


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """The one line an error prints, after checking that it is one line and a clean exit."""
    assert "Traceback" not in result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("pinprof: error: ")
    assert len([sentence for sentence in lines[0].split(". ") if sentence]) >= 2, "says what is wrong and what to do"
    return lines[0]


def write_text_file(path: Path) -> None:
    path.write_text("just a shopping list\nmilk\n")


def write_foreign_byte_order(path: Path) -> None:
    path.write_bytes(b"2ELIFREP" + bytes(200))


def write_directory(path: Path) -> None:
    path.mkdir()


def write_unknown_schema(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_text(json.dumps({"schema_version": 4711}))


def write_broken_manifest(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_text("{")


def write_capture_without_samples(path: Path) -> None:
    path.mkdir()
    (path / "manifest.json").write_text(json.dumps({"schema_version": 1}))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_bytes(b""), "empty"),
        (write_directory, "not a pinprof capture"),
        (write_text_file, "is not a recording"),
        (write_foreign_byte_order, "byte order"),
        (write_unknown_schema, "schema version 4711"),
        (write_broken_manifest, "manifest.json"),
        (write_capture_without_samples, "perf.data"),
    ],
    ids=["missing", "empty", "directory", "text", "foreign-byte-order", "schema", "broken-manifest", "no-samples"],
)
def test_unreadable_input_is_named(make: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    path = tmp_path / "input.pinprof"
    make(path)
    result = pinprof("report", path)
    assert result.returncode == 1
    assert words in complaint(result).lower()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["run", "pinned", "--size", "0"], 2, "zero"),
        (["run", "pinned", "--size", "10EiB"], 1, "eib"),
        (["run", "pinned", "--size", "lots"], 2, "size"),
        (["run", "pinned", "--iterations", "0"], 2, "iteration"),
        (["run", "pinned", "--size", "4095"], 2, "4,095 bytes is less than a page of 4 kib"),
        (["run", "pinned", "--backend", "host", "--device", "7"], 2, "no device 7"),
        (["run", "register", "--variant", "half"], 2, "choose one of: touched, untouched"),
        (["run", "pool", "--variant", "mistake"], 2, "--variant mistake"),
        (["run", "torch-pin", "--backend", "host"], 1, "needs an nvidia gpu"),
        (["list", "pinnd"], 2, "did you mean 'pinned'"),
        (["run", "zerocpy"], 2, "zerocopy"),
    ],
)
def test_impossible_requests_are_refused(arguments: list[str], status: int, words: str, tmp_path: Path) -> None:
    result = pinprof(*arguments, cwd=tmp_path)
    assert result.returncode == status, "1: it is the machine's limit"
    assert words in complaint(result).lower()
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.fixture(scope="module")
def perf_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(DATA / "pinned.perf.data.xz", tmp_path_factory.mktemp("h200"))


def test_a_missing_kallsyms_or_ranges_file_is_named(perf_data: Path, tmp_path: Path) -> None:
    for option in ("--kallsyms", "--ranges", "--symfs"):
        result = pinprof("report", perf_data, option, tmp_path / "absent")
        assert result.returncode == 1
        assert "absent" in complaint(result)


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_without_perf_the_package_to_install_is_named(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pinprof", "record", "--with", "perf", "-o", "x", "--", sys.executable, "-c", "0"],
        cwd=tmp_path,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0
    assert "apt install linux-perf" in result.stderr.replace("\n", " ")


LOST = """
import sys
from pinprof.scenario.__main__ import main
from pinprof.workloads import backends
from pinprof.workloads.backends import cuda_api
from tests.support.fake_cuda import FakeCuda

fake = FakeCuda(fail_at=60, lost=True)
backends.gpu_present = lambda: True
cuda_api.import_module = lambda _: fake.module
sys.exit(main(["pinned", "--size-bytes", "8MiB", "--iterations", "1000"]))
"""


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_gpu_lost_while_it_is_recorded_leaves_the_capture_and_no_process(tmp_path: Path) -> None:
    program = tmp_path / "lost.py"
    program.write_text(LOST)
    done = subprocess.run(
        [sys.executable, "-m", "pinprof", "record", "--with", "perf", "-o", "lost", "--", sys.executable, program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "paranoid" in done.stderr or "not permitted" in done.stderr:
        pytest.skip("perf is not permitted here")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("pinprof: error: ")]
    assert "failed with error 999: cudaErrorUnknown" in line
    assert (tmp_path / "lost.pinprof" / "manifest.json").is_file()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # any other process may end while it is looked at
            assert str(tmp_path).encode() not in path.read_bytes()


CROWDED = """
import resource, sys
from pinprof.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
main()
"""


@pytest.mark.parametrize("arguments", [["-o", "page.html"], ["--format", "csv", "-o", "tables"]])
def test_an_output_that_finds_no_room_is_named_and_no_half_of_it_is_left(
    arguments: list[str], perf_data: Path, tmp_path: Path
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CROWDED, "report", perf_data, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 1
    assert f"{arguments[-1]} cannot be written: File too large" in complaint(result)
    assert not list(tmp_path.iterdir())


NOWHERE = """
import tempfile
from pinprof.__main__ import main
tempfile._candidate_tempdir_list = lambda: ["/none/such"]
main()
"""


def test_without_a_folder_for_temporary_files_the_variable_is_named(tmp_path: Path) -> None:
    if permission.sampling_errno():
        pytest.skip("this process may not sample the kernel")
    result = subprocess.run(
        [sys.executable, "-c", NOWHERE, "record", "-o", "out", "--", "true"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0
    assert "The program runs without a recording" in result.stderr
    assert "Set TMPDIR to a writable folder" in result.stderr.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_a_recording_says_which_package_is_missing_and_the_program_keeps_its_status(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT, "numpy", "record", "--no-report", "--", "sh", "-c", "exit 3"]
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert told.returncode == 3
    assert "Install it: pip install numpy" in told.stderr.replace("\n", " ")
    assert "Traceback" not in told.stderr


WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == PACKAGE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

PACKAGE, *sys.argv[1:] = sys.argv[1:]
sys.meta_path.insert(0, Missing())
from pinprof.cli import main
main()
"""


@pytest.mark.parametrize(
    ("package", "arguments", "install"),
    [
        ("jinja2", ["report", "in.folded"], "Jinja2"),
        ("rich", ["report", "in.folded", "--format", "text"], "rich"),
        ("rich", ["doctor"], "rich"),
        ("numpy", ["report", "in.folded"], "numpy"),
        ("pyperf", ["bench", "--quick"], "pyperf"),
        ("pyperf", ["bench", "compare", "a", "b"], "pyperf"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_install_command(
    package: str, arguments: list[str], install: str, tmp_path: Path
) -> None:
    (tmp_path / "in.folded").write_text("a;b 3\n")
    words = [sys.executable, "-c", WITHOUT, package, *arguments]
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert told.returncode == 1
    last = told.stderr.splitlines()[-1]
    assert f"Install it: pip install {install}" in last
    assert last.endswith("[python-package]")
    assert "Traceback" not in told.stderr
