"""Each rule on both sides of its threshold, and what it says when it cannot judge."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinprof.analyze import Finding, analyze
from pinprof.analyze.evidence import MIN_SAMPLES, SHARE_ERROR
from pinprof.analyze.rules import pages, rules
from pinprof.analyze.rules.rule import Need, Rule, Verdict, View, fired
from pinprof.cli import main
from pinprof.data.memory_log import MemoryLog, ProcessMemory
from pinprof.data.model import Capture, Losses
from tests.support.documented import module
from tests.support.stacks import CLOCK, FAULTS, OFF_CPU, Range, Sample, capture

MS = 1_000_000
STACKS = {
    "pin.faultin": ["main@/app", "os_lock_user_pages[nvidia]", "pin_user_pages", "__get_user_pages", "handle_mm_fault"],
    "pin.walk": ["main@/app", "os_lock_user_pages[nvidia]", "pin_user_pages", "follow_page_pte"],
    "compacting": ["os_lock_user_pages[nvidia]", "pin_user_pages", "handle_mm_fault", "try_to_compact_pages"],
    "faulting": ["main@/app", "asm_exc_page_fault", "handle_mm_fault", "do_anonymous_page", "try_to_compact_pages"],
    "fault.anon": ["main@/app", "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_anonymous_page"],
    "fault.file": ["main@/app", "asm_exc_page_fault", "handle_mm_fault", "do_fault", "shmem_fault"],
    "fault.entry": ["main@/app", "asm_exc_page_fault", "exc_page_fault"],
    "copy.staging": ["[libcuda.so.1]@/lib/libcuda.so.1", "memcpy@/lib/libc.so.6"],
    "uvm.cpu_fault": ["main@/app", "asm_exc_page_fault", "uvm_vm_fault_entry[nvidia_uvm]"],
    "free.unmap": ["main@/app", "__x64_sys_munmap", "unmap_vmas"],
    "unpin": ["main@/app", "os_unlock_user_pages[nvidia]"],
    "user.app": ["main@/app"],
}


def mixed(
    weights: dict[str, int], ranges: list[Range] | None = None, losses: Losses | None = None, each: int = 1
) -> Capture:
    """Percentages of 100 ms, as samples at times 0, 1 ms, …, or `each` times as many shorter ones."""
    names = [name for name, percent in weights.items() for _ in range(percent * each)]
    names += ["user.app"] * (100 * each - len(names))
    length = MS // each
    samples = [Sample(STACKS[name], length, time_ns=number * length) for number, name in enumerate(names)]
    return capture(samples, ranges or [Range("work", 0, 100 * MS)], losses=losses or Losses())


def verdict(data: Capture, rule: str) -> Finding:
    (finding,) = [found for found in analyze(data).findings if found.rule == rule]
    return finding


@pytest.mark.parametrize(
    ("rule", "below", "at"),
    [
        ("first-touch-in-pin", {"pin.faultin": 49, "pin.walk": 40}, {"pin.faultin": 50, "pin.walk": 40}),
        ("compaction", {"pin.walk": 91, "compacting": 10}, {"pin.walk": 90, "compacting": 10}),
        ("first-touch", {"fault.anon": 20, "fault.entry": 9}, {"fault.anon": 20, "fault.entry": 10}),
        ("staging-copies", {"copy.staging": 9}, {"copy.staging": 10}),
        ("managed-cpu-faults", {"uvm.cpu_fault": 9}, {"uvm.cpu_fault": 10}),
        ("freeing", {"free.unmap": 5, "unpin": 4}, {"free.unmap": 5, "unpin": 5}),
    ],
)
def test_share_rules_fire_from_their_threshold_on(rule: str, below: dict[str, int], at: dict[str, int]) -> None:
    assert verdict(mixed(below), rule).status == "clear"
    finding = verdict(mixed(at), rule)
    assert finding.status == "fired"
    assert finding.advice
    assert finding.evidence


def test_only_reclaim_inside_the_pin_counts_as_compaction() -> None:
    data = mixed({"pin.walk": 45, "compacting": 4, "faulting": 40}, each=2)
    assert verdict(data, "compaction").status == "clear"


def test_a_share_of_few_samples_of_pinning_is_not_judged() -> None:
    assert verdict(mixed({"pin.walk": 40, "compacting": 12}), "compaction").status == "not-assessable"
    assert verdict(mixed({"pin.walk": 40, "compacting": 12}, each=3), "compaction").status == "fired"


def test_giving_pins_back_is_no_pinning_call() -> None:
    assert verdict(mixed({"unpin": 60}), "first-touch-in-pin").evidence == (
        "No range or recording with 10 % of pin.*.",
    )


def test_a_recording_without_any_weight_is_judged_like_any_other() -> None:
    empty = capture([Sample(STACKS["user.app"], 0, time_ns=number) for number in range(30)], [Range("work", 0, 40)])
    assert analyze(empty).findings == ()
    samples = [Sample(STACKS["user.app"], MS)] * 100 + [Sample(STACKS["pin.walk"], 0, time_ns=2)] * 100
    clock = capture(samples, [Range("work", 1, 4)])
    assert verdict(clock, "compaction").status == "clear"


def test_a_range_of_few_samples_is_not_judged() -> None:
    few = [Range("work", 0, 100 * MS), Range("tiny", 0, 24 * MS, depth=1), Range("enough", 30 * MS, 60 * MS, depth=1)]
    data = mixed({"pin.faultin": 24}, few, each=4)
    assert MIN_SAMPLES == 97
    assert verdict(data, "first-touch-in-pin").status == "clear"
    few[1] = Range("tiny", 0, 25 * MS, depth=1)
    assert verdict(mixed({"pin.faultin": 25}, few, each=4), "first-touch-in-pin").status == "fired"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_of_enough_samples_a_share_is_known_to_ten_points(share: float) -> None:
    """The exact binomial distribution, not the approximation that the number comes from."""
    rows = np.arange(MIN_SAMPLES + 1)
    chance = np.array([math.comb(MIN_SAMPLES, int(k)) * share**k * (1 - share) ** (MIN_SAMPLES - k) for k in rows])
    near = np.abs(rows / MIN_SAMPLES - share) <= SHARE_ERROR
    assert chance[near].sum() >= 0.94


def test_without_ranges_first_touch_is_a_share_of_pinning() -> None:
    data = mixed({"pin.faultin": 20, "pin.walk": 20}, each=5)
    bare = replace(data, ranges=capture([]).ranges)
    assert verdict(bare, "first-touch-in-pin").status == "fired"


def pairs(count: int, cost_ns: int, *, scenario: str = "", inside: int = 1) -> Capture:
    """`count` ranges named iteration with `inside` pairs each, every pair at `cost_ns`."""
    step = 10_000 * MS
    ranges = []
    for number in range(count * inside):
        start = number * step
        if number % inside == 0:
            ranges.append(Range("iteration", start, start + inside * step))
        ranges += [
            Range("alloc", start, start + cost_ns // 2, depth=1),
            Range("free", start + step - cost_ns // 2, start + step, depth=1),
        ]
    samples = [Sample(STACKS["user.app"], MS, time_ns=number * MS) for number in range(100)]
    return capture(samples, ranges, scenario={"name": scenario} if scenario else None)


def test_alloc_loops_need_three_pairs_and_a_noticeable_cost() -> None:
    assert verdict(pairs(2, 100 * MS), "alloc-loop").status == "clear"
    assert verdict(pairs(3, 99 * MS), "alloc-loop").status == "clear"
    assert verdict(pairs(3, 100 * MS), "alloc-loop").status == "fired"


def test_ranges_that_free_at_the_end_what_was_allocated_piece_by_piece_are_no_loop() -> None:
    names = ["alloc"] * 30 + ["free"] * 29
    ranges = [Range(name, at * 100 * MS, at * 100 * MS + 50 * MS) for at, name in enumerate(names)]
    samples = [Sample(STACKS["user.app"], MS, time_ns=number * MS) for number in range(100)]
    finding = verdict(capture(samples, ranges), "alloc-loop")
    assert (finding.status, finding.evidence[0].startswith("Pairs: 0")) == ("clear", True)


def test_measuring_a_scenario_again_is_no_alloc_loop() -> None:
    assert verdict(pairs(10, 100 * MS), "alloc-loop").status == "fired"
    for name in ("register", "prefault", "pinned"):
        finding = verdict(pairs(10, 100 * MS, scenario=name), "alloc-loop")
        assert finding.status == "clear"
        assert finding.evidence[0].startswith("Pairs in each measured iteration: 1 (threshold 3)")
    assert verdict(pairs(10, 100 * MS, scenario="alloc-loop", inside=2), "alloc-loop").status == "clear"
    assert verdict(pairs(1, 100 * MS, scenario="alloc-loop", inside=3), "alloc-loop").status == "fired"
    assert verdict(pairs(10, 100 * MS, scenario="alloc-loop", inside=8), "alloc-loop").status == "fired"


def test_alloc_loops_cannot_be_judged_without_ranges_of_that_name() -> None:
    finding = verdict(mixed({}), "alloc-loop")
    assert (finding.status, bool(finding.missing)) == ("not-assessable", True)


def touching(step_pages: int, faults: int = 300) -> Capture:
    clock = [Sample(STACKS["fault.anon"], MS, time_ns=number * MS) for number in range(100)]
    touched = [
        Sample(["main@/app"], 64, time_ns=number, event=1, address=(1 << 40) + number * 64 * step_pages * 4096)
        for number in range(faults)
    ]
    return capture([*clock, *touched], events=(CLOCK, FAULTS))


def test_huge_pages_are_judged_by_the_distance_of_neighbouring_faults() -> None:
    assert verdict(touching(1), "no-huge-pages").status == "fired"
    assert verdict(touching(pages.BASE_PAGE_STEP), "no-huge-pages").status == "fired"
    assert verdict(touching(pages.BASE_PAGE_STEP + 1), "no-huge-pages").status == "clear"


HUGE, PAGE, PERIOD = 2 << 20, 4096, 64


def faulted(addresses: Sequence[int], counters: dict[str, int] | None = None) -> Capture:
    """Page faults at these addresses, one sample for every 64 of them, in a program that spends its time on them."""
    clock = [Sample(STACKS["fault.anon"], MS, time_ns=number * MS) for number in range(100)]
    touched = [
        Sample(["main@/app"], PERIOD, time_ns=number, event=1, address=address)
        for number, address in enumerate(addresses[::PERIOD])
    ]
    data = capture([*clock, *touched], events=(CLOCK, FAULTS))
    return replace(data, manifest=replace(data.manifest, outcome={"counters": counters or {}}))


def run_of(base: int, count: int, size: int) -> list[int]:
    return [(base << 40) + number * size for number in range(count)]


@pytest.mark.slow
def test_huge_pages_are_judged_by_bytes_and_not_by_the_number_of_faults() -> None:
    small, large = run_of(1, 209_715, PAGE), run_of(2, 3840, HUGE)
    finding = verdict(faulted(small + large), "no-huge-pages")
    assert finding.status == "clear"
    assert "819.2 MiB in pieces of at most 16 KiB and 7.5 GiB in larger ones" in finding.evidence[1]
    assert verdict(faulted(small + large[:384]), "no-huge-pages").status == "fired"


@pytest.mark.slow
def test_buffers_touched_in_turns_or_in_any_order_are_still_made_of_small_pages() -> None:
    rng = np.random.default_rng(1)
    one, two, three = (
        run_of(1, 30_000, PAGE),
        run_of(2, 30_000, PAGE),
        [at + (100 << 20) for at in run_of(2, 30_000, PAGE)],
    )
    turns = [at for several in zip(one, two, three, strict=True) for at in several]
    for order in (turns, rng.permutation(turns).tolist(), turns[::-1], turns + turns):
        finding = verdict(faulted(order), "no-huge-pages")
        assert finding.status == "fired"
        assert "apart" not in " ".join(finding.evidence)
        small, large = pages.sizes_by_address(faulted(order), PAGE, HUGE)
        assert large == 0
        assert len(order) * PAGE <= small <= 1.5 * len(order) * PAGE


def test_huge_pages_touched_in_any_order_are_large() -> None:
    order = np.random.default_rng(1).permutation(run_of(3, 64_000, HUGE)).tolist()
    assert verdict(faulted(order), "no-huge-pages").status == "clear"


def test_faults_all_over_the_address_space_tell_nothing() -> None:
    places = np.random.default_rng(1).integers(1 << 30, 1 << 40, 50_000) * PAGE
    assert verdict(faulted(places.tolist()), "no-huge-pages").status == "not-assessable"


@pytest.mark.parametrize(("huge_faults", "status"), [(3840, "clear"), (390, "fired")])
def test_huge_faults_that_the_machine_counted_weigh_as_many_bytes_as_they_made(huge_faults: int, status: str) -> None:
    places = np.random.default_rng(1).integers(1 << 30, 1 << 40, 210_000) * PAGE
    finding = verdict(faulted(places.tolist(), {"thp_fault_alloc": huge_faults}), "no-huge-pages")
    assert finding.status == status
    assert "got a huge page" in finding.evidence[1]


@pytest.mark.slow
def test_small_pages_by_address_are_no_finding_where_the_machine_made_many_more_huge_ones() -> None:
    small = run_of(1, 209_715, PAGE)
    assert verdict(faulted(small, {"thp_fault_alloc": 0}), "no-huge-pages").status == "fired"
    assert verdict(faulted(small, {"thp_fault_alloc": 3840}), "no-huge-pages").status == "clear"


def test_the_machine_says_how_large_its_pages_are() -> None:
    data = faulted(run_of(1, 400, 64 << 10) + run_of(2, 64, 512 << 20))
    facts = replace(data.manifest, host={"page_bytes": 64 << 10, "huge_page_bytes": 512 << 20})
    evidence = verdict(replace(data, manifest=facts), "no-huge-pages").evidence[1]
    assert "28 MiB in pieces of at most 256 KiB and 32 GiB in larger ones" in evidence


@pytest.mark.parametrize(("share", "status"), [(29, "clear"), (30, "fired")])
def test_faults_of_shared_memory_and_files_are_first_touch(share: int, status: str) -> None:
    finding = verdict(mixed({"fault.file": share}), "first-touch")
    assert finding.status == status
    assert "fault.file" in finding.evidence[0]
    assert ("shared memory" in finding.advice) == (status == "fired")
    assert "shared memory" not in verdict(mixed({"fault.anon": 40, "fault.file": 10}), "first-touch").advice


def test_huge_pages_of_small_buffers_or_without_addresses_are_not_assessable() -> None:
    assert verdict(touching(1, 255), "no-huge-pages").status == "not-assessable"
    assert verdict(touching(1, 257), "no-huge-pages").status == "fired"
    assert verdict(mixed({"fault.anon": 50}), "no-huge-pages").status == "not-assessable"
    assert verdict(mixed({"fault.anon": 9}), "no-huge-pages").status == "clear"


@pytest.mark.parametrize(
    ("huge_mib", "resident_mib", "status"),
    [
        (49, 100, "fired"),
        (50, 100, "clear"),
        (0, 64, "fired"),
        (0, 63, "not-assessable"),
        (None, 100, "not-assessable"),
    ],
)
def test_huge_pages_are_judged_by_memory_over_time_where_faults_cannot_tell(
    huge_mib: int | None, resident_mib: int, status: str
) -> None:
    def column(mib: int) -> np.ndarray:
        return np.array([0, mib << 20])

    values = {"rss": column(resident_mib)} | ({} if huge_mib is None else {"huge": column(huge_mib)})
    process = ProcessMemory(7, "app", np.array([1, 2]), values)
    data = replace(mixed({"pin.faultin": 50}), memory=MemoryLog(np.array([1, 2]), {}, (process,)))
    finding = verdict(data, "no-huge-pages")
    assert finding.status == status
    assert ("register them" in finding.advice) == (status == "fired")
    assert bool(finding.missing) == (status == "not-assessable")


@pytest.mark.parametrize(
    ("below", "above"),
    [
        (Losses(lost_samples=5), Losses(lost_samples=6)),
        (Losses(truncated_chains=5), Losses(truncated_chains=6)),
        (Losses(missing_stacks=5), Losses(missing_stacks=6)),
        (Losses(unresolved_frames=5), Losses(unresolved_frames=6)),
    ],
)
def test_losses_above_five_percent_are_a_gap(below: Losses, above: Losses) -> None:
    assert verdict(mixed({}, losses=below), "sampling-gap").status == "clear"
    assert verdict(mixed({}, losses=above), "sampling-gap").status == "fired"


@pytest.mark.parametrize(("end_ms", "status"), [(105, "clear"), (106, "fired")])
def test_time_that_the_ranges_own_thread_was_not_sampled_is_a_gap(end_ms: int, status: str) -> None:
    data = mixed({}, [Range("work", 0, end_ms * MS, pid=100, tid=100)])
    assert verdict(data, "sampling-gap").status == status


def test_every_rule_has_an_entry_in_the_documentation_and_the_other_way_round() -> None:
    text = (Path(__file__).parents[3] / "docs" / "diagnoses.md").read_text()
    entries = [line.removeprefix("## ").strip() for line in text.splitlines() if line.startswith("## ")]
    assert entries == [rule.name for rule in rules.RULES]


def test_verdicts_come_fired_first_and_carry_their_slug() -> None:
    found = analyze(mixed({"fault.anon": 50})).findings
    ranks = [("fired", "not-assessable", "clear").index(finding.status) for finding in found]
    assert ranks == sorted(ranks)
    assert {finding.slug for finding in found} == {rule.name for rule in rules.RULES}


KERNEL_RULES = {"first-touch-in-pin", "first-touch", "managed-cpu-faults", "freeing", "no-huge-pages", "compaction"}


@pytest.mark.parametrize("event", ["cpu-clock", "cycles:u", "cpu-clock/freq=999/u"])
def test_samples_of_user_code_alone_do_not_clear_the_kernel(event: str) -> None:
    recorded = replace(CLOCK, name=event)
    own = capture([Sample(STACKS["user.app"], time_ns=number) for number in range(100)], events=(recorded,))
    data = replace(own, manifest=replace(own.manifest, collectors=({"name": "a text"},)))
    for rule in KERNEL_RULES:
        assert (verdict(data, rule).status, "only user code" in verdict(data, rule).missing) == ("not-assessable", True)
        assert verdict(own, rule).status == ("clear" if event == "cpu-clock" else "not-assessable")
    assert verdict(data, "staging-copies").status == "not-assessable"


def test_waits_alone_clear_no_cause_of_time_on_the_processors() -> None:
    asleep = ["main@/app", "entry_SYSCALL_64_after_hwframe", "__x64_sys_poll", "schedule"]
    data = capture([Sample(asleep, time_ns=number) for number in range(100)], events=(OFF_CPU,))
    for rule in KERNEL_RULES | {"staging-copies"}:
        assert verdict(data, rule).status == "not-assessable"


def test_no_rule_judges_without_its_input() -> None:
    """Whatever a rule needs, taking it away takes the claim away: it never says that all is well."""
    data = mixed({"fault.anon": 50})
    view = View(data, (), (), None, None)
    for rule in rules.RULES:
        finding = rule.verdict(view)
        assert (finding.status, bool(finding.missing)) == ("not-assessable", True), rule.name
        assert rule.needs, rule.name


MANY_SAMPLES = Need("many samples", lambda view: len(view.capture.samples) >= 100, "A hundred samples.")


def toy(view: View) -> Verdict:
    samples = f"{len(view.capture.samples)} samples."
    return fired("The recording is a toy.", samples, advice="Record something else.", stake=None)


@pytest.mark.parametrize("count", [100, 99])
def test_a_rule_is_one_function_and_one_line(count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, Rule("toy", toy, (MANY_SAMPLES,), "Whether this is a toy")))
    stacks = tmp_path / "stacks.folded"
    stacks.write_text("".join(f"main;step{number} 1\n" for number in range(count)))
    out = {}
    for form in ("json", "text"):
        with pytest.raises(SystemExit, match="0"):
            main(["report", str(stacks), "--format", form, "-o", str(tmp_path / form)])
        out[form] = (tmp_path / form).read_text()
    (finding,) = [entry for entry in json.loads(out["json"])["findings"] if entry["rule"] == "toy"]
    if count == 100:
        assert finding["severity"] == "warning"
        assert (finding["title"], finding["advice"]) == ("The recording is a toy.", "Record something else.")
        assert "The recording is a toy." in out["text"]
    else:
        assert (finding["severity"], finding["missing"]) == ("not-assessable", "A hundred samples.")
        assert finding["title"] == "Whether this is a toy can't be judged."
        unknown = out["text"].partition("not assessable: ")[2]
        assert "far-node, toy More about one: pinprof explain NAME Data" in " ".join(unknown.split())


@pytest.mark.parametrize(("weight", "status"), [(20, "fired"), (19, "clear")])
def test_the_documented_rule_judges_on_both_sides_of_its_threshold(
    weight: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, module("diagnosis.py").RULE))
    finding = verdict(mixed({"free.unmap": weight}), "tidying")
    assert finding.status == status
    assert finding.evidence == (f"free.unmap is {weight} % of work (100 ms sampled); threshold 20 %.",)
    assert verdict(replace(mixed({}), kernel_chains=False), "tidying").status == "not-assessable"


def test_rules_judge_the_time_in_which_the_program_runs_its_own_code() -> None:
    """Imports fault, the work copies: neither is a share of both."""
    importing = ["main@/app", "dlopen@/lib/ld-linux-x86-64.so.2", *STACKS["fault.anon"][1:]]
    samples = [Sample(importing, MS, time * MS) for time in range(1, 901)]
    samples += [Sample(STACKS["copy.staging"], MS, time * MS) for time in range(901, 1000)]
    run = analyze(capture(samples))
    assert run.course is not None
    assert [phase.name for phase in run.course.phases] == ["start-up", "work"]
    told = {finding.rule: finding for finding in run.findings}
    assert told["first-touch"].status == "clear"
    assert told["staging-copies"].status == "fired"
    assert told["staging-copies"].evidence[0].startswith("copy.staging is 100 % of the program's own time")
    assert run.main is not None
    assert run.main.share("fault.anon") == pytest.approx(0.9, abs=0.01), "the recording's shares are of all"
