"""`pinprof diff` of real recordings: mistakes and their cures on an H200, and against other tools' differences."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from pinprof.compare.engine import compare
from pinprof.compare.results import Difference
from pinprof.compare.runs import ComparedRun, run_of
from pinprof.report.export import formats
from tests.cases.recorded import CASES, DATA, SUFFIX, analysed, work_s
from tests.support import h200
from tests.support.command import pinprof
from tests.unit.compare.test_stacks import folded_difference

PAIRS = ("alloc_pairs", "managed_readback", "tiny_copies")
SCENARIOS = (
    ("alloc-loop-mistake", "alloc-loop-pool", "Cheaper: Range alloc pins and frees"),
    ("uvm-thrash-ping-pong", "uvm-thrash-cure", "Gone: Range cpu_read fetches managed memory"),
)


@cache
def case_run(name: str) -> ComparedRun:
    return run_of(analysed(name))


@cache
def scenario_run(name: str) -> ComparedRun:
    return run_of(h200.own_analysis(name))


@cache
def cured(name: str) -> Difference:
    return compare([case_run(name)], [case_run(f"{name}-cured")], (name, f"{name}-cured"))


def seconds(text: str) -> float:
    """The first time in a sentence."""
    found = re.search(r"([\d.]+) (s|ms|µs)\b", text)
    assert found is not None
    return float(found[1]) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[found[2]]


@pytest.mark.parametrize("name", PAIRS)
def test_first_line_names_what_went_away_and_what_the_clocks_saved(name: str) -> None:
    case = next(one for one in CASES if one.name == name)
    headline = cured(name).headline
    assert headline.startswith("Gone: ")
    assert any(f" {line} " in headline for line in case.lines)
    # Tracing takes most of what tiny_copies lasted: its cure is not credited with that.
    saved = seconds(headline.partition("The work takes" if name == "tiny_copies" else "That saves")[2])
    assert saved == pytest.approx(work_s(name) - work_s(f"{name}-cured"), rel=0.03)


@pytest.mark.parametrize("name", ["alloc_pairs", "managed_readback"])
def test_the_saving_is_that_of_the_runs_that_were_measured(name: str) -> None:
    """Of tiny_copies tracing takes most of the time, and its programs were measured without; a note says how much."""
    case = next(one for one in CASES if one.name == name)
    assert seconds(cured(name).headline.partition("That saves")[2]) == pytest.approx(case.saved_s, rel=0.03)


def test_a_cure_is_credited_with_its_own_cost() -> None:
    (case,) = (one for one in CASES if one.name == "tiny_copies")
    assert seconds(cured(case.name).headline.partition("at a cost of")[2]) == pytest.approx(case.saved_s, rel=0.1)


def test_what_tracing_took_is_told_where_it_is_much() -> None:
    (note,) = cured("tiny_copies").notes
    assert note.startswith("About 668 ms of the difference is overhead of the recording")
    assert cured("alloc_pairs").notes == ()


@pytest.mark.parametrize(("mistake", "cure", "begins"), SCENARIOS)
def test_variants_of_a_scenario_by_the_clock_of_their_iterations(mistake: str, cure: str, begins: str) -> None:
    difference = compare([scenario_run(mistake)], [scenario_run(cure)], (mistake, cure))
    assert difference.headline.startswith(begins)
    assert difference.work.name == "iteration"
    clocks = [
        next(entry for entry in h200.own_analysis(name).ranges if entry.name == "iteration") for name in (mistake, cure)
    ]
    per_iteration = [clock.wall_ns / clock.count / 1e9 for clock in clocks]
    saved = seconds(difference.headline.partition("That saves")[2])
    assert saved == pytest.approx(per_iteration[0] - per_iteration[1], rel=0.03)


def test_the_way_back_is_what_came() -> None:
    difference = compare([case_run("alloc_pairs-cured")], [case_run("alloc_pairs")], ("cured", "as is"))
    assert difference.headline.startswith("New: alloc_pairs.cu:11 ")
    assert "That costs 1.36 s (341 %): 1.76 s of work instead of 399 ms" in difference.headline


def test_nothing_is_significant_with_one_run_of_each_side() -> None:
    difference = cured("alloc_pairs")
    assert "there is no test" in difference.tested
    assert {(row.significant, row.chance) for row in difference.rows} == {(False, None)}


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    for name in ("alloc_pairs", "alloc_pairs-cured"):
        with tarfile.open(DATA / (name + SUFFIX)) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(folder)
    return folder


def test_outputs_of_the_command_agree(captures: Path, tmp_path: Path) -> None:
    sides = captures / "alloc_pairs.pinprof", captures / "alloc_pairs-cured.pinprof"
    written = {}
    for form in ("text", "markdown", "json"):
        output = tmp_path / form
        result = pinprof("diff", *sides, "--format", form, "-o", output)
        assert result.returncode == 0, result.stderr
        written[form] = output.read_text("utf-8")
    document = json.loads(written["json"])
    headline = document["headline"]
    assert " ".join(written["text"].split()).startswith(headline)
    assert written["markdown"].startswith("**Gone: alloc_pairs.cu")
    row = next(row for row in document["rows"] if (row["family"], row["name"]) == ("phase", "work"))
    assert (row["significant"], row["p"], row["untested"]) == (False, None, "one run of a side")
    assert row["change"] == row["after"] - row["before"] == pytest.approx(-1.36e9, rel=0.01)
    assert [one["fate"] for one in document["opportunities"]] == ["gone"]
    assert document["before"]["recordings"] == ["alloc_pairs.pinprof"]
    assert str(captures) not in "".join(written.values())
    assert "\x1b" not in written["text"]


def test_two_columns_are_those_of_both_folded_exports(captures: Path, tmp_path: Path) -> None:
    texts = []
    for name in ("alloc_pairs", "alloc_pairs-cured"):
        output = tmp_path / f"{name}.folded"
        result = pinprof("report", captures / f"{name}.pinprof", "--format", "folded", "-o", output)
        assert result.returncode == 0, result.stderr
        # How many of a library's functions call each other changes with its version: a run is one function.
        texts.append(re.sub(r"(\[[^\[\];]+\]) × \d+", r"\1", output.read_text("utf-8")))
    of_files, of_captures = tmp_path / "files", tmp_path / "captures"
    sides = tmp_path / "alloc_pairs.folded", tmp_path / "alloc_pairs-cured.folded"
    assert pinprof("diff", *sides, "--format", "folded", "-o", of_files).returncode == 0
    assert sorted(of_files.read_text("utf-8").splitlines()) == folded_difference(*texts)
    recorded = captures / "alloc_pairs.pinprof", captures / "alloc_pairs-cured.pinprof"
    assert pinprof("diff", *recorded, "--format", "folded", "-o", of_captures).returncode == 0
    probes = re.compile(r"asm_exc_int3|uretprobe|\[uprobes\]")
    programs = [line for line in of_files.read_text("utf-8").splitlines() if not probes.search(line)]
    assert of_captures.read_text("utf-8").splitlines() == programs, "what the recorder took is none of the program's"


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed: apt-get install golang-go")
def test_pprof_s_difference_of_the_exports_agrees(tmp_path: Path) -> None:
    profiles = []
    for name in ("alloc_pairs", "alloc_pairs-cured"):
        profiles.append(tmp_path / f"{name}.pb.gz")
        formats.export("pprof", analysed(name), profiles[-1])
    options = ["-top", "-nodecount=5000", "-nodefraction=0", "-edgefraction=0", "-unit=ns", "-sample_index=0"]
    command = ["go", "tool", "pprof", *options, f"-diff_base={profiles[0]}", str(profiles[1])]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 5) for line in shown.partition("flat%")[2].splitlines()[1:]]
    theirs = {row[5]: int(row[0].removesuffix("ns")) for row in rows}
    ours: Counter[str] = Counter()
    runs = [case_run("alloc_pairs")], [case_run("alloc_pairs-cured")]
    difference = compare(*runs, ("as is", "cured"), exact_names=True)
    (stacks,) = (one for one in difference.stacks if one.event == "cpu-clock")
    assert stacks.frames is not None
    columns = stacks.frame.tolist(), stacks.before.tolist(), stacks.after.tolist()
    for frame, before, after in zip(*columns, strict=True):
        ours[stacks.frames.after[frame] or stacks.frames.before[frame]] += round(after - before)
    checked = {name: change for name, change in ours.items() if change and name in theirs}
    assert len(checked) > 100
    assert {name: theirs[name] for name in checked} == checked
