"""Damaged inputs of every format end in a report or in an error of pinprof's own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from pinprof import read
from pinprof.analyze import analyze
from pinprof.base.errors import PinprofError
from pinprof.read import directory
from pinprof.read.perf import data as perf_data
from pinprof.report.gather import build
from tests.fuzz import check, keep, seeds, slim
from tests.fuzz.check import Known, Thorough
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.undamaged import Undamaged
from tests.fuzz.workers import Place

ROOT = Path(__file__).parents[2]
INPUTS, SEED = 2000, 12


@pytest.mark.timeout(1800)  # a busy machine makes no input slow, but all of them together
def test_random_damage_ends_in_a_report_or_in_an_error_of_ours(tmp_path: Path) -> None:
    """The same inputs in every run, so that no change fails by chance; PINPROF_FUZZ_SEED takes others."""
    seed = os.environ.get("PINPROF_FUZZ_SEED") or str(SEED)
    command = [sys.executable, "-m", "tests.fuzz", f"--inputs={INPUTS}", f"--seed={seed}", f"--folder={tmp_path}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(found.stdout, found.stderr)
    assert found.returncode == 0, f"seed {seed}"


@pytest.mark.parametrize("place", list(keep.kept()), ids=lambda place: f"{place.parent.name}-{place.name}")
def test_what_failed_once_fails_no_more(place: Path, tmp_path: Path) -> None:
    target, seed, damage = keep.load(place)
    target.check(Place(tmp_path).written(target, seed % len(target.seeds), damage), Thorough(), Known())


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_every_seed_is_read(target: Target, tmp_path: Path) -> None:
    for number in range(len(target.seeds)):
        assert target.check(Place(tmp_path).written(target, number, {}), Thorough(page=False, exports=False), Known())


def test_an_input_is_a_function_of_its_seed_and_number() -> None:
    for target in TARGETS:
        made = [target.damaged(Random("1:7"), target.seeds[0]) for _ in range(2)]
        assert made[0] == made[1]
        assert made[0]


CAPTURES = [target for target in TARGETS if target.part.startswith("*/") and target.check is check.report]


@pytest.mark.parametrize("target", CAPTURES, ids=[target.name for target in CAPTURES])
def test_with_what_is_remembered_of_undamaged_files_inputs_read_the_same(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for module, name in ((directory, "found"), (perf_data, "load")):
        monkeypatch.setattr(module, name, getattr(module, name))
    inputs = []
    for number in range(4):
        random = Random(f"3:{number}")
        seed = target.chosen(random)
        inputs.append((seed, target.damaged(random, target.seeds[seed])))
    plain = [said_of(Place(Path()).written(target, *each)) for each in inputs]
    undamaged = Undamaged()
    undamaged.install()
    place = Place(Path(), undamaged)
    for seed in {seed for seed, _ in inputs}:
        said_of(place.written(target, seed, {}))
    assert [said_of(place.written(target, *each)) for each in inputs] == plain


def said_of(path: Path) -> str:
    """What a report says as JSON, or why there is none."""
    out = io.StringIO()
    try:
        build(analyze(read.read(path))).write("json", out)
    except PinprofError as error:
        return str(error)
    return out.getvalue()


def test_trimmed_recordings_keep_their_features(tmp_path: Path) -> None:
    """What lies behind the records of a perf.data moves with them: the events' names and the command are there."""
    whole = seeds.xz("h200/pageable.perf.data")
    read_back = []
    for name, data in (("whole", whole), ("trimmed", slim.perf(whole))):
        (tmp_path / name).write_bytes(data)
        read_back.append(read.read(tmp_path / name))
    assert 0 < len(read_back[1].samples) < len(read_back[0].samples)
    assert read_back[1].events == read_back[0].events
    assert read_back[1].manifest == read_back[0].manifest
