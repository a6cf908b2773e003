"""Candidates against each other: what is found, what is refused, and what the headline says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinprof.analyze.course.results import PHASE_NAMES, Interval, Phase
from pinprof.analyze.evidence import LEAST_NS
from pinprof.analyze.opportunities import search as module
from pinprof.analyze.opportunities.candidate import Candidate, total
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.results import Opportunities, Saving
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.opportunities.search import RUNS, search
from pinprof.analyze.sites import Site
from pinprof.base.units import format_ns
from pinprof.data.model import Capture
from pinprof.data.rate_book import Estimate
from tests.support.scenes import FREE, MAIN, MS, SMALL, Traced, preempted, ran, recorded, scene, waited
from tests.support.stacks import capture


def candidate(first: int, last: int, saved: int, cost: int = 0, place: str = "a.py", **other: Any) -> Candidate:
    """One that claims the milliseconds [first, last) of the wall, and saves some of what they cost."""
    ns = (cost or last - first) * MS
    remains = ns - saved * MS
    given = {
        "title": f"{place}:1 wastes time.",
        "site": Site("f", place, 1, ""),
        "phase": "work",
        "rows": np.arange(first, last),
        "cost_ns": ns,
        "remains": Estimate(remains, max(remains - 5 * MS, 0), remains + 5 * MS, "this run"),
        "cure": cure("reuse-memory", ""),
        **other,
    }
    return Candidate(**given)


def searched(
    monkeypatch: pytest.MonkeyPatch, *given: Candidate, made: Capture | None = None, run: Scene | None = None
) -> Opportunities:
    def detector(_: Scene) -> Iterator[Candidate]:
        return iter(given)

    monkeypatch.setattr(module, "DETECTORS", (module.Detector(detector, "nothing"),))
    return search(run or scene(made or recorded(ran(0, 2000, SMALL))))


def test_largest_saving_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(
        monkeypatch, candidate(0, 100, 50), candidate(100, 400, 200, place="b.py"), candidate(400, 500, 90)
    ).found
    assert [(one.rank, one.saving.likely_ns // MS) for one in found] == [(1, 200), (2, 90), (3, 50)]


def test_same_time_is_saved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = searched(monkeypatch, candidate(0, 100, 90), candidate(0, 100, 80), candidate(40, 120, 70))
    assert [one.saving.likely_ns // MS for one in answer.found] == [90]
    assert answer.refused == ()


def test_what_overlaps_a_little_counts_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, candidate(0, 100, 90), candidate(80, 180, 50)).found
    assert [one.saving.likely_ns for one in found] == [90 * MS, 40 * MS]


def test_a_saving_is_what_other_runs_will_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are factors, and independent: the errors of the prediction and the differences of runs, 3 and 4 make 5."""
    error = RUNS ** (3 / 4)
    remains = Estimate(40 * MS, 100 * MS - 60 * MS * error, 100 * MS - 60 * MS / error, "")
    (one,) = searched(monkeypatch, candidate(0, 100, 60, remains=remains)).found
    low, likely, high = one.saving.low_ns, one.saving.likely_ns, one.saving.high_ns
    assert likely == 60 * MS
    assert (likely / low, high / likely) == pytest.approx((error ** (5 / 3), error ** (5 / 3)), rel=1e-6)


def test_runs_differ_also_where_the_prediction_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = searched(monkeypatch, candidate(0, 100, 100, remains=Estimate(0, 0, 0, ""))).found
    assert (one.saving.low_ns, one.saving.high_ns) == (round(100 * MS / RUNS), round(100 * MS * RUNS))


def test_a_prediction_that_may_save_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = searched(monkeypatch, candidate(0, 100, 60, remains=Estimate(40 * MS, 40 * MS, 100 * MS, ""))).found
    assert (one.saving.low_ns, one.saving.likely_ns) == (0, 60 * MS)


def test_ranks_follow_what_is_left_of_savings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, candidate(0, 200, 190), candidate(120, 320, 180), candidate(400, 600, 150)).found
    likely = [one.saving.likely_ns for one in found]
    assert likely == sorted(likely, reverse=True)


@pytest.mark.parametrize(("length", "least"), [(500, 10), (2000, 20)])
def test_less_than_a_hundredth_of_the_phase_and_ten_milliseconds_is_nothing(
    monkeypatch: pytest.MonkeyPatch, length: int, least: int
) -> None:
    made = recorded(ran(0, length, SMALL))
    assert LEAST_NS == 10 * MS
    assert searched(monkeypatch, candidate(0, 22, least - 1), made=made).found == ()
    assert len(searched(monkeypatch, candidate(0, 22, least), made=made).found) == 1


@pytest.mark.parametrize("waits", [0, 200, 4000])
def test_busy_machine_changes_neither_what_is_found_nor_what_it_saves(waits: int) -> None:
    """Of 200 ms of work 60 are pages made repeatedly; beside it other programs have the processors."""
    length = 200 + waits
    turns = [(start, start + 10, start + 12) for start in range(0, 60, 12)]
    pages = [sample for at, end, freed in turns for sample in (*ran(at, end, SMALL), *ran(end, freed, FREE))]
    parts = [*pages, *(waited(60, 60 + waits, MAIN) if waits else ())]
    made = preempted(recorded([*parts, *ran(60 + waits, length)]))
    answer = search(scene(made))
    (one,) = answer.found
    assert (one.cure.id, one.cost_ns, one.saving.likely_ns) == ("reuse-memory", 60 * MS, 54 * MS)
    said = [text for text in one.basis if text.startswith("The CPUs ran other programs")]
    assert bool(said) == (waits > 0)
    assert all(f"for {format_ns(waits * MS)} of {format_ns(length * MS)} of work" in text for text in said)


def test_time_of_other_programs_is_not_that_of_a_thread_that_waits() -> None:
    """A thread that sleeps for 4 s, as long as its machine is busy: 60 ms of pages are next to nothing there."""
    parts = [*ran(0, 50, SMALL), *ran(50, 60, FREE), *waited(60, 4060, MAIN), *ran(4060, 4200)]
    assert search(scene(recorded(parts))).found == ()


def test_parts_of_a_cost_are_never_more_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call's own time may be less than that of the samples in it, which also wait for the GPU."""
    less = replace(candidate(0, 200, 100), cost_ns=150 * MS)
    (one,) = searched(monkeypatch, less).found
    assert one.causes == {"fault.anon": 150 * MS}


def test_cure_that_does_not_pay_is_refused_with_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = searched(monkeypatch, candidate(0, 200, 0), candidate(200, 400, 12))
    assert answer.found == ()
    takes = "It takes 200 ms: first touch of malloc'd memory (fault.anon) 200 ms."
    assert [one.reason for one in answer.refused] == [
        f"{takes} With the cure (reuse-memory), it takes 188 ms: a saving of only 12 ms.",
        f"{takes} With the cure (reuse-memory), it takes 200 ms: no saving.",
    ]


@pytest.mark.slow
def test_a_saving_that_nobody_knows_is_to_be_measured_and_leads_only_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = candidate(0, 300, 60, unknown="It depends on the caches.")
    answer = searched(monkeypatch, unknown, candidate(400, 600, 0))
    assert (answer.found, len(answer.refused)) == ((), 1)
    (one,) = answer.to_measure
    assert one.reason == "It takes 300 ms. It depends on the caches. `pinprof try` measures what reuse-memory saves."
    assert answer.headline == (
        "a.py:1 wastes time: this takes 300 ms of 2 s of work, and `pinprof try` measures what a cure saves."
    )
    assert searched(monkeypatch, unknown, candidate(400, 600, 50)).headline.startswith("a.py:1 wastes time: reusing")


@pytest.mark.slow
def test_small_costs_are_neither_found_nor_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(monkeypatch, candidate(0, 99, 0)).refused == ()
    assert len(searched(monkeypatch, candidate(0, 100, 0)).refused) == 1


def test_what_nobody_can_change_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = searched(monkeypatch, candidate(0, 100, 90, site=Site("", "", 0, "")))
    assert (answer.found, answer.refused) == ((), ())


def test_headline_has_line_and_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    headline = searched(monkeypatch, candidate(0, 100, 50)).headline
    assert headline == (
        "a.py:1 wastes time: reusing the memory saves about 50 ms of 2 s of work (28 ms to 88 ms in other runs)."
    )


def test_nothing_to_gain_is_said_with_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorded(ran(0, 30, SMALL) + ran(30, 50, FREE) + ran(50, 1000))
    assert searched(monkeypatch, made=made).headline == (
        "Nothing to gain in host memory: faults, pins and copies take 50 ms of 1 s of work (5.0 %)."
    )


def test_a_large_cost_that_nobody_can_change_is_not_called_nothing_to_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorded(ran(0, 80, SMALL) + ran(80, 100, FREE) + ran(100, 1000))
    assert searched(monkeypatch, made=made).headline == (
        "pinprof knows no cure for the costs of host memory: faults, pins and copies take 100 ms of 1 s of work (10 %):"
        " first touch of malloc'd memory (fault.anon) 80 ms, unmapping pages, TLB flushes (free.unmap) 20 ms."
    )


def test_a_large_cost_whose_cures_save_little_is_neither_low_nor_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = recorded(ran(0, 80, SMALL) + ran(80, 100, FREE) + ran(100, 1000))
    assert searched(monkeypatch, candidate(0, 100, 0), made=made).headline == (
        "Faults, pins and copies take 100 ms of 1 s of work (10 %), and no known cure saves enough of it to be worth a"
        " change."
    )
    # What no detector explains stands for itself, however much another cost is refused.
    made = recorded(ran(0, 300, SMALL) + ran(300, 1000))
    assert searched(monkeypatch, candidate(0, 100, 0), made=made).headline.startswith("pinprof knows no cure")


def test_a_run_that_hardly_works_is_told_as_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = ("_dl_start@/lib64/ld-linux-x86-64.so.2",)
    starts = recorded(ran(0, 900, loader) + ran(900, 910, SMALL) + ran(910, 940))
    found = searched(monkeypatch, made=starts)
    assert found.headline == (
        "Start-up takes 900 ms of 940 ms; faults, pins and copies take 10 ms of 40 ms of work (25 %)."
    )
    assert searched(monkeypatch, candidate(905, 935, 25), made=starts).headline.startswith("a.py")
    judged = recorded(ran(0, 900, loader) + ran(900, 1200))
    assert searched(monkeypatch, made=judged).headline.startswith("Nothing to gain in host memory")
    short = recorded(ran(0, 400, loader) + ran(400, 500, SMALL))
    assert "tart-up" not in searched(monkeypatch, made=short).headline


def test_a_cost_of_some_milliseconds_needs_no_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = ["main@/app", "do_syscall_64", "__x64_sys_clock_nanosleep", "schedule"]
    for cost, said in ((9, "Nothing to gain"), (11, "pinprof knows no cure")):
        made = recorded(ran(0, cost, SMALL) + ran(cost, 99) + waited(99, 100, asleep))
        assert searched(monkeypatch, made=made).headline.startswith(said), cost


def test_few_samples_are_enough_where_the_thread_waits_nearly_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(monkeypatch, made=recorded(ran(0, 60))).headline == ""
    asleep = ["main@/app", "do_syscall_64", "__x64_sys_clock_nanosleep", "schedule"]
    made = recorded(ran(0, 8) + waited(8, 1000, asleep))
    assert searched(monkeypatch, made=made).headline.startswith("Nothing to gain")
    made = recorded(ran(0, 60) + waited(60, 1000, asleep))
    assert searched(monkeypatch, made=made).headline == ""


def test_recording_that_shows_too_little_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(monkeypatch, made=recorded(ran(0, 5))).headline == ""
    made = replace(recorded(ran(0, 1000)), kernel_chains=False)
    assert searched(monkeypatch, made=made).headline == ""
    manifest = replace(made.manifest, collectors=({"options": {"kernel": False}},))
    assert searched(monkeypatch, made=replace(recorded(ran(0, 1000)), manifest=manifest)).headline == ""


def test_what_was_not_recorded_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    full = searched(monkeypatch, made=recorded(ran(0, 100), [Traced("cudaMalloc", 0, 1)])).unseen
    assert [sentence.partition(":")[0] for sentence in full] == [
        "The GPU's work was not recorded, so it is not known how long the GPU waits for the host."
    ]
    without_gpu = recorded(ran(0, 100), [Traced("cuInit", 0, 1)])
    assert without_gpu.activity is not None
    failed = replace(without_gpu.activity.calls, status=np.array([100], np.int32))
    made = replace(without_gpu, activity=replace(without_gpu.activity, calls=failed))
    assert searched(monkeypatch, made=made).unseen == ()
    alone = searched(monkeypatch, made=capture(ran(0, 100))).unseen
    assert [sentence.partition(",")[0] for sentence in alone] == ["Waits were not recorded"]
    driver = (*SMALL[:1], "cuMemcpyHtoD@/usr/lib/libcuda.so.580.1")
    cuda = searched(monkeypatch, made=recorded(ran(0, 100, driver))).unseen
    assert "CUDA calls were not recorded" in {sentence.partition(",")[0] for sentence in cuda}
    blind = searched(monkeypatch, made=replace(recorded(ran(0, 100)), kernel_chains=False)).unseen
    assert "The kernel was not recorded" in {sentence.partition(",")[0] for sentence in blind}


def test_evidence_can_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = searched(monkeypatch, candidate(0, 100, 50)).found
    assert one.evidence[-1].command == "explain fault.anon"
    assert one.causes == {"fault.anon": 100 * MS}
    assert one.samples


def test_a_cost_that_is_partly_calculated_is_no_more_than_its_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = searched(monkeypatch, candidate(0, 2000, 2150, cost=2200)).found
    assert (one.cost_ns, one.saving.likely_ns) == (2000 * MS, 1950 * MS)


def test_saving_is_never_negative_nor_more_than_the_cost() -> None:
    dear = candidate(0, 100, 50, remains=Estimate(200 * MS, 90 * MS, 300 * MS, ""))
    assert dear.saving == Saving(0, 0, 10 * MS)
    free = candidate(0, 100, 50, remains=Estimate(0, 0, 0, ""))
    assert free.saving == Saving(100 * MS, 100 * MS, 100 * MS)


def test_sum_of_estimates_needs_all_of_them() -> None:
    one, two = Estimate(10, 5, 20, "bench"), Estimate(1, 1, 2, "this run")
    assert total([one, two]) == Estimate(11, 6, 22, "bench; this run")
    assert total([one, None]) is None
    assert total([]) is None
    assert total([one, one]) == Estimate(20, 10, 40, "bench")


def test_a_saving_is_of_the_phase_in_which_most_of_the_cost_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the cost is spent while the program warms up, and what is spent once is spent then."""
    made = recorded(ran(0, 500, SMALL))
    once = Estimate(20 * MS, 20 * MS, 20 * MS, "this run")
    one = replace(candidate(0, 100, 60), remains=Estimate(40 * MS, 40 * MS, 40 * MS, "this run"), once=once)
    run = scene(made)
    names = [PHASE_NAMES.index(name) for name in ("warm-up", "work")]
    phases = (Phase("warm-up", (Interval(0, 20 * MS),)), Phase("work", (Interval(20 * MS, 500 * MS),)))
    wall = replace(run.course.wall, phase=np.where(run.course.wall.time_ns <= 20 * MS, *names).astype(np.int32))
    run = replace(run, course=replace(run.course, phases=phases, wall=wall))
    (found,) = searched(monkeypatch, one, run=run).found
    assert (found.phase, found.cost_ns // MS, found.saving.likely_ns // MS) == ("work", 80, 64)
    assert any("20 ms more are spent before or after work" in line for line in found.basis)


def test_a_range_begins_a_sentence_with_a_capital_letter_and_a_file_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = ["range alloc pins new memory each time.", "train.py:3 pins new memory each time."]
    parts = [replace(candidate(100 * n, 100 * n + 90, 80), title=title) for n, title in enumerate(titles)]
    found = searched(monkeypatch, *parts).found
    assert {one.title for one in found} == {"Range alloc pins new memory each time.", titles[1]}
