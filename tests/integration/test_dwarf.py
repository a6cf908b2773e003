"""Lines and inlined functions of addresses, wherever the debug information lies and however damaged it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from pinprof.data.model import Dso, UInt64
from pinprof.read.symbols.dwarf import DebugInformation, Run, TimeBudget, is_own_code, open_debug_information

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "lines"
FOREVER = 2**63
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


def built(folder: Path, *flags: str) -> Path:
    folder.mkdir(exist_ok=True)
    for source in DATA.glob("*.[ch]pp"):
        shutil.copy(source, folder)
    command = ["g++", "-O2", "-fno-omit-frame-pointer", *flags, "main.cpp", "fill.cpp", "-o", "prog"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "prog"


def tool(name: str, *arguments: object, cwd: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([name, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{name} cannot do this: {done.stderr}")


def code_of(path: Path) -> UInt64:
    """Every offset of the program's code in its file."""
    with path.open("rb") as stream:
        text = ELFFile(stream).get_section_by_name(".text")
        return np.arange(text["sh_offset"], text["sh_offset"] + text["sh_size"], dtype=np.uint64)


def opened(path: Path) -> DebugInformation:
    information = open_debug_information(path, "", Path("/"), FOREVER)
    assert information is not None
    return information


def looked_up(path: Path) -> list[Run | None]:
    """What is known of each byte of code; files without the directory that they were compiled in."""
    runs = opened(path).find(code_of(path), FOREVER)
    return [run and tuple(frame._replace(path=frame.path.rpartition("/")[2]) for frame in run) for run in runs]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("plain") / "work", "-g")


@pytest.fixture(scope="module")
def expected(plain: Path) -> list[Run | None]:
    return looked_up(plain)


def line_of(mark: str) -> tuple[str, int]:
    for source in DATA.glob("*.[ch]pp"):
        for number, line in enumerate(source.read_text().splitlines(), start=1):
            if line.endswith(f"// here: {mark}"):
                return source.name, number
    raise LookupError(mark)


def test_inlined_functions_are_frames_of_their_own(expected: list[Run | None]) -> None:
    runs = {tuple((frame.function, frame.path, frame.line) for frame in run) for run in expected if run}
    spins = {run for run in runs if (run[0][1], run[0][2]) == line_of("spin")}
    assert {tuple(name for name, _, _ in run) for run in spins} == {
        ("_Z4spinIjEvRVT_i", "spin_whole"),
        ("_Z4spinIdEvRVT_i", "spin_real"),
    }
    assert all(run[1][1] == "main.cpp" for run in spins)
    fills = {run for run in runs if (run[0][1], run[0][2]) == line_of("fill")}
    assert {tuple(name for name, _, _ in run)[:2] for run in fills} == {("set_all", "_Z4fillPcm")}
    assert any(run[-1][0] == "main" for run in runs)


@pytest.mark.skipif(shutil.which("llvm-symbolizer") is None, reason="no llvm-symbolizer")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_llvm_symbolizer_says_the_same(version: int, tmp_path: Path) -> None:
    program = built(tmp_path / "work", f"-gdwarf-{version}", "-gstrict-dwarf")
    offsets = code_of(program)
    with program.open("rb") as stream:
        text = ELFFile(stream).get_section_by_name(".text")
        addresses = offsets + np.uint64(text["sh_addr"] - text["sh_offset"])
    command = ["llvm-symbolizer", f"--obj={program}", "-i", "--no-demangle", "--output-style=JSON"]
    done = subprocess.run([*command, *map(hex, addresses.tolist())], capture_output=True, text=True, check=True)
    pairs = zip(opened(program).find(offsets, FOREVER), json.loads(done.stdout), strict=True)
    known = [(run, answer["Symbol"]) for run, answer in pairs if run]
    assert len(known) > 1000
    for run, theirs in known:
        assert [frame.line for frame in run] == [each["Line"] for each in theirs]
        # The outermost function is the symbol table's there.
        assert [frame.function for frame in run[:-1]] == [each["FunctionName"] for each in theirs[:-1]]


def split(folder: Path) -> Path:
    return built(folder, "-g", "-gsplit-dwarf")


def packaged(folder: Path) -> Path:
    program = split(folder)
    tool("llvm-dwp", "-e", program, "-o", "prog.dwp", cwd=folder)
    return without_parts(program)


def packaged_before_dwarf_5(folder: Path) -> Path:
    program = built(folder, "-gdwarf-4", "-gsplit-dwarf")
    tool("dwp", "-e", program, cwd=folder)
    return without_parts(program)


def without_parts(program: Path) -> Path:
    for part in program.parent.glob("*.dwo"):
        part.unlink()
    return program


def moved(folder: Path) -> Path:
    """A split program with its parts, away from where it was compiled."""
    program = split(folder)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for part in (*folder.glob("*.dwo"), program):
        part.rename(elsewhere / part.name)
    return elsewhere / program.name


def linked(folder: Path) -> Path:
    program = built(folder, "-g", "-Wl,--build-id")
    tool("objcopy", "--only-keep-debug", program, "prog.debug", cwd=folder)
    tool("objcopy", "--strip-debug", "--add-gnu-debuglink=prog.debug", program, cwd=folder)
    return program


def compressed(way: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        program = built(folder, "-g")
        tool("objcopy", f"--compress-debug-sections={way}", program, cwd=folder)
        return program

    return make


VARIANTS: dict[str, Callable[[Path], Path]] = {
    "DWARF 4": lambda folder: built(folder, "-gdwarf-4"),
    "split": split,
    "split DWARF 4": lambda folder: built(folder, "-gdwarf-4", "-gsplit-dwarf"),
    "split and moved": moved,
    "package": packaged,
    "package DWARF 4": packaged_before_dwarf_5,
    "debug link": linked,
    "zlib": compressed("zlib"),
    "zlib-gnu": compressed("zlib-gnu"),
    "zstd": compressed("zstd"),
}


@pytest.mark.parametrize("way", VARIANTS)
def test_it_is_found_wherever_it_lies(way: str, tmp_path: Path, expected: list[Run | None]) -> None:
    assert looked_up(VARIANTS[way](tmp_path / "work")) == expected


def test_a_split_part_of_another_build_is_not_used(tmp_path: Path) -> None:
    program = split(tmp_path / "work")
    other = built(tmp_path / "other", "-g", "-gsplit-dwarf", "-DOTHER")
    for part in other.parent.glob("*.dwo"):
        shutil.copy(part, program.parent)
    runs = [run for run in looked_up(program) if run]
    assert runs
    assert {len(run) for run in runs} == {1}, "lines lie in the program, inlined functions in the split part"


def test_another_build_and_a_stripped_file_have_none(plain: Path, tmp_path: Path) -> None:
    assert open_debug_information(plain, "00" * 20, Path("/"), FOREVER) is None
    stripped = tmp_path / "prog"
    tool("strip", plain, "-o", stripped, cwd=tmp_path)
    assert open_debug_information(stripped, "", Path("/"), FOREVER) is None
    assert open_debug_information(tmp_path / "nothing", "", Path("/"), FOREVER) is None
    assert open_debug_information(Path("/dev/zero"), "", Path("/"), FOREVER) is None


def test_what_the_time_does_not_suffice_for_is_told_apart(plain: Path) -> None:
    offsets = code_of(plain)
    assert opened(plain).find(offsets, time.monotonic_ns() - 1) == [None] * len(offsets)
    budget, before = TimeBudget(0.02), time.monotonic_ns()
    with budget as until:
        assert until >= before + 20_000_000
        time.sleep(0.03)
    with budget as until:
        assert until <= time.monotonic_ns()


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/home/me/app/prog", True),
        ("/home/me/app/libcustom.so", True),
        ("/home/me/app/libcurl.so.4", True),
        ("/usr/local/bin/prog", True),
        ("/opt/app/lib/libapp.so", True),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", False),
        ("/lib64/ld-linux-x86-64.so.2", False),
        ("/usr/bin/stress", False),
        ("/usr/local/cuda-12.4/lib64/libcudart.so.12", False),
        ("/opt/conda/lib/libstdc++.so.6.0.30", False),
        ("/opt/conda/bin/python3.11", False),
        ("/opt/conda/lib/libpython3.11.so.1.0", False),
        ("/home/me/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so", False),
        ("/home/me/app/libcublasLt.so.12", False),
        ("/home/me/app/libnvrtc-builtins.so.12.4", False),
        ("[anon]", False),
    ],
)
def test_the_programs_own_code(path: str, own: bool) -> None:
    assert is_own_code(Dso(path, "", "file")) is own


def test_code_made_at_run_time_is_not_looked_up() -> None:
    assert not is_own_code(Dso("/home/me/app/prog", "", "jit"))


SEED = "1"
"""The same damage in every run: with another number this looks for new faults."""
DAMAGE = r"""
import random, re, sys, time
from pathlib import Path
import numpy as np
from elftools.elf.elffile import ELFFile
from pinprof.read.symbols.dwarf import open_debug_information
from tests.integration.test_dwarf import code_of

source, folder, chance = Path(sys.argv[1]), Path(sys.argv[2]), random.Random(int(sys.argv[3]))
whole = source.read_bytes()
names = sorted(part.name for part in source.parent.iterdir() if part.suffix in (".dwo", ".dwp"))
with source.open("rb") as stream:
    places = [
        (section["sh_offset"], section["sh_size"])
        for section in ELFFile(stream).iter_sections()
        if section.name.startswith(".debug") and section["sh_size"]
    ]
offsets = code_of(source)
answered = 0
for turn in range(int(sys.argv[4])):
    raw = bytearray(whole)
    for _ in range(chance.choice([1, 10, 1000])):
        start, size = chance.choice(places)
        raw[start + chance.randrange(size)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    if turn % 5 == 0:
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    place = folder / source.name
    place.write_bytes(raw[: chance.randrange(len(raw))] if turn % 11 == 0 else raw)
    for name in names:
        part = bytearray((source.parent / name).read_bytes())
        for _ in range(chance.choice([0, 1, 30])):
            part[chance.randrange(len(part))] = chance.randrange(256)
        (folder / name).write_bytes(part)
    information = open_debug_information(place, "", Path("/nowhere"), time.monotonic_ns() + 60 * 10**9)
    # A search that never looks at its deadline works on; one that a busy machine keeps waiting uses no CPU time.
    begin = time.process_time_ns()
    if information:
        chosen = offsets[:: chance.choice([1, 7, 100])]
        runs = information.find(chosen, time.monotonic_ns() + 10**9)
        assert time.process_time_ns() - begin < 3 * 10**9, "it takes longer than it may"
        if not any(runs) and None in runs:
            runs = information.find(chosen, time.monotonic_ns() + 60 * 10**9)
        answered += any(runs)
        assert all(run is None or len(run) <= 24 for run in runs)
print(answered)
"""


@pytest.mark.parametrize("way", ["plain", "split", "package", "zstd"])
def test_damage_costs_lines_and_nothing_else(way: str, plain: Path, tmp_path: Path) -> None:
    source = plain if way == "plain" else VARIANTS[way](tmp_path / "work")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    command = [sys.executable, "-c", DAMAGE, str(source), str(damaged), SEED, "150"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{done.returncode} {done.stderr[-2000:]}"
    # Names of folders are part of what is damaged. Compressed, one in five leaves something to read: at most five of
    # 150 do so once in ten million times.
    assert int(re.findall(r"\d+", done.stdout)[-1]) > 5
