"""Pages of the host's own memory: made, freed and made again; copied after a fork; of files and shared memory.

All that a page costs at one place (the fault, its entry, changes of mappings, giving it back) belongs to what is done
there with memory. The shares that a cure saves were measured (docs/opportunities.md, "What a fault really costs").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.model import Bool, Int64
from pinprof.rate_book import RUN, Estimate
from pinprof.units import format_ns, format_share

_ANONYMOUS, _FREES = ("fault.anon",), ("free.unmap", "free.shmem", "mm.vma")
_ENTRIES = ("fault.entry", "fault.core")
_LEAVES = (*_ANONYMOUS, *_ENTRIES, *_FREES, "fault.file", "fault.cow", "sys.proc")

_HUGE = re.compile(r"\w*(huge_pmd|huge_page|folio_zero_user|clear_subpage|clear_gigantic)\w*")
_FORK = re.compile(
    r"(copy_page_range|dup_mmap|copy_process|dup_mm|exec_mmap|begin_new_exec|_?_?(libc_)?v?fork)(\.\w+)*"
)
_SHARED = re.compile(r"shmem_\w+(\.\w+)*")
_COPIES = re.compile(r"(do_cow_fault|copy_mc_\w+|wp_page_copy|do_wp_page|__wp_page_copy_user)(\.\w+)*")

LEAST_FREED = 0.05
"""Of what pages cost at a place: where less is spent on giving memory back, it is made once and kept."""
LEAST_SHARE = 0.05
"""Of the work: what settings of the allocator and huge pages save is not worth a line below that."""


@dataclass(frozen=True)
class _Kind:
    """What is done with memory at a place, and the share of its cost that the cure saves: low, likely, high."""

    cure: str
    what: str
    small: tuple[float, float, float]
    huge: tuple[float, float, float] = (0.0, 0.2, 0.9)
    """Zeroing a huge page brings it into the cache, which the first writes would have to do otherwise."""


_AGAIN = _Kind("reuse-memory", "fills new memory each time.", (0.77, 0.9, 1.0))
_ONCE = _Kind("huge-pages", "fills large memory page by page.", (0.5, 0.7, 0.85), (0.0, 0.0, 0.0))
_FORKS = _Kind("spawn", "forks while it has much memory: page tables are copied and torn down again.", (0.7, 0.9, 1.0))
_COW = _Kind("spawn", "writes memory that a fork shares: each page is copied at its first write.", (0.8, 0.91, 1.0))
_PRIVATE = _Kind("read-file", "writes to a private mapping of a file: each page is copied first.", (0.7, 0.85, 0.95))
_SHARES = _Kind("reuse-shared-memory", "fills new shared memory each time.", (0.8, 0.9, 0.95))
_MAPS = _Kind("map-at-once", "maps a file and touches it page by page.", (0.3, 0.6, 0.85))


def page_costs(scene: Scene) -> Iterator[Candidate]:
    """What pages cost outside CUDA's calls, by the place of the program that it belongs to."""
    rows = np.flatnonzero(scene.caused_by(*_LEAVES) & scene.in_work() & ~_inside_calls(scene))
    fork = scene.has(_FORK)
    rows = rows[~scene.caused_by("sys.proc")[rows] | fork[rows]]
    marks = _Marks(scene.has(_HUGE), fork, scene.has(_SHARED), scene.has(_COPIES) | scene.caused_by("fault.cow"))
    for group in _with_their_frees(scene, marks, scene.by_place(rows)):
        kind = _kind(scene, marks, group)
        huge = scene.ns(group[marks.huge[group]])
        small = scene.ns(group) - huge
        likely, low, high = (kind.small[number] * small + kind.huge[number] * huge for number in (1, 0, 2))
        if likely < LEAST_SHARE * scene.phase_ns("work"):
            continue
        yield _candidate(scene, kind, group, Estimate(
            small + huge - likely, small + huge - high, small + huge - low, RUN
        ))  # fmt: skip


@dataclass(frozen=True)
class _Marks:
    """Per wall row what its stack says."""

    huge: Bool
    fork: Bool
    shared: Bool
    copies: Bool


def _with_their_frees(scene: Scene, marks: _Marks, groups: Iterable[Int64]) -> Iterator[Int64]:
    """The groups in which pages are made; those that give them back elsewhere count for the heaviest of these."""
    faulting: list[Int64] = []
    freeing: list[Int64] = []
    frees = scene.caused_by(*_FREES) & ~marks.fork
    for group in groups:
        (freeing if scene.ns(group[frees[group]]) > 0.8 * scene.ns(group) else faulting).append(group)
    faulting.sort(key=lambda group: (bool(marks.fork[group].mean() > 0.5), -scene.ns(group)))
    if faulting and freeing:
        faulting[0] = np.sort(np.concatenate([faulting[0], *freeing]))
    return iter(faulting or freeing)


def _kind(scene: Scene, marks: _Marks, group: Int64) -> _Kind:
    """What most of the time at this place says."""
    cost = max(scene.ns(group), 1)
    freed = scene.ns(group[scene.caused_by(*_FREES)[group]])
    faults = group[scene.caused_by("fault.anon", "fault.file", "fault.cow")[group]]
    kinds = {
        "file": scene.ns(faults[scene.caused_by("fault.file")[faults] & ~marks.copies[faults]]),
        "copies": scene.ns(faults[marks.copies[faults]]),
        "anonymous": scene.ns(faults[scene.caused_by("fault.anon")[faults] & ~marks.copies[faults]]),
        "fork": scene.ns(group[marks.fork[group]]),
    }
    most = max(kinds, key=lambda name: kinds[name])
    if most == "fork":
        return _FORKS
    if most == "copies":
        return _COW if _forks(scene) else _PRIVATE
    if most == "file":
        freed_shared = scene.ns(group[scene.caused_by("free.shmem")[group]])
        shared = 2 * scene.ns(faults[marks.shared[faults]]) > kinds["file"] or freed_shared >= LEAST_FREED * cost
        return _SHARES if shared and freed >= LEAST_FREED * cost else _MAPS
    return _AGAIN if freed >= LEAST_FREED * cost else _ONCE


def _forks(scene: Scene) -> bool:
    """Whether the program has child processes."""
    pids = np.unique(scene.capture.samples.pid)
    return bool(len(pids[pids > 0]) > 1)


def _candidate(scene: Scene, kind: _Kind, group: Int64, remains: Estimate) -> Candidate:
    site, cost = scene.site_of(group), scene.ns(group)
    causes = scene.causes(group)
    first = ", ".join(f"{name} {format_ns(ns)}" for name, ns in list(causes.items())[:4])
    return Candidate(
        title=f"{scene.subject(group, site)} {kind.what}",
        site=site,
        phase="work",
        rows=group,
        cost_ns=cost,
        remains=remains,
        cure=cure(kind.cure, scene.framework),
        basis=(f"Pages cost {format_ns(cost)} there: {first}.",),
        evidence=(Evidence(f"{format_share(cost, max(scene.phase_ns('work'), 1))} of the work is this."),),
    )


def _inside_calls(scene: Scene) -> Bool:
    """Per wall row, whether it lies in a call of CUDA: other detectors have those."""
    inside = np.zeros(len(scene.course.wall), np.bool_)
    if scene.calls is not None and len(scene.calls.table):
        inside[scene.rows_inside(np.arange(len(scene.calls.table)))] = True
    return inside
