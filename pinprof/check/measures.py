"""How much of what a budget limits one run shows: one function for each measure, all in `MEASURES`.

A measure says nothing rather than something wrong: what the run does not tell raises `Unassessable`, and what may be
more than was seen says so (`Amount.missing`). So a mistyped range, a program without CUDA or a recording that looked
away never pass for a budget that holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pinprof.analyze.activity.calls import Calls, size_class
from pinprof.analyze.activity.transfers import PAGEABLE_ASYNC_BYTES
from pinprof.analyze.allocations.levels import StepFunction, of_kinds
from pinprof.analyze.allocations.results import HOST_KINDS, KINDS
from pinprof.analyze.opportunities.catalogue import CURES
from pinprof.analyze.rules.needs import SEES_KERNEL, WHOLE
from pinprof.analyze.rules.rule import unmet
from pinprof.analyze.rules.rules import RULES
from pinprof.base.columns import Bool, Int64
from pinprof.base.units import parse_bytes
from pinprof.check.budgets import Budget
from pinprof.check.times import cpu_time, share, time
from pinprof.check.verdicts import JudgedSite
from pinprof.check.view import ALLOCATIONS, COPYING, Amount, RunView, Unassessable, nearest
from pinprof.data.activity import CopyKind, MemoryKind
from pinprof.data.gpu_functions import FUNCTIONS, PURPOSES, Allocated, Purpose

_SIZED: tuple[Purpose, ...] = ("alloc device", "alloc pinned", "alloc managed", "register", "copy", "set", "prefetch")
"""Purposes of calls that have a size."""
_COUNTED_SEVERITIES = ("critical", "warning")
_SEVERITIES = ("critical", "warning", "info")
_PAIR_KINDS: Mapping[str, tuple[Allocated, ...]] = MappingProxyType(
    {"pinned": ("pinned",), "registered": ("registered",), "device": ("device", "pool"), "managed": ("managed",)}
)
"""Kind of a pair → the ledger's kinds."""


def calls(view: RunView, budget: Budget) -> Amount:
    """CUDA calls that were recorded."""
    made = view.calls
    table = made.table
    mine = view.inside(budget, table.start_ns, table.pid)
    if budget.call:
        named = view.calls_of(budget.call)
        if not named.any() and budget.limit and not budget.relative:
            raise Unassessable(
                f"The run makes no call of {budget.call}.",
                "Name a call that it makes, or allow none with a limit of 0.",
            )
        mine &= named
    if budget.kind:
        mine &= _for_purpose(made, budget.kind)
    missing = view.missing()
    if budget.size:
        sized = mine & made.is_for(*_SIZED) & (table.status == 0)
        unknown = int((made.size_bytes[sized] < 0).sum())
        if unknown and not missing:
            missing = f"The sizes of {unknown:,} of these calls were not recorded, so there may be more of this size."
        mine = sized & _of_size(made.size_bytes, budget)
    row = np.flatnonzero(mine)
    return Amount(len(row), sites=view.sites_of_calls(row, np.ones(len(row))), missing=missing)


def _for_purpose(made: Calls, kind: str) -> Bool:
    if kind not in PURPOSES:
        raise Unassessable(f"There are no CUDA calls of kind {kind!r}.", nearest(kind, PURPOSES, "kinds"))
    found = made.is_for(kind)
    if not found.any() and kind not in {role.purpose for role in FUNCTIONS.values() if role.traced}:
        raise Unassessable(
            f"The recording can't show calls of kind {kind!r}, because they are too frequent to trace.",
            "Use a kind that is traced: allocations, copies or waits.",
        )
    return found


def _of_size(size_bytes: Int64, budget: Budget) -> Bool:
    return np.asarray(size_class(size_bytes) == math.ceil(math.log2(parse_bytes(budget.size.replace(" ", "")))))


def pinned_bytes(view: RunView, budget: Budget) -> Amount:
    """The most page-locked memory at once, and who held it then."""
    table = of_kinds(view.allocations, HOST_KINDS)
    mine = view.inside(budget, table.start_ns, table.pid)
    # What was held when it began, and what was reached inside.
    times = np.concatenate([table.start_ns[mine], _begin(view, budget)])
    if not len(times):
        return Amount(0.0, missing=view.missing(*ALLOCATIONS))
    level = StepFunction.of(table, table.size_bytes).at(times)
    peak = int(times[level.argmax()])
    live = np.flatnonzero((table.start_ns <= peak) & (table.end_ns > peak))
    sites = view.sites_of_calls(table.call[live], table.size_bytes[live].astype(np.float64))
    return Amount(float(level.max()), sites=sites, missing=view.missing(*ALLOCATIONS))


def _begin(view: RunView, budget: Budget) -> Int64:
    """When the range or phase of a budget begins, each time."""
    if budget.range:
        return view.capture.ranges.start_ns[view.chosen(budget)]
    if budget.phase:
        return np.array([part.start_ns for part in view.phase(budget.phase).intervals], np.int64)
    return np.zeros(0, np.int64)


def pairs(view: RunView, budget: Budget) -> Amount:
    """Memory that was allocated and freed again, where it was allocated."""
    table = of_kinds(view.allocations, _PAIR_KINDS.get(budget.kind, KINDS))
    # That an address is given back is certain; what gives back memory of unknown address is inferred.
    mine = (table.freed > 0) & (table.address > 0) & view.inside(budget, table.start_ns, table.pid)
    if budget.kind and budget.kind not in _PAIR_KINDS:
        raise Unassessable(f"No pairs are {budget.kind!r}.", nearest(budget.kind, _PAIR_KINDS, "kinds"))
    if budget.size:
        mine &= _of_size(table.size_bytes, budget)
    row = np.flatnonzero(mine)
    sites = view.sites_of_calls(table.call[row], np.ones(len(row)))
    return Amount(len(row), sites=sites, missing=view.missing(*ALLOCATIONS), remedy=_cure(view, sites))


def pageable_bytes(view: RunView, budget: Budget) -> Amount:
    """Bytes copied between the device and pageable memory."""
    mine = _pageable(view, budget)
    copies = view.copies
    unsized = int((copies.size_bytes[mine] < 0).sum())
    row = np.flatnonzero(mine & (copies.size_bytes >= 0))
    size = copies.size_bytes[row]
    missing = view.missing(*COPYING) or _unknown(view, budget)
    if unsized and not missing:
        missing = f"The sizes of {unsized:,} such copies were not recorded."
    sites = view.sites_of_calls(copies.call[row], size.astype(np.float64))
    return Amount(float(size.sum()), sites=sites, missing=missing, remedy=_PIN if len(row) else "")


def pageable_async_calls(view: RunView, budget: Budget) -> Amount:
    """Copies that promise to return at once and cannot, since their host memory is pageable."""
    copies = view.copies
    small = (copies.direction == CopyKind.HOST_TO_DEVICE) & (copies.size_bytes <= PAGEABLE_ASYNC_BYTES)
    small &= copies.size_bytes >= 0
    row = np.flatnonzero(_pageable(view, budget) & copies.asynchronous & ~small)
    sites = view.sites_of_calls(copies.call[row], np.ones(len(row)))
    missing = view.missing(*COPYING) or _unknown(view, budget)
    return Amount(len(row), sites=sites, missing=missing, remedy=_PIN if len(row) else "")


_PIN = "Copy from and to pinned memory that you keep: pin_memory, cudaHostAlloc."


def _of_host(view: RunView, kind: MemoryKind) -> Bool:
    """Which copies have this kind of memory at the host's end."""
    copies = view.copies
    host = np.where(copies.direction == CopyKind.HOST_TO_DEVICE, copies.source, copies.target)
    return np.asarray(host == kind)


def _scope_of_copies(view: RunView, budget: Budget) -> Bool:
    copies = view.copies
    mine = view.inside(budget, copies.start_ns, copies.pid)
    return mine & _of_size(copies.size_bytes, budget) if budget.size else mine


def _pageable(view: RunView, budget: Budget) -> Bool:
    return np.asarray(_scope_of_copies(view, budget) & _of_host(view, MemoryKind.PAGEABLE))


def _unknown(view: RunView, budget: Budget) -> str:
    count = int((_scope_of_copies(view, budget) & _of_host(view, MemoryKind.UNKNOWN)).sum())
    return f"The recording does not say whether the memory of {count:,} copies is pageable." if count else ""


def page_faults(view: RunView, budget: Budget) -> Amount:
    """The kernel's count of the run; of a part of it an estimate from samples."""
    capture = view.capture
    number = next((number for number, event in enumerate(capture.events) if event.unit == "faults"), None)
    sites: tuple[JudgedSite, ...] = ()
    note, value, error = "", 0.0, 0.0
    if number is not None:
        samples, events = capture.samples, view.analysis.members.samples
        row = np.flatnonzero(
            (samples.event == number) & view.inside(budget, samples.time_ns, samples.pid, events.kernel_thread)
        )
        weight = samples.weight[row]
        value, sites = float(weight.sum()), view.sites_of_samples(row, weight)
        period = capture.events[number].period or (int(np.median(weight)) if len(weight) else 1)
        error = view.edge_error(budget, row, period)
        note = f"an estimate from {len(row):,} samples" if period > 1 else ""
    counted = None if budget.range or budget.phase else _counted_faults(view)
    if counted is not None:
        return Amount(float(counted), sites=sites)
    if number is None:
        raise Unassessable("The recording has no page faults.", "Record the program with pinprof.")
    lost = "Samples were lost, so there may have been more." if capture.losses.lost_samples else ""
    return Amount(value, error, sites, lost, note=note)


def _counted_faults(view: RunView) -> int | None:
    """The program and the processes it waited for (getrusage(2)); None where the recorder did not start it."""
    used = view.capture.manifest.outcome.get("resources")
    found = [used.get(name) for name in ("minor_faults", "major_faults")] if isinstance(used, Mapping) else []
    whole = [count for count in found if isinstance(count, int)]
    return sum(whole) if len(whole) == 2 else None


def opportunities(view: RunView, budget: Budget) -> Amount:
    """The low end of what the largest opportunity saves."""
    found = view.analysis.opportunities
    if found is None or (not found.found and not found.headline):
        raise Unassessable(
            "The recording has too little data to predict savings.", " ".join(found.unseen[:1]) if found else ""
        )
    known = list(CURES)
    if budget.kind and budget.kind not in known:
        raise Unassessable(f"There is no cure {budget.kind!r}.", nearest(budget.kind, known, "cures"))
    if budget.range:
        view.chosen(budget)
    if budget.phase:
        view.phase(budget.phase)
    mine = [
        one for one in found.found
        if budget.kind in ("", one.cure.id) and budget.phase in ("", one.phase)
        and (not budget.range or budget.range in (one.site.range, *one.site.range.split(" > ")))
    ]  # fmt: skip
    mine.sort(key=lambda one: -one.saving.low_ns)
    blind = unmet((*SEES_KERNEL, WHOLE), view.analysis.view)
    missing = f"There may be more: {blind.because}." if blind else ""
    sites = tuple(view.site(one.site, one.saving.low_ns) for one in mine if one.site.place)
    largest = mine[0] if mine else None
    return Amount(
        float(largest.saving.low_ns) if largest else 0.0,
        sites=sites,
        missing=missing,
        note=f"{largest.title.rstrip('.')}" if largest else "",
        remedy=largest.cure.text if largest else "",
    )


def findings(view: RunView, budget: Budget) -> Amount:
    """Rules that fired."""
    found = view.analysis.findings
    rules = list(dict.fromkeys(rule.name for rule in RULES))
    if budget.kind and budget.kind not in (*rules, *_SEVERITIES):
        raise Unassessable(
            f"There is no rule or severity {budget.kind!r}.", nearest(budget.kind, (*_SEVERITIES, *rules), "rules")
        )
    if budget.kind in rules:
        mine = [one for one in found if one.rule == budget.kind]
    else:
        wanted = (budget.kind,) if budget.kind else _COUNTED_SEVERITIES
        mine = [one for one in found if one.severity in wanted or one.status == "not-assessable"]
    fired = [one for one in mine if one.status == "fired"]
    blind = [one for one in mine if one.status == "not-assessable"]
    if len(blind) == len(mine) and (budget.kind in rules or len(blind) == len(found)):
        lacks = next((one.missing for one in blind if one.missing), "")
        raise Unassessable("The recording has too little data for a verdict.", f"It needs: {lacks}" if lacks else "")
    note = "; ".join(one.rule for one in fired)
    return Amount(len(fired), note=note, remedy=next((one.advice for one in fired if one.advice), ""))


def _cure(view: RunView, sites: tuple[JudgedSite, ...]) -> str:
    """What the opportunity at the largest of these sites says to change; empty without one there."""
    found = view.analysis.opportunities
    if found is None or not sites:
        return ""
    place = (sites[0].file, sites[0].line)
    return next((one.cure.text for one in found.found if (one.site.file, one.site.line) == place), "")


MEASURES: Mapping[str, Callable[[RunView, Budget], Amount]] = MappingProxyType(
    {
        "calls": calls,
        "pinned-bytes": pinned_bytes,
        "pairs": pairs,
        "pageable-bytes": pageable_bytes,
        "pageable-async-calls": pageable_async_calls,
        "page-faults": page_faults,
        "opportunities": opportunities,
        "findings": findings,
        "time": time,
        "cpu-time": cpu_time,
        "share": share,
    }
)
"""Key of `budgets.LIMITED` → how it is taken from a run; Unassessable where the run does not tell it."""
