"""The answer in one sentence: what the time of the most telling range is."""

from __future__ import annotations

from dataclasses import replace

from pinprof.analyze.attribution.attribute import PIN_USER_PAGES
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF, LEVELS
from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.results import EventResult, RangeResult, judged_event
from pinprof.analyze.visible import lacking
from pinprof.base.units import format_count, format_share, format_weight
from pinprof.data.model import Capture

PIN_SHARE = 0.5
"""From this share of pinning on, the headline calls a range a pinning call."""

RANGE_SHARE = 0.05
"""Ranges with less of the recording's time than this are not worth a headline."""

MENTION_SHARE = 0.10
"""A second cause is named from this share on."""

MEMORY_LEVELS = ("pin", "fault", "uvm", "dma", "free", "copy", "sync", "rm")
"""Levels that are about memory or the driver: named before the program's own code."""

_IDLE = "sys.idle"
_ALL_IDLE = "All CPUs were idle."
_NOTHING_STANDS_OUT = "; memory costs are low"
_LEVEL_PHRASES = {**dict(LEVELS), "pin": "pinning", "uvm": "unified memory", "user": "the program's own code"}
_LEAF_PHRASES = {
    "copy.staging": "staging copies by the driver",
    "sync.poll": "waiting for the GPU in a spin loop",
    "uvm.cpu_fault": "CPU faults on managed memory",
    "uvm.gpu_fault": "GPU faults on managed memory",
    "uffd.service": "userfaultfd filling pages",
    "free.shmem": "freeing shared pages",
}


def headline(capture: Capture, events: tuple[EventResult, ...], ranges: tuple[RangeResult, ...]) -> str:
    """One sentence, never empty: of a pinning call if there is one, else of the outermost range, else of all time."""
    endless = {
        name for name, closed in zip(capture.ranges.name, capture.ranges.closed.tolist(), strict=True) if not closed
    }
    main = judged_event(events)
    if main is None:
        return "This recording has no samples."
    if main.too_few:
        return too_few_sentence(main)
    sentence = _headline(capture, main, tuple(entry for entry in ranges if entry.name not in endless))
    if capture.manifest.kernel_left_out:
        return (
            f"The kernel was not sampled, so memory costs are not visible: {sentence.replace(_NOTHING_STANDS_OUT, '')}"
        )
    if _NOTHING_STANDS_OUT in sentence and (what := lacking(capture, capture.events.index(main.event))):
        return f"Without {what} memory costs are not visible: {sentence.replace(_NOTHING_STANDS_OUT, '')}"
    return sentence


def too_few_sentence(main: EventResult) -> str:
    """`There are too few samples to show where the time went: 19 of CPU time (19 ms); 97 are needed.`"""
    taken = format_count(main.drawn or 0)
    if main.unit != "ns":
        return f"There are too few samples to find the causes: {taken} of {main.name}; {MIN_SAMPLES} are needed."
    return (
        f"There are too few samples to show where the time went: {taken} of CPU time "
        f"({format_weight(main.total, 'ns')}); "
        f"{MIN_SAMPLES} are needed."
    )


def _headline(capture: Capture, main: EventResult, ranges: tuple[RangeResult, ...]) -> str:
    scenario = capture.manifest.scenario
    calls = scenario.get("calls") or {}
    emulated = " (host emulation)" if scenario.get("backend") == "host" else ""
    pinning = [
        (part.total, entry, part)
        for entry in ranges
        if (part := entry.event(main.event)).total >= RANGE_SHARE * main.total
        and not part.too_few
        and part.inclusive[PIN_USER_PAGES] >= PIN_SHARE * part.total
    ]
    if pinning:
        # The innermost range tells most exactly which call it is; of several the one with most time.
        deepest = max(entry.depth for _, entry, _ in pinning)
        _, entry, part = max((item for item in pinning if item[1].depth == deepest), key=lambda item: item[0])
        return pin_sentence(str(calls.get(entry.name) or f"the {entry.name} range") + emulated, part)
    outer = [
        (part.total, entry, part)
        for entry in ranges
        if not entry.depth and not (part := entry.event(main.event)).too_few
    ]
    largest = max(outer, key=lambda item: item[0], default=None)
    if largest and largest[0] >= RANGE_SHARE * main.total:
        _, entry, part = largest
        name = scenario.get("name")
        subject = str(name) if name else f"the {entry.name} range"
        return share_sentence(subject + emulated, part)
    if main.event.unit == "ns" and (idle := main.by_leaf.get(_IDLE, 0)):
        return _busy_sentence(main, idle)
    if main.event.unit == "ns":
        return share_sentence("the CPU time", main)
    return share_sentence(
        f"the {main.event.name} {'events' if main.event.unit == 'events' else 'samples'}"
        if main.event.name != main.event.unit
        else "the samples",
        main,
    )


def _busy_sentence(main: EventResult, idle: int) -> str:
    """What CPUs did while they did something: a recording of whole CPUs is mostly about their idling."""
    if idle >= main.total:
        return _ALL_IDLE
    drawn = main.drawn
    busy = None if drawn is None else round(drawn * (main.total - idle) / main.total)
    if drawn is not None and busy is not None and busy < MIN_SAMPLES:
        return (
            f"There are too few samples to show where the time of busy CPUs went: {format_count(busy)} of "
            f"{format_count(drawn)}; "
            f"{MIN_SAMPLES} are needed."
        )
    return share_sentence("the time of busy CPUs", _without_idle(main, idle))


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


def share_sentence(subject: str, part: EventResult) -> str:
    """`52 % of pageable is page faults; 25 % is staging copies by the driver.`"""
    shares = [(level, part.by_level[level]) for level in part.by_level if level in MEMORY_LEVELS]
    shares = [(level, weight) for level, weight in shares if weight >= MENTION_SHARE * part.total]
    if not shares:
        level, weight = next(iter(part.by_level.items()))
        return f"{format_share(weight, part.total)} of {subject} is {_LEVEL_PHRASES[level]}{_NOTHING_STANDS_OUT}."
    phrases = [_phrase(level, part) for level, _ in shares[:2]]
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
