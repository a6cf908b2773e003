"""Where the time went, in one sentence: the first claim whose evidence the recording holds.

The last resort says why it cannot show costs of host memory, what to record instead, and what it does show.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.headline import activity_headline, full_link
from pinprof.analyze.attribution.attribute import PIN_USER_PAGES
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF, LEVELS
from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.results import EventResult, RangeResult
from pinprof.analyze.rules.needs import (
    CALL_CHAINS,
    COPIES,
    DURATIONS,
    ENOUGH,
    INSIDE_KERNEL,
    KERNEL_CAUSES,
    KERNEL_NAMES,
    KERNEL_SAMPLES,
    PERMITTED,
    SAMPLES,
    SHOWS_KERNEL,
    STACKS,
    TIME,
    TRACED,
    WHOLE,
)
from pinprof.analyze.rules.rule import Statement, View, first_said, unmet
from pinprof.base.units import format_count, format_counted, format_ns, format_share, format_weight
from pinprof.data.model import KERNEL, NO_NODE, Capture

PIN_SHARE = 0.5
"""From this share of pinning on, the headline calls a range a pinning call."""

RANGE_SHARE = 0.05
"""Ranges with less of the recording's time than this are not worth a headline."""

MENTION_SHARE = 0.10
"""A second cause is named from this share on."""

MEMORY_LEVELS = ("pin", "fault", "uvm", "dma", "free", "copy", "sync", "rm")
"""Levels that are about memory or the driver: named before the program's own code."""

_IDLE, _UNDECIDED = "sys.idle", "other.kernel"
_ALL_IDLE = "All CPUs were idle."
_LEVEL_PHRASES = {**dict(LEVELS), "pin": "pinning", "uvm": "unified memory", "user": "the program's own code"}
_LEAF_PHRASES = {
    "copy.staging": "staging copies by the driver",
    "sync.poll": "waiting for the GPU in a spin loop",
    "uvm.cpu_fault": "CPU faults on managed memory",
    "uvm.gpu_fault": "GPU faults on managed memory",
    "uffd.service": "userfaultfd filling pages",
    "free.shmem": "freeing shared pages",
    "sys.idle": "idle CPUs",
}


def headline(view: View) -> str:
    """One sentence or two, never empty: the first of `HEADLINES` that the recording can show."""
    return first_said(HEADLINES, view, view)


def leading(view: View) -> str:
    """The first of `LEADING`, which is said before any other answer; empty without one."""
    return first_said(LEADING, view, view)


def _pinning_call(view: View) -> str:
    main = view.main
    pinning = [
        (part.total, entry, part)
        for entry in _closed(view)
        if (part := entry.event(main.event)).total >= RANGE_SHARE * main.total
        and not part.too_few
        and part.inclusive[PIN_USER_PAGES] >= PIN_SHARE * part.total
    ]
    if not pinning:
        return ""
    # The innermost range tells most exactly which call it is; of several the one with most time.
    deepest = max(entry.depth for _, entry, _ in pinning)
    _, entry, part = max((item for item in pinning if item[1].depth == deepest), key=lambda item: item[0])
    calls = view.capture.manifest.scenario.get("calls") or {}
    return pin_sentence(str(calls.get(entry.name) or f"the {entry.name} range") + _emulated(view.capture), part)


def _idle(view: View) -> str:
    """What CPUs did while they did something: a recording of whole CPUs is mostly about their idling."""
    main, idle = view.main, _idling(view)
    if not idle or _leading_range(view):
        return ""
    if idle >= main.total:
        return _ALL_IDLE
    drawn = main.drawn
    busy = None if drawn is None else round(drawn * (main.total - idle) / main.total)
    if drawn is None or busy is None or busy >= MIN_SAMPLES:
        return ""
    return (
        f"There are too few samples to show where the time of busy CPUs went: {format_count(busy)} of "
        f"{format_count(drawn)}; "
        f"{MIN_SAMPLES} are needed."
    )


def _costs(view: View) -> str:
    """The levels that are about memory, largest first."""
    subject, part = _told(view)
    shares = [level for level in part.by_level if level in MEMORY_LEVELS]
    said = cost_sentence(
        subject, part, [level for level in shares if part.by_level[level] >= MENTION_SHARE * part.total]
    )
    need = unmet((STACKS, KERNEL_NAMES), view)
    if not said or need is None or not part.by_leaf.get(_UNDECIDED):
        return said
    # Functions that serve nothing but faults tell some of them; the others need callers, or names.
    return f"At least {said} It may be more, because {need.because}; {need.remedy}."


def _own_code(view: View) -> str:
    subject, part = _told(view)
    phrase, weight = _phrase(next(iter(part.by_level)), part)
    # Counts without a name may be of anything.
    provided = ", if these are samples of CPU time" if part.event.merged and part.name == part.unit else ""
    return f"{format_share(weight, part.total)} of {subject} is {phrase}; memory costs are low{provided}."


def _too_few(view: View) -> str:
    main = view.main
    if not main.too_few:
        return ""
    taken = format_count(main.drawn or 0)
    if main.unit != "ns":
        return f"There are too few samples to find the causes: {taken} of {main.name}; {MIN_SAMPLES} are needed."
    return (
        f"There are too few samples to show where the time went: {taken} of CPU time "
        f"({format_weight(main.total, 'ns')}); "
        f"{MIN_SAMPLES} are needed."
    )


def _cannot(view: View) -> str:
    """`This recording cannot show host-memory costs, because …; record with ….`, and what it shows."""
    need = unmet((*SHOWS_KERNEL, ENOUGH, WHOLE), view) or WHOLE
    remedy = need.remedy
    because = need.because.format(event=_event_words(view) if view.sampled else "")
    if need is SAMPLES and view.traced is not None:
        because = "it has neither samples nor CUDA calls"
    elif need is KERNEL_SAMPLES and view.main.event.merged:
        # Of what other tools added up only names are left.
        because, remedy = "no function in it is known to be the kernel's", STACKS.remedy
    shown = _heaviest_function(view) if view.sampled and view.sampled.total else _longest_range(view)
    said = f"This recording cannot show host-memory costs, because {because}; {remedy}."
    return f"{said} {shown}".rstrip()


def _event_words(view: View) -> str:
    """`page faults`, `wall (a time that may include waits)`."""
    part = view.main
    name = {"page-faults": "page faults"}.get(part.name, part.name)
    if any(collector.get("name") == "speedscope" for collector in view.capture.manifest.collectors):
        # There an event is a profile, called after a file or a thread.
        name = name if name == "time" else f'the profile "{name}"'
    if part.event.counted:
        return f"{name} (counted between samples)"
    if part.unit != "ns":
        return "something that it does not name" if name in (part.unit, "sample") else name
    return "a time that may include waits" if name == "time" else f"{name} (a time that may include waits)"


def _heaviest_function(view: View) -> str:
    """`93 % of its 187 ms of task-clock:u is in memset.`: true of any unit."""
    stacks, main = view.capture.stacks, view.main
    amount = format_weight(main.total, main.unit)
    if main.event.counted:
        return f"It counted {amount} of {main.name}; where is not known."
    at = np.arange(len(stacks))
    if not main.event.shows_time:
        # Inside the kernel all events of a kind happen in one place: what called it tells them apart.
        for nodes in stacks.levels():
            called = nodes[(stacks.frames.mode[stacks.frame[nodes]] == KERNEL) & (stacks.parent[nodes] != NO_NODE)]
            at[called] = at[stacks.parent[called]]
    weight = np.bincount(
        stacks.frame[at], view.capture.weight_at[view.main_number][:-1].astype(np.float64), len(stacks.frames)
    )
    named = np.array([not name.startswith("[") for name in stacks.frames.function], np.bool_)
    weight = np.where(named, weight, 0)
    if not weight.any():
        return ""
    heaviest = int(weight.argmax())
    what = amount if main.unit != "ns" and main.unit in main.name else f"{amount} of {main.name}"
    share = format_share(int(weight[heaviest]), main.total)
    return f"{share} of its {what} is in {stacks.frames.symbol[heaviest]}."


def _longest_range(view: View) -> str:
    longest = max(view.ranges, key=lambda entry: entry.wall_ns, default=None)
    if longest is None:
        return ""
    times = format_counted(longest.count, "time", "times")
    return f"Its longest range is {longest.name}: {format_ns(longest.wall_ns)}, {times}."


def _traced_calls(view: View) -> str:
    return activity_headline(view.activity, possible=DURATIONS.met(view))


HEADLINES: tuple[Statement[View], ...] = (
    Statement("pinning call", _pinning_call, INSIDE_KERNEL),
    Statement("idle CPUs", _idle, (SAMPLES, TIME)),
    Statement("costs of memory", _costs, (SAMPLES, TIME, PERMITTED, CALL_CHAINS, KERNEL_SAMPLES, ENOUGH)),
    Statement("own code", _own_code, (*KERNEL_CAUSES, WHOLE)),
    Statement("traced calls", _traced_calls, (TRACED,)),
    Statement("too few samples", _too_few, (SAMPLES, TIME, PERMITTED, CALL_CHAINS, KERNEL_SAMPLES)),
    Statement("cannot show", _cannot, ()),
)
"""In the order in which they are tried; the last one always applies."""

LEADING: tuple[Statement[View], ...] = (
    Statement("full link", lambda view: full_link(view.activity), (TRACED, *COPIES)),
)
"""What is said before any answer."""


def _closed(view: View) -> list[RangeResult]:
    """The ranges that end."""
    ranges = view.capture.ranges
    endless = {name for name, closed in zip(ranges.name, ranges.closed.tolist(), strict=True) if not closed}
    return [entry for entry in view.ranges if entry.name not in endless]


def _emulated(capture: Capture) -> str:
    return " (host emulation)" if capture.manifest.scenario.get("backend") == "host" else ""


def _leading_range(view: View) -> tuple[RangeResult, EventResult] | None:
    """The outermost range with most time, where it has enough of it."""
    main = view.main
    outer = [
        (entry, part)
        for entry in _closed(view)
        if not entry.depth and not (part := entry.event(main.event)).too_few and part.total >= RANGE_SHARE * main.total
    ]
    return max(outer, key=lambda item: item[1].total, default=None)


def _idling(view: View) -> int:
    return view.main.by_leaf.get(_IDLE, 0) if view.main.unit == "ns" else 0


def _told(view: View) -> tuple[str, EventResult]:
    """What a sentence is about, and its weights."""
    main, scenario = view.main, view.capture.manifest.scenario
    if leading := _leading_range(view):
        entry, part = leading
        name = scenario.get("name")
        return str(name or f"the {entry.name} range") + _emulated(view.capture), part
    if idle := _idling(view):
        return "the time of busy CPUs", _without_idle(main, idle)
    if main.unit == "ns":
        return "the CPU time", main
    what = "events" if main.unit == "events" else "samples"
    return f"the {main.name} {what}" if main.name != main.unit else "the samples", main


def _without_idle(part: EventResult, idle: int) -> EventResult:
    levels = {level: weight - (idle if level == "sys" else 0) for level, weight in part.by_level.items()}
    by_level = dict(sorted(((level, weight) for level, weight in levels.items() if weight), key=lambda row: -row[1]))
    return replace(part, total=part.total - idle, by_level=by_level)


def pin_sentence(call: str, part: EventResult) -> str:
    """`94 % of cudaMallocHost is pin_user_pages; 87 % is creating the pages.`"""
    sentence = f"{format_share(part.inclusive[PIN_USER_PAGES], part.total)} of {call} is pin_user_pages"
    created = part.by_leaf.get("pin.faultin", 0)
    if created >= MENTION_SHARE * part.total:
        return f"{sentence}; {format_share(created, part.total)} is creating the pages."
    return f"{sentence}, of pages that already exist."


def cost_sentence(subject: str, part: EventResult, levels: list[str]) -> str:
    """`52 % of pageable is page faults; 25 % is staging copies by the driver.`; empty without levels."""
    if not levels:
        return ""
    phrases = [_phrase(level, part) for level in levels[:2]]
    sentence = f"{format_share(phrases[0][1], part.total)} of {subject} is {phrases[0][0]}"
    if len(phrases) > 1:
        sentence += f"; {format_share(phrases[1][1], part.total)} is {phrases[1][0]}"
    return f"{sentence} ({format_weight(part.total, part.event.unit)}{' sampled' if part.event.unit == 'ns' else ''})."


def _phrase(level: str, part: EventResult) -> tuple[str, int]:
    """The level's name and weight, or those of its leaf where one leaf is nearly all of it."""
    for leaf, phrase in _LEAF_PHRASES.items():
        weight = part.by_leaf.get(leaf, 0)
        if CATEGORIES[LEAF[leaf]].level == level and weight >= 0.9 * part.by_level[level]:
            return phrase, weight
    return _LEVEL_PHRASES[level], part.by_level[level]
