"""A user's script: the whole documented API with the types that it promises; `mypy --strict` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import pinprof


def record_a_block() -> str:
    with pinprof.record(
        "load batch",
        output="batch",
        frequency=1999,
        fault_period=64,
        off_cpu=True,
        gpu="uvm",
        force=True,
        calibrate=False,
    ) as recording:
        assert_type(recording, pinprof.Recording)
        with pinprof.phase("read"):
            bytearray(8 << 20)
    assert_type(recording.path, Path | None)
    assert_type(recording.result, pinprof.Result)
    assert_type(recording.result.page(), str)
    assert_type(recording.result.save_page("batch.html"), Path)
    return recording.result.headline


def record_steps() -> dict[str, float]:
    with pinprof.steps(wait=1, warmup=1, active=2, repeat=1, enabled=True, frequency=1999) as steps:
        assert_type(steps, pinprof.RecordedSteps)
        steps.step()
    assert_type(steps.paths, list[Path])
    assert_type(pinprof.steps(active=1)(len)("a"), int)
    return steps.metrics


@pinprof.record("step")
def step(amount: int) -> str:
    return "x" * amount


@pinprof.record("load")
async def load(name: str) -> bytes:
    return name.encode()


class Trainer:
    @pinprof.record("epoch")
    def epoch(self, number: int) -> float:
        return number / 2


async def run_all() -> None:
    assert_type(step(3), str)
    assert_type(step.recording.result, pinprof.Result)
    assert_type(await load("a"), bytes)
    assert_type(load.recording, pinprof.Recording)
    assert_type(Trainer().epoch(1), float)


def read_tables(path: Path) -> None:
    try:
        run = pinprof.open(
            path, kallsyms="kallsyms", symfs="/srv/root", ranges="ranges.jsonl", torch=["snapshot.pickle"]
        )
    except pinprof.PinprofError as error:
        assert_type(error.problem, str)
        assert_type(error.remedy, str)
        assert_type(error.slug, str)
        return
    assert_type(run, pinprof.Result)
    print(" ".join(run.incomplete))
    for table in (run.opportunities, run.causes, run.lines, run.ranges, run.range_causes, run.samples):
        print(table)
    for table in (run.calls, run.gpu_ops, run.ledger, run.blame, run.findings):
        print(table)
    print(run.analysis.headline, pinprof.__version__)


def read_fleet() -> None:
    fleet = pinprof.open_fleet("pinprof-fleet")
    assert_type(fleet, pinprof.Fleet)
    for table in (fleet.captures, fleet.facts, fleet.costs, fleet.calls, fleet.opportunities, fleet.sql("SELECT 1")):
        print(table)
    print(fleet.answer, fleet.connection)


step("three")  # type: ignore[arg-type]
print(step.recordings)  # type: ignore[attr-defined]
print(pinprof.opened)  # type: ignore[attr-defined]
pinprof.record(frequency="fast")  # type: ignore[arg-type]
