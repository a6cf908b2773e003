"""PyTorch's memory in the report, next to what the ledger and the copies say."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pinprof
from pinprof.analyze import Run, analyze
from pinprof.analyze.allocations.results import HOST_KINDS
from pinprof.cli.report import command
from pinprof.data.torch_memory import TorchHostStats, TorchLine, TorchMemory, TorchPool
from pinprof.read import read
from pinprof.report.gather import ReportData, build
from pinprof.report.page import html
from tests.support.sample_report import text_of
from tests.support.schemas import problems
from tests.support.stacks import Sample, capture
from tests.support.torch_snapshot import HOST_STATS, MIB, snapshot

GIB = 1 << 30
CASE = Path(__file__).parents[2] / "data/cases/train_pinned.pinprof.tar.xz"


@cache
def analyzed() -> Run:
    return analyze(read(CASE))


def report(*pools: TorchPool, host: TorchHostStats | None = None) -> ReportData:
    """Of that capture, with what a file of PyTorch says."""
    run = analyzed()
    return build(run.about(replace(run.capture, torch=TorchMemory(pools, host))))


def pool(reserved: int, peak: int, *lines: TorchLine, name: str = "cuda:0") -> TorchPool:
    return TorchPool(name, 1, reserved, peak, peak, peak, lines, 0)


def counts(most_held: int) -> TorchHostStats:
    return TorchHostStats(GIB, most_held, 0, GIB, 3, 1_500_000_000, 0, 0)


def locked() -> int:
    ledger = analyzed().ledger
    assert ledger
    return sum(total.peak_granted_bytes for total in ledger.totals if total.kind in HOST_KINDS)


def words(made: ReportData) -> str:
    return " ".join(text_of(made, 300).split())


def test_a_line_of_the_pool_has_what_the_ledger_has_for_it() -> None:
    run = analyzed()
    assert run.ledger
    site = max((site for site in run.ledger.sites if site.kind in HOST_KINDS), key=lambda one: one.peak_granted_bytes)
    assert site.line
    of_line = sum(
        one.peak_granted_bytes for one in run.ledger.sites if one.kind in HOST_KINDS and one.line == site.line
    )
    made = report(pool(4 * GIB, GIB, TorchLine(site.line, 2, GIB, GIB), TorchLine("other (a.py:1)", 1, 5, None)))
    first, second = made.to_json()["torch"]["pools"][0]["lines"]
    assert (first["line"], first["ledger_bytes"]) == (site.line, of_line)
    assert second["ledger_bytes"] == 0
    assert problems("report", json.loads(json.dumps(made.to_json()))) == []
    page = html.render(made)
    assert "PyTorch's memory" in page or "PyTorch&#39;s memory" in page
    assert "other (a.py:1)" in page
    assert "PyTorch's pool on cuda:0 holds 4 GiB at the snapshot; tensors use 1 GiB of it, at most 1 GiB" in words(made)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (1.0, "of page-locked memory, as much as that pool held."),
        (0.5, "more than that pool held."),
        (2.0, "the recording lacks"),
    ],
)
def test_the_pinned_pool_is_compared_with_the_ledger(held: float, text: str) -> None:
    said = words(report(host=counts(round(locked() * held))))
    assert "of which at most 1 GiB was in use; pinning took 1.5 s in 3 calls of CUDA." in said
    assert text in said


def test_room_is_that_of_the_pool_then_of_the_gpu() -> None:
    step = report(pool(1, 1)).to_json()["torch"]["step_bytes"]
    assert step > MIB
    gpu = analyzed().capture.manifest.host["gpus"][0]["memory_bytes"]
    assert "would have room in PyTorch's pool" in words(report(pool(2 * step, step)))
    assert "would have room for" in words(report(pool(step, step)))
    assert "has room for only 10 B at" in words(report(pool(gpu - 10, gpu - 10)))
    # Of a GPU that the recording does not know, only the pool is known.
    assert "room" not in words(report(pool(step, step, name="cuda:9")))


def test_a_step_copies_what_the_copies_in_it_say() -> None:
    run = analyzed()
    assert run.copies is not None
    assert run.course is not None
    assert run.course.steps is not None
    total = 0
    begin, end = run.course.steps.starts_ns[1], run.course.steps.ends_ns[1]
    for start, size, direction in zip(
        run.copies.start_ns.tolist(), run.copies.size_bytes.tolist(), run.copies.direction.tolist(), strict=True
    ):
        total += size if begin <= start < end and direction == 1 else 0
    assert report().to_json()["torch"]["step_bytes"] == total


def test_without_a_ledger_and_steps_the_files_alone_speak() -> None:
    made = build(analyze(replace(capture([Sample(("main@/app",))]), torch=TorchMemory((pool(8, 4),), counts(GIB)))))
    assert made.to_json()["torch"]["step_bytes"] is None
    assert "pinning took" in words(made)
    assert "ledger" not in words(made)
    assert build(analyze(capture([Sample(("main@/app",))]))).to_json()["torch"] is None


def test_the_command_takes_both_files(tmp_path: Path) -> None:
    pickled, stats = tmp_path / "snapshot.pickle", tmp_path / "stats.json"
    pickled.write_bytes(pickle.dumps(snapshot()))
    stats.write_text(json.dumps(HOST_STATS))

    def asked(*options: Any) -> Any:
        return CliRunner().invoke(command, [str(CASE), "--format", "json", *map(str, options)])

    found = json.loads(asked("--torch", pickled, "--torch", stats).stdout)["torch"]
    assert [one["name"] for one in found["pools"]] == ["cuda:0", "pinned"]
    assert found["host"]["most_held_bytes"] == 512 * MIB
    assert asked("--torch", tmp_path / "none").exception.slug == "side-file"
    assert "load (train.py:30)" in pinprof.open(CASE, torch=[pickled, stats]).page()
    stats.write_text("{}")
    assert asked("--torch", stats).exception.slug == "torch-file"
    assert CliRunner().invoke(command, [str(CASE), str(CASE), "--torch", str(pickled)]).exception.slug == "several"  # type: ignore[union-attr]
