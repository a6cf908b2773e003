"""What of a run is missing: which gaps there are, from when on they matter, and what every answer says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinprof import read
from pinprof.analyze import analyze
from pinprof.analyze.completeness import Gap, gaps_of
from pinprof.base.errors import CaptureError
from pinprof.check.budgets import budgets_of
from pinprof.check.judge import judge
from pinprof.check.taken import take
from pinprof.check.verdicts import BudgetOutcome
from pinprof.cli import main
from pinprof.compare.engine import compare
from pinprof.compare.runs import run_of
from pinprof.data.activity import MemoryKind
from pinprof.data.model import Capture, Losses
from pinprof.fleet.aggregate import rows_of
from tests.support.activities import MIB, MS, Call, Op, kernel, to_host, traced
from tests.support.perf_file import MAPPED, Spec, file_mode, mmap2, sample
from tests.support.stacks import NO_LOSSES, Sample, capture


def recorded(losses: Losses = NO_LOSSES, *, collector: dict[str, Any] | None = None, **outcome: Any) -> Capture:
    """A second of work."""
    made = capture([Sample(["main@/app", "clear_page_erms"], MS, at * MS) for at in range(1, 1001)], losses=losses)
    collectors = ({"name": "native", "version": "0", **(collector or {})},)
    return replace(made, manifest=replace(made.manifest, collectors=collectors, outcome=outcome))


def kinds(made: Capture) -> list[str]:
    return [gap.kind for gap in gaps_of(made)]


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (recorded(), []),
        (recorded(state="complete"), []),
        (recorded(state="interrupted"), ["unfinished"]),
        (recorded(state="failed"), ["unfinished"]),
        (recorded(Losses(lost_samples=52)), []),
        (recorded(Losses(lost_samples=53)), ["lost"]),
        (recorded(Losses(truncated_chains=100)), []),
        (recorded(Losses(truncated_chains=101)), ["stacks"]),
        (replace(recorded(Losses(truncated_chains=101)), kernel_chains=False), []),
        (recorded(Losses(damage=("It ends early.",), corrupt_bytes=9)), ["damaged"]),
        (recorded(Losses(corrupt_bytes=9)), []),
        (recorded(Losses(jumps=("The clock goes back by 1 s.",))), ["clock"]),
        (recorded(incomplete={"children": "One is missing.", "outlived": "One went on."}), ["children", "outlived"]),
        (recorded(incomplete={"children": 7}), []),
        (recorded(collector={"stacks": {"samples": 1353, "complete": 1, "continued": 0}}), ["stacks"]),
        (recorded(collector={"stacks": {"samples": 1353, "complete": 270, "continued": 954}}), []),
        (recorded(collector={"stacks": {"samples": 900, "copied": 500, "cut": 50}}), []),
        (recorded(collector={"stacks": {"samples": 900, "copied": 500, "cut": 51}}), ["stacks"]),
        (recorded(collector={"thinned": {"one_in": 1}}), []),
        (recorded(collector={"thinned": {"one_in": 8, "joined_ns": 4_000_000}}), ["thinned"]),
    ],
)
def test_a_gap_is_what_can_change_the_answer(made: Capture, found: list[str]) -> None:
    assert kinds(made) == found


def test_lost_calls_are_a_gap_from_a_twentieth_on() -> None:
    made = traced([Call("cudaMalloc", at * MS, at * MS + 9) for at in range(95)])
    assert made.activity is not None
    assert kinds(replace(made, activity=replace(made.activity, lost_calls=5))) == []
    assert kinds(replace(made, activity=replace(made.activity, lost_calls=6))) == ["lost-calls"]


def work(*ops: Op) -> list[str]:
    return kinds(traced([Call("cudaMemcpy", 0, MS)], [kernel(0, 5 * MS, correlation_id=1), *ops]))


def test_work_that_overlaps_later_work_of_its_stream_has_impossible_durations() -> None:
    calls = {"correlation_id": 2}
    copy = to_host(10 * MS, 900 * MS, 9 * MIB, MemoryKind.PAGEABLE, **calls)
    after = kernel(20 * MS, 30 * MS, correlation_id=3)
    assert work(copy) == []
    assert work(copy, after) == ["durations"]
    assert work(copy, to_host(500 * MS, 1500 * MS, 9 * MIB, correlation_id=3)) == ["durations"]
    # Another stream, another GPU, the same graph, a clock that is a little off, and kernels that begin early.
    assert work(copy, replace(after, stream=8)) == []
    assert work(copy, replace(after, device=1)) == []
    assert work(copy, replace(after, correlation_id=2)) == []
    assert work(copy, kernel(900 * MS - 900_000, 950 * MS, correlation_id=3)) == []
    early = kernel(10 * MS, 90 * MS, correlation_id=2)
    assert work(early, kernel(60 * MS, 120 * MS, correlation_id=3)) == []
    assert work(early, kernel(60 * MS, 80 * MS, correlation_id=3)) == ["durations"]


def test_damaged_durations_fill_no_link_and_judge_no_copies() -> None:
    calls = [Call("cudaMemcpyAsync", at * 300 * MS, at * 300 * MS + 9000, at + 1) for at in range(3)]
    copies = [to_host(at * 300 * MS, at * 300 * MS + 1200 * MS, 9 * MIB, correlation_id=at + 1) for at in range(3)]
    kernels = [kernel(at * 5 * MS, at * 5 * MS + 900_000, correlation_id=at + 10) for at in range(300)]
    found = analyze(traced(calls, [*copies, *kernels]))
    assert found.answer == "CUDA calls for memory take <0.1 % of the run; the GPU's times are damaged."
    assert [gap.damaged for gap in found.gaps] == [True]
    judged = {one.rule: one.status for one in found.findings}
    assert {judged[rule] for rule in ("transfer-dominates", "sync-serialisation", "tiny-copies")} == {"not-assessable"}
    whole = analyze(traced(calls, [replace(copy, end_ns=copy.start_ns + 280 * MS, stream=9) for copy in copies]))
    assert whole.answer.startswith("Copies to the host fill 9")


def test_copies_of_unknown_memory_clear_nothing() -> None:
    calls = [Call("hipMemcpyAsync", at * 10 * MS, at * 10 * MS + 9000, at + 1) for at in range(50)]

    def status(memory: MemoryKind) -> dict[str, str]:
        ops = [to_host(at * 10 * MS, at * 10 * MS + MS, MIB, memory, correlation_id=at + 1) for at in range(50)]
        found = {one.rule: one for one in analyze(traced(calls, ops)).findings}
        assert "pinned" not in found["async-from-pageable"].title or memory == MemoryKind.PINNED
        return {rule: found[rule].status for rule in ("async-from-pageable", "staging-copies")}

    assert set(status(MemoryKind.UNKNOWN).values()) == {"not-assessable"}
    assert set(status(MemoryKind.PINNED).values()) == {"clear"}


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A perf.data of two hundred samples whose copy stopped half-way."""
    spec = Spec()
    records = mmap2(spec, *MAPPED) + b"".join(sample(spec, time=at * MS, period=MS) for at in range(1, 201))
    whole = file_mode([spec], records)
    path = tmp_path / "perf.data"
    path.write_bytes(whole[: len(whole) // 2])
    return path


def test_a_recording_that_is_cut_says_so_first_and_fails(
    cut: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for form in ("text", "markdown", "json", "folded"):
        with pytest.raises(SystemExit) as ended:
            main(["report", str(cut), "--format", form])
        assert ended.value.code == 5
        said, warned = capsys.readouterr()
        assert "damaged: the file ends early" in warned
        if form == "json":
            assert [(one["kind"], one["damaged"]) for one in json.loads(said)["incomplete"]] == [("damaged", True)]
        elif form != "folded":
            assert said.lstrip("> ").startswith("The recording is damaged: the file ends early: ")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(cut), "-o", str(tmp_path / "page.html")])
    assert ended.value.code == 5
    assert capsys.readouterr().out.startswith("The recording is damaged")
    assert '<p class="gap damaged">The recording is damaged' in (tmp_path / "page.html").read_text("utf-8")


def test_answers_over_several_runs_do_not_use_a_damaged_one(cut: Path) -> None:
    damaged = analyze(read.read(cut))
    (budget,) = budgets_of({"findings": 0})
    verdict = judge([take(damaged, [budget])], [budget]).verdicts[0]
    assert (verdict.outcome, "damaged" in verdict.why) == (BudgetOutcome.UNASSESSABLE, True)
    other = run_of(analyze(replace(recorded(), path="other")))
    with pytest.raises(CaptureError, match=r"can't be compared\. The recording is damaged"):
        compare([run_of(damaged)], [other], ("a", "b"))
    (row,) = rows_of(damaged, "x", 9)["captures"]
    assert (row["outcome"], str(row["answer"]).startswith("The recording is damaged")) == ("damaged", True)


def test_answers_over_several_runs_say_what_is_missing_first() -> None:
    runs = [
        run_of(analyze(replace(recorded(incomplete={"outlived": "One went on."}), path=f"run-{name}"))) for name in "ab"
    ]
    runs = [replace(run, identity=run.path) for run in runs]
    found = compare(runs[:1], runs[1:], ("a", "b"))
    assert found.incomplete == ("run-a: One went on.", "run-b: One went on.")
    (budget,) = budgets_of({"findings": 0})
    assert judge([take(analyze(recorded(incomplete={"children": "Two are missing."})), [budget])], [budget]).notes == (
        "Two are missing.",
    )


def test_gaps_of_damage_come_first() -> None:
    both = recorded(Losses(lost_samples=900, damage=("It ends early.",)))
    assert gaps_of(both)[0] == Gap("damaged", "The recording is damaged: it ends early.", damaged=True, hides=True)
    assert kinds(both) == ["damaged", "lost"]
