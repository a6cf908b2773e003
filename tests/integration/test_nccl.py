"""Two ranks that trained on two H100 with NCCL (tests/cases/ddp_rank.py): what the answer of their launch says.

`tests/truth/gpu/ranks.py` made the recordings and measured the job without a recorder: 2.80 and 2.96 s as it is,
0.17 and 0.19 s cured.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import pinprof

DATA = Path(__file__).parents[1] / "data/ranks/nccl-two-gpus.tar.xz"
LOST_NS = 2.70e9
GUILTY = 19


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("nccl")
    with tarfile.open(DATA) as archive:
        archive.extractall(place, filter="data")
    return place


def answer(launch: Path) -> Mapping[str, Any]:
    done = pinprof("report", "--format", "json", str(launch))
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def test_the_first_sentence_names_the_rank_its_line_and_what_the_job_loses(folder: Path) -> None:
    said = answer(folder / "nccl-as-is.ranks")
    (hold,) = said["holds"]
    assert hold["ranks"] == [1]
    assert hold["held"] == hold["meetings"] > 60
    assert hold["waits_at"]["function"].startswith("ncclDevKernel_AllReduce")
    assert (hold["lines"][0]["file"].rpartition("/")[2], hold["lines"][0]["line"]) == ("ddp_rank.py", GUILTY)
    assert hold["cost_low_ns"] < LOST_NS < hold["cost_high_ns"]
    first = said["headline"]
    assert first.startswith("Rank 1 ")
    assert f"ddp_rank.py:{GUILTY}" in first


def test_a_packed_launch_has_the_same_answer_as_its_folder(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.tar.xz"
    with tarfile.open(path, "w:xz", preset=0) as packed:
        packed.add(folder / "nccl-cured.ranks", "nccl-cured.ranks")
    assert answer(path) == answer(folder / "nccl-cured.ranks")
    of_rank = [
        pinprof("report", "--format", "folded", "--rank", "1", str(one)).stdout
        for one in (path, folder / "nccl-cured.ranks")
    ]
    assert of_rank[0] == of_rank[1]


def test_the_cured_launch_accuses_nobody(folder: Path) -> None:
    said = answer(folder / "nccl-cured.ranks")
    assert said["verdict"] == "even"
    assert said["holds"] == []
