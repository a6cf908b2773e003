"""C++ and Rust programs have the lines that they spent their time in, also where the program is gone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof import analyze, read
from pinprof.analyze.lines import EventLines
from pinprof.collect.native import unwinding

DATA = Path(__file__).parents[1] / "data" / "lines"
pytestmark = pytest.mark.skipif(not unwinding.supported(), reason="no register numbers for this machine")


def place_of(mark: str) -> str:
    for source in DATA.iterdir():
        for number, line in enumerate(source.read_text().splitlines(), start=1):
            if line.endswith(f"// here: {mark}"):
                return f"{source.name}:{number}"
    raise LookupError(mark)


def recorded(program: Path, *arguments: str) -> tuple[Path, str]:
    """The capture, and what the program printed."""
    capture = program.with_name("run.pinprof")
    command = [sys.executable, "-m", "pinprof", "record", "--no-report", "-o", str(capture), "--", str(program)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    return capture, done.stdout


def lines_of(capture: Path) -> EventLines:
    analysis = analyze.analyze(read.read(capture))
    return next(event for event in analysis.lines if analysis.capture.events[event.event].name.startswith("cpu-clock"))


def shares(event: EventLines) -> dict[tuple[str, str], float]:
    """By place and function without parameters."""
    weights: dict[tuple[str, str], float] = {}
    for row in event.lines:
        key = row.place, row.function.partition("(")[0].removeprefix("void ")
        weights[key] = weights.get(key, 0) + row.weight / event.total
    return weights


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("flags", [["-g"], ["-gdwarf-4", "-gsplit-dwarf"]], ids=["plain", "split"])
def test_lines_of_cpp_have_the_time_that_the_program_measured(flags: list[str], tmp_path: Path) -> None:
    program = tmp_path / "prog"
    sources = [str(DATA / "main.cpp"), str(DATA / "fill.cpp")]
    command = ["g++", "-O2", "-fno-omit-frame-pointer", *flags, *sources, "-o", str(program)]
    subprocess.run(command, check=True, cwd=tmp_path)
    capture, printed = recorded(program, "2")
    spent = json.loads(printed)
    truth = {name: seconds / sum(spent.values()) for name, seconds in spent.items()}
    here = shares(lines_of(capture))
    assert {
        "spin<unsigned int>": here[place_of("spin"), "spin<unsigned int>"],
        "spin<double>": here[place_of("spin"), "spin<double>"],
        "sort": here[place_of("sort"), "sort_numbers"],
        "fill": here[place_of("fill"), "set_all"],
    } == pytest.approx(truth, abs=0.04)  # 2,000 samples: the standard error of a share is one point

    for left in {*tmp_path.glob("prog*"), *tmp_path.glob("*.dwo")}:
        left.unlink()
    assert shares(lines_of(capture)) == here


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no rustc")
def test_lines_of_rust(tmp_path: Path) -> None:
    program = tmp_path / "prog"
    command = ["rustc", "-g", "-O", "-C", "force-frame-pointers=yes", str(DATA / "main.rs"), "-o", str(program)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("rustc cannot build programs here")
    capture, _ = recorded(program)
    here = shares(lines_of(capture))
    assert here[place_of("mixed"), "main::mixed"] > 0.5
    assert sum(share for (place, _), share in here.items() if place.startswith("main.rs:")) > 0.97


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_without_debug_information_reads_as_before(tmp_path: Path) -> None:
    source = tmp_path / "work.c"
    source.write_text(
        "volatile long sink; int main(void) { for (long n = 0; n < 300000000; n++) sink += n; return 0; }"
    )
    subprocess.run(["cc", "-O1", str(source), "-o", str(tmp_path / "prog")], check=True)
    capture, _ = recorded(tmp_path / "prog")
    analysis = analyze.analyze(read.read(capture))
    assert analysis.lines == ()
    assert "main" in analysis.capture.stacks.frames.symbol
