"""Asks all detectors, weighs their candidates against each other, and puts the answer in a sentence.

Time is saved once: where two candidates claim the same time, the one that saves more keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES, in_words
from pinprof.analyze.course.results import PHASE_NAMES, PhaseName
from pinprof.analyze.evidence import LEAST_NS, MIN_SAMPLES, worth_telling
from pinprof.analyze.opportunities import (
    allocating,
    between,
    blocking,
    catalogue,
    cold,
    copying,
    managed,
    pages,
    pressure,
    turns,
)
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.options import with_options
from pinprof.analyze.opportunities.per_step import per_step
from pinprof.analyze.opportunities.results import Evidence, Opportunities, Opportunity, Refused, Saving, ToMeasure
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.rules.needs import (
    CALL_CHAINS,
    CALLS,
    CLOCK,
    EVERY_CALL,
    KERNEL_NAMES,
    KERNEL_SAMPLES,
    KERNEL_STACKS,
    PERMITTED,
    SHOWS_KERNEL,
    STACKS,
    WHOLE,
)
from pinprof.analyze.rules.rule import Need, Statement, first_said, unmet
from pinprof.base.columns import Bool, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns, format_ns_about, format_share


@dataclass(frozen=True)
class Detector:
    """One pattern in the time of the critical thread."""

    find: Callable[[Scene], Iterator[Candidate]]
    looks_for: str
    """Said where nothing was found."""
    needs: tuple[Need, ...] = (CLOCK,)
    """It is not asked without."""


_CALLS, _KERNEL = (CLOCK, CALLS), (CLOCK, KERNEL_SAMPLES)

DETECTORS: tuple[Detector, ...] = (
    Detector(allocating.pairs, "memory allocated and freed repeatedly", _CALLS),
    Detector(allocating.page_creation, "pages created during pins", (*_CALLS, KERNEL_SAMPLES, KERNEL_STACKS)),
    Detector(blocking.blocking_pins, "waits for other threads", _CALLS),
    Detector(blocking.other_process, "waits for other processes", _KERNEL),
    Detector(allocating.late_context, "contexts created inside timed work", _CALLS),
    Detector(copying.read_scalars, "synchronisation in every step", _CALLS),
    Detector(copying.tiny, "tiny copies", _CALLS),
    Detector(copying.pageable, "copies of pageable memory", _CALLS),
    Detector(copying.mapped_files, "copies of mapped files", _CALLS),
    Detector(copying.restaged, "copies by libraries before the copy to the GPU", (CLOCK, STACKS)),
    Detector(turns.back_and_forth, "copies and kernels that take turns", _CALLS),
    Detector(managed.read_back, "managed memory moved page by page", _KERNEL),
    Detector(managed.first_touch_by_gpu, "managed memory moved page by page", (*_CALLS, KERNEL_SAMPLES, KERNEL_STACKS)),
    Detector(between.pickled, "data that is pickled between processes", _KERNEL),
    Detector(cold.cold_files, "files that are not in memory", _KERNEL),
    Detector(pressure.memory_pressure, "memory limits, compaction and NUMA balancing", _KERNEL),
    Detector(pages.page_costs, "temporaries that fault again each time", _KERNEL),
)
"""In the order in which they are asked."""

REFUSED_SHARE = 0.05
"""The share of its phase: a cost of this size is named even where no cure pays."""
NAMED_CAUSES = 3
"""Of such a cost."""
UNEXPLAINED_SHARE = 0.10
"""The share of the work: where memory costs as much and no detector says why, the answer does not say that there is
nothing to gain."""
WHOLLY = 0.95
"""The share of a cost in its phase: where it is less, the rest is shown and excluded, and samples are no more exact."""
DISTURBED_SHARE = 0.2
"""The share of a phase: where a busy machine adds as much, it is said."""
RUNS = 1.75
"""Of two measurements of a saving, the larger is up to 1.75 times the smaller, nine times of ten (docs/accuracy.md)."""
STARTS: tuple[PhaseName, ...] = ("start-up", "imports", "context", "compile")
"""What a program does before it does anything of its own."""
STARTS_SHARE, LEAST_START_NS = 0.75, 500_000_000
"""The share of a run from which on it is mostly that, and how long that takes at least."""
COSTLY_LEVELS = ("fault", "pin", "free", "dma", "uvm", "copy")
"""Of causes that are costs of host memory."""


def _found_by(scene: Scene, detectors: Iterable[Detector]) -> Iterator[Candidate]:
    for detector in detectors:
        for candidate in detector.find(scene):
            yield _in_its_phase(scene, candidate)
        scene.unload()


def search(scene: Scene) -> Opportunities:
    """What to change, best first; what only a measurement decides; what would not pay; and the headline."""
    asked = [detector for detector in DETECTORS if unmet(detector.needs, scene.view) is None]
    candidates = with_options(scene, _found_by(scene, asked))
    candidates.sort(key=lambda candidate: -candidate.saving.likely_ns)
    found: list[Opportunity] = []
    to_measure: list[ToMeasure] = []
    refused: list[Refused] = []
    refused_ns = 0
    claimed = np.zeros(len(scene.course.wall), np.bool_)
    for candidate in candidates:
        rows = candidate.rows
        taken = scene.ns(rows[claimed[rows]]) / max(scene.ns(rows), 1)
        if taken > 0.5:
            continue
        saving = _scaled(candidate.saving, 1 - taken)
        phase_ns = scene.whole_ns(candidate.phase)
        if not candidate.site.place:
            continue  # Nobody could be told where to change something.
        if candidate.unknown:
            to_measure.append(_to_measure(candidate))
        elif worth_telling(saving.likely_ns, phase_ns):
            claimed[rows] = True
            found.append(_opportunity(scene, candidate, saving, len(found) + 1))
        elif candidate.cost_ns >= max(REFUSED_SHARE * phase_ns, LEAST_NS):
            refused.append(_refused(scene, candidate, saving))
            refused_ns += scene.ns(rows[_memory(scene)[rows]])
    found.sort(key=lambda one: -one.saving.likely_ns)
    ranked = [replace(one, rank=number) for number, one in enumerate(found, 1)]
    to_measure.sort(key=lambda one: -one.cost_ns)
    searched = Searched(scene, ranked, to_measure, refused_ns)
    headline = first_said(HEADLINES, scene.view, searched)
    return Opportunities(tuple(ranked), tuple(to_measure), tuple(refused), _unseen(scene), headline)


def _in_its_phase(scene: Scene, candidate: Candidate) -> Candidate:
    """The candidate with what it costs in the phase that most of it lies in: no saving is of another one's time, and no
    cost, part of which is calculated, is more than the phase takes.
    """
    rows, phase = candidate.rows, PHASE_NAMES.index(candidate.phase)
    inside, all_ns = scene.ns(rows[scene.phase[rows] == phase]), scene.ns(rows)
    title = candidate.title
    if title.startswith("range "):
        # The name of a file or a function begins a sentence as it is.
        candidate = replace(candidate, title=title[0].upper() + title[1:])
    candidate = replace(candidate, cost_ns=min(candidate.cost_ns, scene.phase_ns(candidate.phase)))
    share = inside / max(all_ns, 1)
    if not inside or share >= WHOLLY:
        return candidate
    cost, outside = round(share * candidate.cost_ns), round((1 - share) * candidate.cost_ns)
    remains, once = candidate.remains, candidate.once
    if once is not None and scene.phase[rows].min() < phase:
        # The first use, which lies before, pays for it.
        remains = replace(
            remains,
            ns=remains.ns - once.ns,
            low_ns=remains.low_ns - once.low_ns,
            high_ns=remains.high_ns - once.high_ns,
        )
    more = f"{format_ns(outside)} more are spent before or after {candidate.phase}, which the saving excludes."
    return replace(candidate, cost_ns=cost, remains=remains.times(share), basis=(*candidate.basis, more))


def looked_for() -> str:
    """What all detectors look for, as a list in a sentence."""
    return ", ".join(dict.fromkeys(detector.looks_for for detector in DETECTORS))


def _scaled(saving: Saving, share: float) -> Saving:
    return Saving(round(saving.low_ns * share), round(saving.likely_ns * share), round(saving.high_ns * share))


def _in_other_runs(saving: Saving) -> Saving:
    """The saving as other runs will show it: they differ, whatever is known of this one, and some take longer."""
    likely, runs = saving.likely_ns, math.log(RUNS)
    if not likely:
        return saving
    below = math.hypot(math.log(likely / saving.low_ns), runs) if saving.low_ns else math.inf
    above = math.hypot(math.log(saving.high_ns / likely), runs)
    return Saving(round(likely * math.exp(-below)), likely, round(likely * math.exp(above)))


def _opportunity(scene: Scene, candidate: Candidate, saving: Saving, rank: int) -> Opportunity:
    return Opportunity(
        rank=rank,
        title=candidate.title,
        site=candidate.site,
        causes=_made_of(scene, candidate),
        phase=candidate.phase,
        count=candidate.count,
        bytes=candidate.bytes,
        cost_ns=candidate.cost_ns,
        cure=candidate.cure,
        saving=_in_other_runs(saving),
        basis=(*candidate.basis, *_busy_machine(scene, candidate.phase)),
        evidence=(*candidate.evidence, *_command(scene, candidate)),
        per_step=per_step(scene, candidate.rows, saving.likely_ns) if candidate.phase == "work" else None,
        samples=frozenset(ascending(scene.node[candidate.rows]).tolist()),
    )


def _busy_machine(scene: Scene, phase: PhaseName) -> tuple[str, ...]:
    """That a calm machine is meant, where others had the processors for long."""
    whole = scene.phase_ns(phase)
    lost = whole - scene.undisturbed_ns(phase)
    if lost < DISTURBED_SHARE * whole:
        return ()
    spent = f"{format_ns(lost)} of {format_ns(whole)} of {phase}"
    why = f"The CPUs ran other programs for {spent} while the thread was ready to run. The saving excludes that time."
    return (why,)


def _command(scene: Scene, candidate: Candidate) -> tuple[Evidence, ...]:
    causes = scene.causes(candidate.rows)
    heaviest = next(iter(causes), "")
    if not heaviest:
        return ()
    share = format_share(causes[heaviest], sum(causes.values()))
    return (
        Evidence(
            f"The largest cause is {in_words(heaviest)}, with {share} of the samples here.", f"explain {heaviest}"
        ),
    )


def _made_of(scene: Scene, candidate: Candidate) -> dict[str, int]:
    """Leaf → its part of the cost. A cost may be less than the time of its samples: then all parts are less."""
    causes = candidate.causes or scene.causes(candidate.rows)
    share = min(candidate.cost_ns / max(sum(causes.values()), 1), 1.0)
    return {leaf: round(share * ns) for leaf, ns in causes.items()}


def _refused(scene: Scene, candidate: Candidate, saving: Saving) -> Refused:
    remains = format_ns(round(candidate.remains.ns))
    saves = f"a saving of only {format_ns_about(saving.likely_ns)}" if saving.likely_ns else "no saving"
    takes = f"It takes {format_ns(candidate.cost_ns)}{_listed(_made_of(scene, candidate))}."
    reason = f"{takes} With the cure ({candidate.cure.id}), it takes {remains}: {saves}."
    if candidate.remains.ns > candidate.cost_ns and candidate.basis:
        reason += f" {candidate.basis[-1]}"
    return Refused(candidate.title, candidate.site, reason)


def _listed(causes: dict[str, int]) -> str:
    """`: first touch of malloc'd memory (fault.anon) 12 ms, …`, the heaviest first; empty without any."""
    parts = [f"{in_words(leaf)} {format_ns(ns)}" for leaf, ns in list(causes.items())[:NAMED_CAUSES]]
    return f": {', '.join(parts)}" if parts else ""


def _to_measure(candidate: Candidate) -> ToMeasure:
    measured = f"`pinprof try` measures what {candidate.cure.id} saves."
    reason = f"It takes {format_ns(candidate.cost_ns)}. {candidate.unknown} {measured}"
    return ToMeasure(candidate.title, candidate.site, candidate.cost_ns, candidate.cure, reason)


@dataclass(frozen=True)
class Searched:
    """What the search has to put into a sentence."""

    scene: Scene
    found: list[Opportunity]
    to_measure: list[ToMeasure]
    refused_ns: int
    """Costs of host memory in the work whose cures save too little."""


def _best_change(searched: Searched) -> str:
    if not searched.found:
        return ""
    first = searched.found[0]
    saving = first.saving
    low, likely, high = map(format_ns_about, (saving.low_ns, saving.likely_ns, saving.high_ns))
    cure = first.cure.option or catalogue.CURES[first.cure.id].phrase
    return (
        f"{first.title.rstrip('.')}: {cure} saves about {likely}"
        f" of {format_ns(searched.scene.phase_ns(first.phase))} of {first.phase} ({low} to {high} in other runs)."
    )


def _mostly_starts(searched: Searched) -> str:
    """Where the work is too short to be judged, what the run does instead."""
    scene = searched.scene
    lengths = {name: scene.phase_ns(name) for name in PHASE_NAMES}
    starting = {name: lengths[name] for name in STARTS if lengths[name]}
    spent, whole = sum(starting.values()), sum(lengths.values())
    if spent < STARTS_SHARE * whole or spent < LEAST_START_NS or not _begins(scene):
        return ""
    names = list(starting)
    what = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    takes = "takes" if len(names) == 1 else "take"
    said = f"{what[0].upper()}{what[1:]} {takes} {format_ns(spent)} of {format_ns(whole)}"
    return f"{said}; {_costs(scene)}." if lengths["work"] else f"{said}."


def _begins(scene: Scene) -> bool:
    """Whether samples suffice to say what it starts with."""
    return int((~scene.in_work() & ~scene.waits()).sum()) >= MIN_SAMPLES


def _cost_to_measure(searched: Searched) -> str:
    if not searched.to_measure or not _samples_suffice(searched.scene):
        return ""
    costliest = searched.to_measure[0]
    return (
        f"{costliest.title.rstrip('.')}: this takes {format_ns(costliest.cost_ns)} of"
        f" {format_ns(searched.scene.phase_ns('work'))} of work, and `pinprof try` measures what a cure saves."
    )


def _no_cure(searched: Searched) -> str:
    """A cost without a cure is a cost all the same."""
    if not _much(searched, searched.refused_ns):
        return ""
    scene = searched.scene
    parts = _listed(scene.causes(np.flatnonzero(_memory(scene))))
    return f"pinprof knows no cure for the costs of host memory: {_costs(scene)}{parts}."


def _cures_save_little(searched: Searched) -> str:
    """A cost whose cures cost as much."""
    if not _much(searched):
        return ""
    costs = _costs(searched.scene)
    return f"{costs[0].upper()}{costs[1:]}, and no known cure saves enough of it to be worth a change."


def _nothing_to_gain(searched: Searched) -> str:
    if not _samples_suffice(searched.scene):
        return ""
    return f"Nothing to gain in host memory: {_costs(searched.scene)}."


HEADLINES: tuple[Statement[Searched], ...] = (
    Statement("best change", _best_change, (CLOCK,)),
    Statement("cost to measure", _cost_to_measure, (*SHOWS_KERNEL, CLOCK, EVERY_CALL)),
    Statement("no known cure", _no_cure, (*SHOWS_KERNEL, CLOCK, EVERY_CALL)),
    Statement("cures save little", _cures_save_little, (*SHOWS_KERNEL, CLOCK, EVERY_CALL)),
    Statement("nothing to gain", _nothing_to_gain, (*SHOWS_KERNEL, CLOCK, EVERY_CALL, WHOLE)),
    Statement("mostly starts", _mostly_starts, (*SHOWS_KERNEL, CLOCK, EVERY_CALL)),
)
"""What the search says first; the first one that applies."""


def _much(searched: Searched, explained_ns: int = 0) -> bool:
    """Whether memory takes a good part of the work besides what is explained, and samples suffice to say so."""
    scene = searched.scene
    unexplained = _spent(scene) - explained_ns
    least = max(UNEXPLAINED_SHARE * scene.undisturbed_ns("work"), LEAST_NS)
    return unexplained >= least and _samples_suffice(scene)


def _spent(scene: Scene) -> int:
    """Wall time of the work in causes that are costs of host memory."""
    return int(scene.course.wall.ns[_memory(scene)].sum())


def _memory(scene: Scene) -> Bool:
    """The wall rows of that time."""
    costly = np.array([row.level in COSTLY_LEVELS for row in CATEGORIES], np.bool_)
    return np.asarray(costly[scene.leaf] & scene.in_work())


def _costs(scene: Scene) -> str:
    spent, work = _spent(scene), scene.phase_ns("work")
    if not spent:
        return f"faults, pins and copies take none of {format_ns(work)} of work"
    share = format_share(spent, max(work, 1))
    return f"faults, pins and copies take {format_ns(spent)} of {format_ns(work)} of work ({share})"


def _samples_suffice(scene: Scene) -> bool:
    """Whether there are enough samples of the work. Where the thread is known to wait nearly all the time, few samples
    of the rest are enough.
    """
    work = scene.in_work()
    waits = scene.waits() & work
    rest_ns = scene.phase_ns("work") - int(scene.course.wall.ns[waits].sum())
    idle = waits.any() and not worth_telling(rest_ns, scene.undisturbed_ns("work"))
    return bool(idle or (work & ~waits).sum() >= MIN_SAMPLES)


def _unseen(scene: Scene) -> tuple[str, ...]:
    """What this recording could not show, and so was not searched."""
    missing = []
    if not any(event.spans for event in scene.capture.events):
        missing.append("Waits were not recorded, so the search excludes what the thread waits for.")
    activity = scene.capture.activity
    if activity is None and scene.uses_cuda:
        missing.append("CUDA calls were not recorded, so pins and copies are judged only by samples.")
    elif activity is not None and len(activity.windows):
        missing.append("The GPU's work was recorded only in windows, so it is not known when it waits for the host.")
    elif activity is not None and "cuda" not in activity.recorded and (activity.calls.status == 0).any():
        missing.append("The GPU's work was not recorded, so it is not known how long the GPU waits for the host.")
    if activity is not None and activity.untraced():
        missing.append("Some CUDA calls were not traced, to limit the cost; only samples show theirs.")
    if activity is not None and activity.lost_calls:
        missing.append("Records of CUDA calls were lost, so copies and pins may be more than the search knows of.")
    named = unmet((STACKS, KERNEL_NAMES), scene.view)
    if named:
        remedy = named.remedy[:1].upper() + named.remedy[1:]
        missing.append(f"There are no {named.name}, so the callers of costs are unknown. {remedy}.")
    if unmet((PERMITTED, CALL_CHAINS, KERNEL_SAMPLES), scene.view):
        missing.append(
            "The kernel was not recorded, so page faults and pins can't be separated from the code around them."
        )
    return tuple(missing)
