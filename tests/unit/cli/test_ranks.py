"""Which rank of which launch this is, where its capture goes, and how all of them are found again."""

from __future__ import annotations

import errno
import os
import re
import signal
from pathlib import Path

import pytest

from pinprof import read
from pinprof.base.errors import CaptureError, UsageError
from pinprof.cli import launch
from pinprof.cli.launch import one_rank, report_launch
from pinprof.cli.ranks import Rank, expanded, named_output, output, this_rank
from pinprof.read import ReadOptions
from pinprof.streams import store
from pinprof.streams.store import MANIFEST

BEGAN = re.compile(rf"\d{{8}}-\d{{6}}-{os.getppid()}")


@pytest.mark.parametrize(
    ("environment", "number", "size", "launcher", "launch"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "job/7"}, 3, 8, "torchrun", "job_7"),
        ({"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}, 0, 2, "torchrun", None),
        ({"RANK": "0", "WORLD_SIZE": "2"}, 0, 2, "torchrun", None),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"},
            1, 2, "torchrun", "a-restart-2",
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6", "PMIX_NAMESPACE": "prterun-host-12@1"},
            5, 6, "mpirun", "mpi-d3e0a5f48148",
        ),
        ({"PMIX_RANK": "2", "PMIX_NAMESPACE": "1234"}, 2, None, "mpirun", "1234"),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, 1, 4, "mpirun", None),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}, 9, 16, "srun",
         "slurm-77.0"),
        ({"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "../.."}, 0, 2, "torchrun", "_.."),
    ],
)  # fmt: skip
def test_a_launchers_variables_tell_rank_and_launch(
    environment: dict[str, str], number: int, size: int | None, launcher: str, launch: str | None
) -> None:
    rank = this_rank(environment)
    assert rank is not None
    assert (rank.number, rank.size, rank.launcher) == (number, size, launcher)
    assert rank.launch == launch if launch else BEGAN.fullmatch(rank.launch)


@pytest.mark.parametrize(
    ("environment", "here"),
    [
        ({"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, 8),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}, 3),
        ({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"}, 2),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_STEP_TASKS_PER_NODE": "4,6(x2)"}, 6),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "many"}, 1),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "0"}, 1),
        ({"PMIX_RANK": "2"}, 1),
    ],
)
def test_a_launchers_variables_tell_how_many_ranks_share_the_processors(
    environment: dict[str, str], here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1} if pid == os.getppid() else {0})
    rank = this_rank(environment)
    assert rank is not None
    assert rank.processors == 2 / here


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "3"},
        {"RANK": "captain", "WORLD_SIZE": "8"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
    ],
)
def test_a_program_by_itself_has_no_rank(environment: dict[str, str]) -> None:
    assert this_rank(environment) is None


def test_all_ranks_of_a_launch_share_a_folder() -> None:
    places = {output("train me.py", Rank(number, 4, "torchrun", "run-1")) for number in range(4)}
    assert {str(place.parent) for place in places} == {"train_me.py-run-1.ranks"}
    assert {place.name for place in places} == {f"rank-{number}.pinprof" for number in range(4)}


def test_a_folder_of_ranks_is_its_captures_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "train.ranks"
    for name in ("rank-10.pinprof", "rank-2.pinprof", "rank-0.pinprof", "rank-1.pinprof.partial", "rank-0.html"):
        (folder / name).mkdir(parents=True)
    assert [path.name for path in expanded(folder)] == ["rank-0.pinprof", "rank-2.pinprof", "rank-10.pinprof"]


def test_other_paths_stay_what_they_are(tmp_path: Path) -> None:
    capture = tmp_path / "one.pinprof"
    capture.mkdir()
    (capture / MANIFEST).touch()
    for path in (capture, tmp_path, tmp_path / "missing", Path("-")):
        assert expanded(path) == [path]


def test_a_folder_without_a_finished_rank_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "train.ranks"
    (folder / "rank-0.pinprof.partial").mkdir(parents=True)
    with pytest.raises(CaptureError, match="no finished capture"):
        expanded(folder)


def recorded(place: Path, rank: Rank) -> Path:
    """A finished capture of a rank."""
    writer = store.CaptureWriter.create(place, store.new_manifest())
    return writer.finish(store.new_manifest(outcome={"rank": rank.facts()}))


@pytest.mark.parametrize("name", ["run", "run.pinprof", "run.ranks"])
def test_all_ranks_of_a_launch_with_a_name_share_its_folder(name: str, tmp_path: Path) -> None:
    places = [named_output(tmp_path / name, Rank(number, 2, "torchrun", "job")) for number in range(2)]
    assert places == [tmp_path / f"run.ranks/rank-{number}.pinprof" for number in range(2)]
    assert [path.name for path in (tmp_path / "run.ranks").iterdir()] == [".launch"]


def test_a_launch_with_the_name_of_another_has_the_next_folder_whatever_its_size(tmp_path: Path) -> None:
    recorded(named_output(tmp_path / "run", Rank(0, 2, "torchrun", "job")), Rank(0, 2, "torchrun", "job"))
    places = [named_output(tmp_path / "run", Rank(number, 4, "torchrun", "later")) for number in range(4)]
    assert {place.parent.name for place in places} == {"run-2.ranks"}


def test_with_force_captures_of_another_launch_make_room_and_those_of_this_one_stay(tmp_path: Path) -> None:
    old = [Rank(number, 3, "torchrun", "job") for number in range(3)]
    for rank in old:
        recorded(named_output(tmp_path / "run", rank), rank)
    new = [Rank(number, 2, "torchrun", "later") for number in range(2)]
    for rank in new:
        recorded(named_output(tmp_path / "run", rank, force=True), rank)
    assert expanded(tmp_path / "run.ranks") == [tmp_path / f"run.ranks/rank-{number}.pinprof" for number in range(2)]


def test_a_folder_that_cannot_be_made_is_named_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = named_output(tmp_path / "file" / "run", Rank(1, 2, "torchrun", "job"))
    assert place == tmp_path / "file/run.ranks/rank-1.pinprof"


def test_one_rank_of_a_launch_is_picked_and_others_are_listed() -> None:
    captures = [Path(f"job.ranks/rank-{number}.pinprof") for number in (0, 3)]
    assert one_rank(captures, 3) == captures[1]
    with pytest.raises(UsageError, match="no capture of rank 2") as refused:
        one_rank(captures, 2)
    assert "0, 3" in refused.value.remedy


def test_a_form_of_one_recording_is_refused_for_a_launch_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="format for a single rank"):
        report_launch(Path("job.ranks"), [Path("missing")], "pprof", None, ReadOptions())


def dies_of_rank_1(path: Path, options: ReadOptions) -> launch._Read:
    """In place of reading a rank."""
    number = launch.rank_of(path) or 0
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return launch._Read(number, None, "read")


@pytest.mark.slow
def test_a_rank_whose_process_dies_is_named_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_reduced", dies_of_rank_1)
    captures = [Path(f"job.ranks/rank-{number}.pinprof") for number in range(3)]
    found = list(launch._several_at_a_time(captures, ReadOptions(), 2))
    assert [one.number for one in found] == [0, 1, 2]
    assert [one.problem == "read" for one in found] == [True, False, True]
    assert "died" in found[1].problem


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "Cannot allocate memory. Free some"),
        (KeyError("frame"), "KeyError: 'frame'. `--rank 2` shows where"),
        (CaptureError("It is cut.", "Copy it again.", "cut"), "It is cut"),
    ],
)
def test_whatever_keeps_one_rank_from_being_read_the_others_are_told_of(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path, options: ReadOptions) -> None:
        raise error

    monkeypatch.setattr(read, "read", fails)
    found = launch._reduced(Path("job.ranks/rank-2.pinprof"), ReadOptions())
    assert (found.number, found.run) == (2, None)
    assert said in found.problem


def test_ranks_that_are_read_in_one_process_share_symbol_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    def asks(path: Path, options: ReadOptions) -> None:
        kept.append(options.kept)
        raise CaptureError("It is cut.", "Copy it again.", "cut")

    monkeypatch.setattr(read, "read", asks)
    for number in range(2):
        launch._reduced(Path(f"job.ranks/rank-{number}.pinprof"), ReadOptions())
    assert kept[0] is not None
    assert kept[0] is kept[1]
