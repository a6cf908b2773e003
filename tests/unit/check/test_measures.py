"""What real captures show of each measure, and what they do not tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyze import analyze
from pinprof.check.measures import MEASURES
from pinprof.check.taken import take
from pinprof.check.view import Amount, RunView, Unassessable
from pinprof.data.activity import MemoryKind, MemoryOperation
from pinprof.data.model import Losses
from tests.support.activities import MIB, Call, Memory, traced
from tests.support.checked_runs import ASYNC, DATA, LOOP, PAGEABLE, PINNED, analysed, budget
from tests.support.facts import with_capture


def taken(path: Path, **table: Any) -> Amount:
    one = budget(**table)
    return MEASURES[one.measure](RunView(analysed(path)), one)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "table", "value"),
    [
        (LOOP, {"calls": 0}, 339),
        (LOOP, {"calls": 0, "kind": "alloc pinned"}, 48),
        (LOOP, {"calls": 0, "kind": "alloc pinned", "size": "32 MiB"}, 48),
        (LOOP, {"calls": 0, "kind": "alloc pinned", "size": "16 MiB"}, 0),
        (LOOP, {"calls": 0, "kind": "alloc pinned", "range": "alloc"}, 40),
        (LOOP, {"pairs": 0}, 48),
        (LOOP, {"pairs": 0, "kind": "pinned", "range": "iteration > alloc"}, 40),
        (LOOP, {"pairs": 0, "kind": "device"}, 0),
        (LOOP, {"pairs": 0, "range": "h2d"}, 0),
        (LOOP, {"pinned-bytes": 0}, 32 << 20),
        (LOOP, {"pinned-bytes": 0, "range": "h2d"}, 32 << 20),
        (LOOP, {"page-faults": 0}, 407_888),
        (LOOP, {"findings": 0}, 4),
        (LOOP, {"findings": 0, "kind": "alloc-loop"}, 1),
        (LOOP, {"findings": 0, "kind": "critical"}, 0),
        (LOOP, {"time": "1 s", "range": "alloc"}, 328_310_591),
        (PAGEABLE, {"pageable-bytes": 0}, 25 << 27),
        (PAGEABLE, {"pageable-bytes": 0, "size": "4 MiB"}, 0),
        (PAGEABLE, {"pageable-async-calls": 0}, 0),
        (PAGEABLE, {"pairs": 0}, 0),
        (ASYNC, {"pageable-async-calls": 0}, 63),
        (PINNED, {"pairs": 0}, 0),
        (PINNED, {"calls": 0, "call": "cudaMemPoolCreate"}, 0),
    ],
)
def test_counts_are_those_of_the_run(path: Path, table: dict[str, Any], value: float) -> None:
    found = taken(path, **table)
    assert found.value == value
    assert found.missing == ""


@pytest.mark.slow
def test_amounts_name_the_lines_that_they_come_from() -> None:
    found = taken(PAGEABLE, pageable_bytes=0)
    assert found.sites[0].place == "fresh_h2d.cu:19"
    assert found.sites[0].path.endswith("/fresh_h2d.cu")
    assert found.sites[0].amount == found.value
    assert "pinned" in found.remedy
    (site,) = taken(ASYNC, opportunities=0).sites
    assert site.place == "not_async.py:9"


def test_page_faults_of_a_part_are_an_estimate_with_an_error() -> None:
    found = taken(PAGEABLE, page_faults=0, phase="work")
    assert found.value % 64 == 0
    assert 0 < found.error < 0.01 * found.value
    assert "samples" in found.note


@pytest.mark.parametrize("table", [{"cause": {"pin": "1 %"}}, {"cause": {"pin": "1 %"}, "range": "iteration"}])
def test_shares_know_how_far_their_samples_carry_them(table: dict[str, Any]) -> None:
    found = taken(LOOP, **table)
    assert 0.4 < found.value < 0.5
    assert 0 < found.error < 0.03
    assert found.samples > 97


def test_times_of_causes_and_of_calls() -> None:
    pinning = taken(LOOP, time="1 s", cause="pin")
    assert pinning.error > 0
    calls = taken(LOOP, time="1 s", call="cuMemHostAlloc")
    assert pinning.value < calls.value < taken(LOOP, time="1 s", phase="work").value


def test_processor_time_is_the_kernels_of_a_run_and_of_samples_within_it() -> None:
    whole, work = taken(LOOP, cpu_time="1 s"), taken(LOOP, cpu_time="1 s", phase="work")
    assert (whole.value, whole.error) == (2_573_190_000 + 970_460_000, 0)
    assert 0 < work.error < 0.01 * work.value
    pinning = taken(LOOP, cpu_time="1 s", phase="work", cause="pin")
    assert work.error < pinning.error < pinning.value < work.value


@pytest.mark.parametrize(
    ("path", "table", "why", "remedy"),
    [
        (LOOP, {"pairs": 0, "range": "aloc"}, "no range 'aloc'", "'alloc'"),
        (LOOP, {"time": "1 s", "phase": "alloc"}, "no phase 'alloc'", "range = 'alloc'"),
        (LOOP, {"calls": 0, "call": "cudaHostAlloca"}, "can't show", "'cudaHostAlloc'"),
        (LOOP, {"calls": 5, "call": "cudaMemPoolCreate"}, "makes no call", "limit of 0"),
        (LOOP, {"calls": 0, "kind": "launch"}, "can't show", "copies"),
        (LOOP, {"calls": 0, "kind": "pinned"}, "no CUDA calls of kind", "alloc pinned"),
        (LOOP, {"pairs": 0, "kind": "pin"}, "No pairs", "'pinned'"),
        (LOOP, {"findings": 0, "kind": "aloc-loop"}, "no rule", "'alloc-loop'"),
        (LOOP, {"opportunities": 0, "kind": "pool"}, "no cure", "pool"),
        (LOOP, {"cause": {"fault.minor": "1 %"}}, "no cause 'fault.minor'", "'fault."),
        (LOOP, {"time": "1 s", "call": "cudaMemPoolCreate"}, "makes no call", "Name a call"),
        (PAGEABLE, {"time": "1 s", "range": "load"}, "no range", "no ranges"),
    ],
)
def test_what_is_not_there_is_not_assessable(path: Path, table: dict[str, Any], why: str, remedy: str) -> None:
    with pytest.raises(Unassessable) as caught:
        taken(path, **table)
    assert why in caught.value.why
    assert remedy in caught.value.remedy


def test_a_program_without_cuda_passes_no_budget_of_calls() -> None:
    analysis = analysed(LOOP)
    assert analysis.capture.activity is not None
    activity = replace(analysis.capture.activity, calls=analysis.capture.activity.calls.take(slice(0)))
    for changed in (activity, None):
        view = RunView(with_capture(analysis, activity=changed))
        for name in ("calls", "pinned-bytes", "pairs", "pageable-bytes", "pageable-async-calls"):
            with pytest.raises(Unassessable, match="CUDA call"):
                MEASURES[name](view, budget(**{name: 0}))


@pytest.mark.parametrize("lost", [3, 10**6])
def test_lost_samples_hide_no_call(lost: int) -> None:
    lossy = with_capture(analysed(LOOP), losses=Losses(lost_samples=lost))
    assert MEASURES["pairs"](RunView(lossy), budget(pairs=0)).missing == ""


def test_a_recording_that_was_interrupted_tells_nothing() -> None:
    analysis = analysed(LOOP)
    manifest = replace(analysis.capture.manifest, outcome={"state": "interrupted"})
    one = budget(pairs=0)
    cut = take(with_capture(analysis, manifest=manifest), [one])
    assert "interrupted" in str(cut.amounts[one])


def test_a_recording_without_the_kernel_does_not_tell_the_kernels_causes() -> None:
    analysis = analysed(LOOP)
    manifest = replace(analysis.capture.manifest, collectors=({"options": {"kernel": False}},))
    blind = RunView(with_capture(analysis, manifest=manifest))
    assert "kernel" in MEASURES["share"](blind, budget(cause={"fault": "1 %"})).missing
    assert MEASURES["share"](blind, budget(cause={"user": "1 %"})).missing == ""


def test_a_part_of_a_longer_recording_may_hold_no_call() -> None:
    analysis = analysed(PAGEABLE)
    activity = analysis.capture.activity
    assert activity is not None
    none = activity.each(lambda table: table.take(slice(0)))
    view = RunView(with_capture(analysis, activity=replace(none, part=True)))
    for table in ({"calls": 0}, {"pairs": 0}, {"pinned-bytes": 0}, {"pageable-bytes": 0}, {"pageable-async-calls": 0}):
        one = budget(**table)
        found = MEASURES[one.measure](view, one)
        assert (found.value, found.missing) == (0, "")


@pytest.mark.parametrize("measure", ["calls", "pairs", "pinned-bytes", "pageable-bytes", "pageable-async-calls"])
def test_lost_records_of_calls_may_have_been_more(measure: str) -> None:
    analysis = analysed(PAGEABLE)
    assert analysis.capture.activity is not None
    lossy = with_capture(analysis, activity=replace(analysis.capture.activity, lost_calls=3))
    one = budget(**{measure: 0})
    assert "Records of calls were lost" in MEASURES[measure](RunView(lossy), one).missing


def seen(memory: list[Memory], **table: Any) -> Amount:
    one = budget(**table)
    return MEASURES[one.measure](RunView(analyze(traced([Call("cuInit", 0, 1)], (), (), memory))), one)


def test_pinned_memory_is_what_lived_at_once() -> None:
    first = Memory(10, MIB, address=4096)
    assert seen([first, Memory(20, MIB, address=4096)], pinned_bytes=0).value == MIB
    assert (
        seen([replace(first, operation=MemoryOperation.FREE), Memory(20, MIB, address=64)], pinned_bytes=0).value == MIB
    )


def test_what_frees_other_memory_makes_no_pair() -> None:
    made = Memory(10, MIB, address=4096)
    gone = Memory(20, MIB, MemoryOperation.FREE, address=4096)
    assert seen([made, gone], pairs=0).value == 1
    assert seen([made, replace(gone, memory_kind=MemoryKind.DEVICE)], pairs=0).value == 0


@pytest.mark.slow
def test_lines_that_hold_pinned_memory_hold_all_of_it() -> None:
    found = taken(DATA / "cases" / "alloc_pairs-cured.pinprof.tar.xz", pinned_bytes=0)
    assert [(site.place, site.amount) for site in found.sites] == [("alloc_pairs.cu:21", found.value)]
