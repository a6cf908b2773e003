"""Pages of the host's own memory: made, freed and made again; copied after a fork; mapped from files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.model import Bool, Int64
from pinprof.rate_book import RUN, Estimate
from pinprof.units import format_ns, format_share

SMALL_SHARE, HUGE_SHARE, FREE_SHARE = 0.8, 0.15, 0.9
"""What reuse saves of the time in faults of small and of huge pages, and in giving memory back (docs/opportunities.md):
zeroing a page brings it into the cache, which the first write would otherwise have to do."""
BY_HUGE_SHARE = 0.7
"""What huge pages save of the time in faults of small ones."""
ERROR = 0.3
LEAST_FREED = 0.05
"""Of the time in faults: where less is spent on giving memory back, it is made once and kept."""

_FAULTS = ("fault.anon", "fault.core", "fault.entry")
_FREES = ("free.unmap",)
_HUGE = re.compile(r"\w*(huge_pmd|huge_page|folio_zero_user|clear_subpage|clear_gigantic)\w*")


def made_again(scene: Scene) -> Iterator[Candidate]:
    """Memory that faults in small pages, or that is given back and made again, by the place that writes it."""
    work = scene.in_work() & ~_inside_calls(scene)
    rows = np.flatnonzero(scene.caused_by(*_FAULTS) & work)
    freeing = np.flatnonzero(scene.caused_by(*_FREES) & work)
    if not len(rows):
        return
    huge = _huge(scene)
    again = scene.ns(freeing) >= LEAST_FREED * scene.ns(rows)
    for number, group in enumerate(scene.by_place(rows)):
        small_ns, huge_ns = scene.ns(group[~huge[group]]), scene.ns(group[huge[group]])
        # Memory is freed elsewhere than it is filled: its cost belongs to the place with most faults.
        freed = freeing if number == 0 and again else freeing[np.isin(scene.place[freeing], scene.place[group])]
        cost = small_ns + huge_ns + scene.ns(freed)
        if again:
            saved, name, what = SMALL_SHARE * small_ns + HUGE_SHARE * huge_ns, "reuse-memory", "new memory each time"
            saved += FREE_SHARE * scene.ns(freed)
        else:
            saved, name, what = BY_HUGE_SHARE * small_ns, "huge-pages", "large memory page by page"
        remains = cost - saved
        site = scene.site_of(group)
        both = np.sort(np.concatenate([group, freed])) if again else group
        yield Candidate(
            title=f"{site.place} fills {what}.",
            site=site,
            phase="work",
            rows=np.unique(both),
            cost_ns=cost,
            remains=Estimate(remains, max(remains - ERROR * saved, 0), remains + ERROR * saved, RUN),
            cure=cure(name, scene.framework),
            basis=(
                (
                    f"Faults take {format_ns(small_ns)} with small pages and {format_ns(huge_ns)} with huge ones,"
                    f" giving memory back {format_ns(scene.ns(freed))}."
                    ""
                ),
            ),
            evidence=(Evidence(f"{format_share(cost, max(scene.phase_ns('work'), 1))} of the work is this."),),
        )


def copied_on_write(scene: Scene) -> Iterator[Candidate]:
    """Pages that are copied because a fork shares them, by the place that writes them."""
    rows = np.flatnonzero(scene.caused_by("fault.cow"))
    yield from _by_share(
        scene, rows, "spawn", 0.9, "writes memory that a fork shares, and each page is copied at its first write."
    )


def mapped(scene: Scene) -> Iterator[Candidate]:
    """Files and shared memory that fault in page by page, by the place that touches them."""
    rows = np.flatnonzero(scene.caused_by("fault.file") & scene.in_work() & ~_inside_calls(scene))
    yield from _by_share(scene, rows, "map-at-once", 0.6, "touches a mapped file or shared memory page by page.")


def _by_share(scene: Scene, rows: Int64, name: str, share: float, what: str) -> Iterator[Candidate]:
    if not len(rows):
        return
    for group in scene.by_place(rows):
        cost, site = scene.ns(group), scene.site_of(group)
        yield Candidate(
            title=f"{site.place} {what}",
            site=site,
            phase=scene.phase_of(group),
            rows=group,
            cost_ns=cost,
            remains=Estimate((1 - share) * cost, (1 - share) * 0.5 * cost, (1 - share / 2) * cost, RUN),
            cure=cure(name, scene.framework),
            evidence=(Evidence(f"These faults take {format_ns(cost)}."),),
        )


def _huge(scene: Scene) -> Bool:
    """Per wall row, whether its fault made a huge page."""
    stacks = scene.capture.stacks
    named = np.array([_HUGE.fullmatch(name) is not None for name in stacks.frames.symbol], np.bool_)
    huge = np.zeros(len(stacks) + 1, np.bool_)
    for nodes in stacks.levels():
        huge[nodes] = named[stacks.frame[nodes]] | huge[stacks.parent[nodes]]
    return np.asarray(huge[scene.node])


def _inside_calls(scene: Scene) -> Bool:
    """Per wall row, whether it lies in a call of CUDA: other detectors have those."""
    inside = np.zeros(len(scene.course.wall), np.bool_)
    if scene.calls is not None and len(scene.calls.table):
        inside[scene.rows_inside(np.arange(len(scene.calls.table)))] = True
    return inside
