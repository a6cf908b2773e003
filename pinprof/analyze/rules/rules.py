"""The rules that turn shares into findings. A rule whose input is missing says so and makes no claim.

Every threshold is a named constant here, a starting point from real captures; docs/diagnoses.md has an entry per rule.
Rules about CUDA calls and GPU activity are in `activity_rules`; where they judge the same by better data, they win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.attribution.attribute import RECLAIM_IN_PIN
from pinprof.analyze.memory import summarise_memory
from pinprof.analyze.ranges.iterations import ITERATION, measured_iterations
from pinprof.analyze.results import MIN_SAMPLES, EventResult, Finding, RangeResult, Severity, main_event
from pinprof.analyze.rules.activity_rules import ACTIVITY_RULES, ALLOC_PAIRS, ALLOC_SHARE, ALLOC_WALL_NS
from pinprof.analyze.rules.activity_rules import alloc_loop as alloc_loop_by_calls
from pinprof.analyze.rules.activity_view import ActivityRule, ActivityView, finding, percent
from pinprof.model import Capture
from pinprof.read.nsys import export as nsys_export
from pinprof.units import format_bytes, format_count, format_counted, format_ns, format_share, format_weight

FIRST_TOUCH_IN_PIN = 0.50
"""pin.faultin, of the pinning call."""
PINNING_CALL = 0.10
"""A range counts as a pinning call when pinning is at least this much of it."""
COMPACTION_OF_PIN = 0.10
"""Samples of reclaim or compaction inside a pin, of pinning."""
HUGE_PAGES_BYTES = 64 << 20
HUGE_PAGES_SHARE = 0.10
"""fault.anon + pin.faultin."""
HUGE_PAGES_OF_RESIDENT = 0.50
"""AnonHugePages, of resident memory, both at their peaks."""
BASE_PAGE_STEP = 4
"""Memory per fault, in base pages, up to which a buffer counts as mapped without huge pages."""
FIRST_TOUCH = 0.30
"""fault.anon + fault.entry + fault.core."""
STAGING = 0.10
MANAGED_CPU_FAULTS = 0.10
FREEING = 0.10
"""free.* + unpin."""
SAMPLING_GAP = 0.05
GAP_WALL_NS = 50_000_000
"""Ranges shorter than this hold too few samples to compare the clocks."""
GAPS_NAMED = 3
"""How many ranges a finding names before it counts the rest."""

BASE_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Scope:
    """What a share is taken of: one range, or the whole recording."""

    part: EventResult
    range: RangeResult | None

    @property
    def name(self) -> str:
        """As a sentence names it."""
        return str(self.range.path) if self.range else "the whole recording"

    def states(self, what: str, share: float) -> str:
        """`pin.faultin is 87 % of alloc (492 ms sampled)`."""
        total = format_weight(self.part.total, self.part.event.unit)
        return f"{what} is {format_share(share * self.part.total, self.part.total)} of {self.name} ({total} sampled)"


@dataclass(frozen=True)
class View:
    """What rules look at."""

    capture: Capture
    events: tuple[EventResult, ...]
    ranges: tuple[RangeResult, ...]
    main: EventResult

    def scopes(self) -> Iterator[Scope]:
        """Every range with enough samples, then the whole recording."""
        for entry in self.ranges:
            part = entry.event(self.main.event)
            if part.samples >= MIN_SAMPLES:
                yield Scope(part, entry)
        yield Scope(self.main, None)

    def innermost(self) -> list[Scope]:
        """Ranges that enclose no other, or the whole recording where there are no ranges."""
        outer = {entry.path.parent for entry in self.ranges}
        found = [scope for scope in self.scopes() if scope.range and scope.range.path not in outer]
        return found or [scope for scope in self.scopes() if not scope.range]

    def worst(self, *leaves: str) -> tuple[Scope, float]:
        """Where these leaves' share is largest: among outermost ranges, or the whole recording without ranges."""
        outer = [scope for scope in self.scopes() if scope.range and not scope.range.depth]
        scopes = outer or [scope for scope in self.scopes() if not scope.range]
        return max(((scope, scope.part.share(*leaves)) for scope in scopes), key=lambda item: item[1])


@dataclass(frozen=True)
class Rule:
    """A rule's name, which is its slug in docs/diagnoses.md, and its judgement."""

    name: str
    judge: Callable[[View], Finding]


@dataclass(frozen=True)
class _ShareRule:
    """A rule that compares one share with a threshold."""

    rule: str
    leaves: tuple[str, ...]
    threshold: float
    what: str
    title: str
    clear: str
    advice: str
    missing: str = ""

    def __call__(self, view: View) -> Finding:
        scope, share = view.worst(*self.leaves)
        evidence = [f"{scope.states(self.what, share)}; threshold {percent(self.threshold)}."]
        if share < self.threshold:
            return finding(self.rule, "ok", self.clear, *evidence, missing=self.missing)
        if scope.part.heuristic and "copy.staging" in self.leaves:
            evidence.append("The copy loop is told by the hot-loop rule (heuristic): libcuda has no symbols.")
        return finding(self.rule, "warning", self.title, *evidence, advice=self.advice, missing=self.missing)


def alloc_loop(view: View) -> Finding:
    """1: allocating and freeing, or registering and unregistering, again and again."""
    rule = "alloc-loop"
    measured = measured_iterations(view.capture)
    pairs = []
    for opening, closing in (("alloc", "free"), ("register", "unregister")):
        twins = {entry.path.parent: entry for entry in reversed(view.ranges) if entry.name == closing}
        for entry in view.ranges:
            twin = twins.get(entry.path.parent)
            if entry.name == opening and twin:
                count = min(entry.count, twin.count)
                if measured and entry.path.names[0] == ITERATION:
                    # Measuring a program several times repeats what it does once.
                    count //= measured
                pairs.append((count, entry.wall_ns + twin.wall_ns, entry))
    missing = "Buffer sizes and the time of the first kernel: pairs are counted by range names only."
    if not pairs:
        return finding(
            rule, "not-assessable", "Repeated allocation cannot be judged.",
            missing="Ranges named alloc and free (or register and unregister) around the calls.",
        )  # fmt: skip
    count, cost, entry = max(pairs, key=lambda pair: (pair[0] >= ALLOC_PAIRS, pair[1]))
    parent = next((other for other in view.ranges if other.path is entry.path.parent), None)
    starts, ends = view.capture.ranges.start_ns, view.capture.ranges.end_ns
    whole = parent.wall_ns if parent else int(ends.max() - starts.min())
    evidence = (
        f"Pairs{' in each measured iteration' if measured else ''}: {format_count(count)} (threshold {ALLOC_PAIRS}); "
        f"together they take {format_ns(cost)}, {format_share(cost, whole)} of {format_ns(whole)} "
        f"(threshold {percent(ALLOC_SHARE)} or {format_ns(ALLOC_WALL_NS)})."
    )
    if count >= ALLOC_PAIRS and (cost >= ALLOC_SHARE * whole or cost >= ALLOC_WALL_NS):
        return finding(
            rule, "warning", "The same buffers are allocated and freed again and again.", evidence,
            advice="Allocate once and reuse, or take buffers from a pool.", missing=missing,
        )  # fmt: skip
    return finding(rule, "ok", "Allocation is not repeated at a noticeable cost.", evidence, missing=missing)


def first_touch_in_pin(view: View) -> Finding:
    """12: the pinning call creates the pages it pins."""
    rule = "first-touch-in-pin"
    calls = _pinning_calls(view)
    if not calls:
        return finding(rule, "ok", "No call spends its time pinning.", _NO_PINNING)
    scope, pinning = max(calls, key=lambda call: call[0].part.by_leaf.get("pin.faultin", 0))
    # Without ranges the call's own time is not known: pinning itself is the best measure.
    whole = scope.part.total if scope.range else pinning
    created = scope.part.by_leaf.get("pin.faultin", 0)
    evidence = (
        f"pin.faultin is {format_share(created, whole)} of {scope.name if scope.range else 'pinning'}; "
        f"threshold {percent(FIRST_TOUCH_IN_PIN)}."
    )
    if created >= FIRST_TOUCH_IN_PIN * whole:
        return finding(
            rule, "warning", "Pinning is cheap; here the call creates the pages, and that is what takes the time.",
            evidence,
            advice="Touch the memory first, in parallel and in huge pages, then register it; pool pinned buffers. In "
            "PyTorch: PYTORCH_CUDA_ALLOC_CONF=pinned_use_cuda_host_register:True,pinned_num_register_threads:8.",
        )  # fmt: skip
    return finding(rule, "ok", "The pages were there before they were pinned.", evidence)


_NO_PINNING = f"No range or recording with {percent(PINNING_CALL)} of pin.*."


def _pinning_calls(view: View) -> list[tuple[Scope, int]]:
    """The scopes that count as calls that pin, each with its weight of `pin.*`; releasing pins is none of it."""
    found = []
    for scope in view.innermost():
        pinning = sum(weight for leaf, weight in scope.part.by_leaf.items() if leaf.startswith("pin."))
        if pinning and pinning >= PINNING_CALL * scope.part.total:
            found.append((scope, pinning))
    return found


def no_huge_pages(view: View) -> Finding:
    """13: large buffers in small pages, by the addresses of page faults, else by the memory of the processes."""
    rule, log = "no-huge-pages", summarise_memory(view.capture)
    resident, huge = (log.peak.get("rss", 0), log.peak.get("huge")) if log else (0, None)
    lacks = "AnonHugePages of the process over time; page-faults cannot see pages created inside a pin."
    missing = lacks if huge is None else ""
    scope, share = view.worst("fault.anon", "pin.faultin")
    shares = scope.states("fault.anon + pin.faultin", share)
    if share < HUGE_PAGES_SHARE:
        below = f"{shares}; threshold {percent(HUGE_PAGES_SHARE)}."
        return finding(rule, "ok", "Creating pages costs little.", below, missing=missing)
    least = format_bytes(HUGE_PAGES_BYTES)
    step, memory = fault_step(view.capture)
    if step and memory >= HUGE_PAGES_BYTES:
        small = step <= BASE_PAGE_STEP * BASE_PAGE_BYTES
        told = (
            f"Neighbouring faults lie {format_bytes(step)} apart, over {format_bytes(memory)} (threshold "
            f"{format_bytes(BASE_PAGE_STEP * BASE_PAGE_BYTES)} apart, {least})."
        )
    elif huge is not None and resident >= HUGE_PAGES_BYTES:
        small = huge < HUGE_PAGES_OF_RESIDENT * resident
        told = (
            f"At their peaks, AnonHugePages are {format_bytes(huge)}, {format_share(huge, resident)} of the "
            f"{format_bytes(resident)} in memory (threshold {percent(HUGE_PAGES_OF_RESIDENT)}, {least})."
        )
    else:
        return finding(
            rule, "not-assessable", "Whether huge pages back the large buffers cannot be judged.", f"{shares}.",
            missing=f"A page-faults event with addresses over at least {least}, or {lacks}",
        )  # fmt: skip
    evidence = (f"{shares}; threshold {percent(HUGE_PAGES_SHARE)}.", told)
    if small:
        advice = "madvise(MADV_HUGEPAGE) before the first touch, or hugetlbfs."
        if scope.part.share("pin.faultin") > scope.part.share("fault.anon"):
            advice += " cudaMallocHost takes small pages: touch huge ones of your own, then register them."
        return finding(
            rule, "warning", "Large buffers are made of small pages.", *evidence, advice=advice, missing=missing
        )
    return finding(rule, "ok", "Large buffers are mapped in large pieces.", *evidence, missing=missing)


def fault_step(capture: Capture) -> tuple[int, int]:
    """(bytes per fault where faults run through a buffer, bytes they cover), (0, 0) when the data cannot tell.

    Consecutive samples of a fixed period p lie p pages apart in a buffer that is touched in order.
    """
    samples = capture.samples
    for number, event in enumerate(capture.events):
        if event.unit != "faults":
            continue
        rows = np.flatnonzero((samples.event == number) & (samples.address != 0))
        if len(rows) < 2:
            continue
        gap = np.diff(samples.address[rows].astype(np.int64))
        forward = (gap > 0) & (gap < HUGE_PAGES_BYTES)
        if np.count_nonzero(forward) * 2 > len(gap):
            step = float(np.median(gap[forward] / np.maximum(samples.weight[rows][1:][forward], 1)))
            return round(step), round(step * float(samples.weight[rows].sum()))
    return 0, 0


def compaction(view: View) -> Finding:
    """14: making room for the pages costs more than a little of pinning."""
    rule = "compaction"
    calls = _pinning_calls(view)
    if not calls:
        return finding(rule, "ok", "No call spends its time pinning.", _NO_PINNING)
    scope, pinning = max(calls, key=lambda call: call[0].part.inclusive[RECLAIM_IN_PIN] / call[1])
    reclaiming = scope.part.inclusive[RECLAIM_IN_PIN]
    evidence = (
        f"Reclaim or compaction runs in {format_share(reclaiming, pinning)} of pinning in {scope.name}; "
        f"threshold {percent(COMPACTION_OF_PIN)}."
    )
    if reclaiming >= COMPACTION_OF_PIN * pinning:
        return finding(
            rule, "warning", "The kernel compacts or reclaims memory to find pages for the pin.", evidence,
            advice="Reserve hugetlbfs pages, or set transparent huge page defrag to defer+madvise; leave memory free.",
        )  # fmt: skip
    return finding(rule, "ok", "Pages for the pin were at hand.", evidence)


first_touch = _ShareRule(
    "first-touch",
    ("fault.anon", "fault.entry", "fault.core"),
    FIRST_TOUCH,
    "First touch (fault.anon, fault.entry, fault.core)",
    "The first touch of fresh memory takes a large part of the time.",
    "The first touch of fresh memory is no large part of the time.",
    "Reuse buffers instead of allocating new ones; madvise(MADV_HUGEPAGE); touch pages early and in parallel.",
)

staging = _ShareRule(
    "staging-copies",
    ("copy.staging",),
    STAGING,
    "copy.staging",
    "The driver copies pageable memory through its own pinned buffer.",
    "Staging copies by the driver do not stand out.",
    "Copy from pinned memory, asynchronously; for one-off transfers staging may still be the cheaper way.",
    "Sizes and kinds of the transfers (nsys).",
)

managed_cpu_faults = _ShareRule(
    "managed-cpu-faults",
    ("uvm.cpu_fault",),
    MANAGED_CPU_FAULTS,
    "uvm.cpu_fault",
    "The CPU faults on managed memory.",
    "CPU faults on managed memory do not stand out.",
    "cudaMemPrefetchAsync to the host before reading; initialise on the GPU, or in ordinary memory.",
    "Direction and cause of the migrations (nsys): creating pages and fetching them back look alike here.",
)

freeing = _ShareRule(
    "freeing",
    ("free.*", "unpin"),
    FREEING,
    "Freeing and unpinning (free.*, unpin)",
    "Giving memory back takes a noticeable part of the time.",
    "Giving memory back does not stand out.",
    "Keep buffers; for malloc raise M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.",
    "Teardown at exit: recent kernels stop per-task sampling before it (record --system-wide, or free explicitly).",
)


def _why_off_cpu(capture: Capture) -> str:
    """What the run's own counters say about time off the CPU; empty when they were not recorded."""
    outcome = capture.manifest.outcome
    known = []
    for section, name, unit in (
        ("counters", "cpu_steal_ns", "stolen by the hypervisor, all CPUs"),
        ("resources", "involuntary_switches", "preemptions"),
        ("resources", "voluntary_switches", "voluntary waits"),
    ):
        facts = outcome.get(section)
        value = facts.get(name) if isinstance(facts, Mapping) else None
        if isinstance(value, int) and value:
            known.append(f"{format_ns(value) if name.endswith('_ns') else format_count(value)} {unit}")
    return f"The whole run counted {', '.join(known)}." if known else ""


def sampling_gap(view: View) -> Finding:
    """21: what the samples may not show."""
    rule, losses, samples = "sampling-gap", view.capture.losses, view.capture.samples
    count = len(samples)
    stacked = samples.stack[samples.stack >= 0]
    frames = int((view.capture.stacks.depth()[stacked] + 1).sum()) if len(stacked) else 0
    shares = [
        ("of all samples were lost", losses.lost_samples, count + losses.lost_samples),
        ("of samples have truncated callchains", losses.truncated_chains, count),
        ("of samples have no callchain", losses.missing_stacks, count),
        ("of frames have no symbol", losses.unresolved_frames, frames),
    ]
    gaps = [f"{format_share(part, whole)} {what}." for what, part, whole in shares if part > SAMPLING_GAP * whole > 0]
    if view.main.too_few:
        taken = format_counted(view.main.samples, "sample was", "samples were")
        gaps.insert(0, f"Only {taken} taken of {view.main.event.name}: no cause is judged below {MIN_SAMPLES}.")
    if view.capture.manifest.kernel_left_out:
        gaps.insert(0, "The kernel was not sampled: time in page faults, pinning and copies there is missing.")
    compared = [
        (entry.wall.remainder_ns if entry.wall else entry.wall_ns - entry.own_thread_ns, entry)
        for entry in view.ranges
        if entry.own_thread_ns is not None and entry.wall_ns >= GAP_WALL_NS
    ]
    waiting = sorted(
        ((off, entry) for off, entry in compared if off > SAMPLING_GAP * entry.wall_ns), key=lambda pair: -pair[0]
    )
    if waiting:
        named = [
            f"{entry.path} {format_share(off, entry.wall_ns)} of {format_ns(entry.wall_ns)}"
            for off, entry in waiting[:GAPS_NAMED]
        ]
        more = f" and {len(waiting) - GAPS_NAMED} more" if len(waiting) > GAPS_NAMED else ""
        known = any(entry.wall for _, entry in waiting)
        what = "Neither on the CPU nor known to wait" if known else "Not on the CPU"
        gaps.append(f"{what}: {', '.join(named)}{more}. {_why_off_cpu(view.capture)}".rstrip())
    missing = "" if compared else f"Ranges of at least {format_ns(GAP_WALL_NS)} with thread ids, to compare the clocks."
    if gaps:
        blind = view.capture.manifest.kernel_left_out
        advice = "Permit it: `pinprof doctor` says how. " if blind else ""
        advice += "Record for longer, or with a higher --frequency. " if view.main.too_few else ""
        advice += "Read shares with this in mind; --system-wide sees kernel threads, symbols come with --symfs."
        return finding(
            rule, "warning" if blind else "info", "The samples do not show everything.", *gaps,
            f"Threshold {percent(SAMPLING_GAP)} each.", advice=advice, missing=missing,
        )  # fmt: skip
    return finding(rule, "ok", "Losses and gaps are below 5 %.", f"{format_count(count)} samples.", missing=missing)


RULES: tuple[Rule | ActivityRule, ...] = (
    Rule("first-touch-in-pin", first_touch_in_pin),
    Rule("first-touch", first_touch),
    Rule("staging-copies", staging),
    Rule("managed-cpu-faults", managed_cpu_faults),
    Rule("alloc-loop", alloc_loop),
    Rule("freeing", freeing),
    Rule("no-huge-pages", no_huge_pages),
    Rule("compaction", compaction),
    Rule("sampling-gap", sampling_gap),
    *ACTIVITY_RULES,
)
"""In the order of reports; docs/diagnoses.md has an entry for each."""

_ORDER: tuple[Severity, ...] = ("critical", "warning", "info", "not-assessable", "ok")


def findings(
    capture: Capture,
    events: tuple[EventResult, ...],
    ranges: tuple[RangeResult, ...],
    activity: ActivityAnalysis | None = None,
) -> tuple[Finding, ...]:
    """Every rule's verdict, what fired first; nothing when the recording holds neither samples nor activity."""
    main = main_event(events)
    if main is None and activity is None:
        return ()
    sampled = View(capture, events, ranges, main) if main else None
    traced = ActivityView(activity, capture.manifest.host) if activity else None
    verdicts = [_judge(rule, sampled, traced) for rule in RULES]
    return tuple(sorted(verdicts, key=lambda found: _ORDER.index(found.severity)))


def _judge(rule: Rule | ActivityRule, sampled: View | None, traced: ActivityView | None) -> Finding:
    if isinstance(rule, ActivityRule):
        if traced and (traced.knows_calls if rule.of_calls else traced.knows_cuda):
            return rule.judge(traced)
        return rule.without_activity()
    if traced and rule.judge is alloc_loop and (traced.knows_cuda or traced.has_calls):
        return alloc_loop_by_calls(traced)
    if sampled is None:
        lacks = "CPU samples with kernel call chains: record with perf."
        return finding(rule.name, "not-assessable", "Without samples this cannot be judged.", missing=lacks)
    if sampled.capture.manifest.kernel_left_out and rule.judge is not sampling_gap:
        lacks = "The kernel's part, which was not permitted to sample: `pinprof doctor` says how."
        return finding(rule.name, "not-assessable", "Without kernel call chains this cannot be judged.", missing=lacks)
    if traced and sampled.capture.clock.source == nsys_export.CLOCK and rule.judge is not sampling_gap:
        lacks = "Kernel call chains: samples of nsys end at the kernel's door. Record with perf as well."
        return finding(rule.name, "not-assessable", "Without kernel call chains this cannot be judged.", missing=lacks)
    if sampled.main.too_few and rule.judge not in (sampling_gap, alloc_loop):
        lacks = f"At least {MIN_SAMPLES} samples: record for longer, or with a higher --frequency."
        return finding(rule.name, "not-assessable", "From so few samples this cannot be judged.", missing=lacks)
    return rule.judge(sampled)
