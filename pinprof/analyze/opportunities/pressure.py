"""The kernel's own work on memory in the way of the program: freeing it, moving it for huge pages, balancing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate, sampled, share_of_own_time
from pinprof.analyze.opportunities.page_marks import HUGE
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_ns
from pinprof.data.model import Bool, Int64

_OF_GROUP = re.compile(r"(try_to_free_mem_cgroup_pages|(__)?mem_cgroup_handle_over_high|reclaim_high)(\.\w+)*")
"""Memory is freed since a control group has reached its limit."""
_OF_MACHINE = re.compile(r"(try_to_free_pages|__alloc_pages_direct_reclaim|throttle_direct_reclaim)(\.\w+)*")
"""Memory is freed since the machine has none left."""
_COMPACTS = re.compile(r"(try_to_compact_pages|compact_zone\w*|__alloc_pages_direct_compact)(\.\w+)*")
LEAST_SEEN = 5
"""Samples: fewer of them may be chance."""
_BLOCK = 64 << 20
"""Bytes whose first writes are compared, in huge pages and in small ones."""
_SMALL = 0.5
"""The part of the huge pages that become small ones: anything from none to all, and not recorded."""
PRESSED = 0.2
"""The share of what pages cost at a place: where the kernel takes as much to find memory, huge pages do not help."""


@dataclass(frozen=True)
class _Kind:
    """What the kernel does, and the share of its cost that remains with the cure: likely, low, high."""

    cure: str
    what: str
    why: str
    remains: tuple[float, float, float]


_LIMIT = _Kind(
    "memory-limit",
    "waits while the kernel frees memory, because its control group has reached its memory limit.",
    "With a higher limit, or less memory in use, the kernel frees nothing here.",
    (0.0, 0.0, 0.3),
)
_NONE_LEFT = _Kind(
    "memory-limit",
    "waits while the kernel frees memory, because the machine has none left.",
    "With more memory, or less of it in use, the kernel frees nothing here.",
    (0.0, 0.0, 0.3),
)
_COMPACTION = _Kind(
    "defer-compaction",
    "waits while the kernel moves or frees other pages to make room for huge ones.",
    "Small pages take their place until the kernel has made room in the background.",
    (0.1, 0.0, 0.4),
)
_BALANCING = _Kind(
    "bind-memory",
    "pays for NUMA balancing: the kernel takes pages away to see who uses them, and moves them.",
    "Memory that is bound to a node stays where it is.",
    (0.1, 0.0, 0.3),
)


def memory_pressure(scene: Scene) -> Iterator[Candidate]:
    """What the kernel does before the program gets memory, by the place of the program that waits for it."""
    for kind, mask in _kinds(scene):
        for group in scene.by_place(np.flatnonzero(mask & scene.in_own())):
            if len(group) >= LEAST_SEEN or scene.waits()[group].any():
                yield _candidate(scene, kind, group)


def _kinds(scene: Scene) -> Iterator[tuple[_Kind, Bool]]:
    limited = frees(scene) & scene.has(_OF_GROUP)
    # For a small page, memory has to be short; for a huge one, it may lie in pieces.
    for_huge = frees(scene) & ~limited & scene.has(HUGE)
    yield _LIMIT, limited
    yield _NONE_LEFT, frees(scene) & ~limited & ~for_huge
    yield _COMPACTION, _compacts(scene) | for_huge
    yield _BALANCING, scene.caused_by("fault.numa", "sys.numa")


def frees(scene: Scene) -> Bool:
    """Per wall row, whether the kernel frees memory there before the program goes on."""
    caused = scene.caused_by("fault.reclaim", "sys.reclaim", "wait.reclaim")
    return caused & (scene.has(_OF_GROUP) | scene.has(_OF_MACHINE)) & ~_compacts(scene)


def _compacts(scene: Scene) -> Bool:
    return scene.has(_COMPACTS) & scene.caused_by("fault.compact", "sys.reclaim", "wait.reclaim")


def pressed(scene: Scene, place: Int64) -> bool:
    """Whether the kernel takes long to find memory at the place of these wall rows."""
    where = ascending(scene.place[place])
    finds = (frees(scene) | _compacts(scene)) & np.isin(scene.place, where)
    return scene.ns(np.flatnonzero(finds)) >= PRESSED * max(scene.ns(place), 1)


def limit_of(scene: Scene) -> tuple[Evidence, ...]:
    """The limit of the program's control group, where the capture knows one."""
    limit = scene.capture.manifest.host.get("memory_limit_bytes")
    return (Evidence(f"The control group may use {format_bytes(limit)} of memory."),) if limit else ()


def limits(scene: Scene, rows: Int64) -> bool:
    """Whether memory is freed in most of these wall rows since a control group has reached its limit."""
    return 2 * scene.ns(rows[scene.has(_OF_GROUP)[rows]]) > scene.ns(rows)


def _candidate(scene: Scene, kind: _Kind, group: Int64) -> Candidate:
    site = scene.site_of(group)
    found = sampled(
        scene,
        group,
        site,
        f"{scene.subject(group, site)} {kind.what}",
        kind.cure,
        kind.remains,
        kind.why,
        share_of_own_time(scene, scene.ns(group)),
        *(limit_of(scene) if kind is _LIMIT else ()),
    )
    return _with_small_pages(scene, found) if kind is _COMPACTION else found


def _with_small_pages(scene: Scene, found: Candidate) -> Candidate:
    """The candidate with what small pages cost more than the huge ones that its place gets: at most all are small."""
    here = np.isin(scene.place, ascending(scene.place[found.rows])) & scene.caused_by("fault.anon")
    huge = scene.ns(np.flatnonzero(here & scene.has(HUGE)))
    small, large = (scene.rates.cost(rate, _BLOCK) for rate in ("touch.first", "touch.huge"))
    if small is None or large is None or not large.ns or not huge:
        return found
    more = max(small.ns / large.ns - 1, 0.0) * huge
    remains = found.remains
    remains = replace(remains, ns=remains.ns + _SMALL * more, high_ns=remains.high_ns + more)
    said = (
        f"Small pages in place of all huge ones take {format_ns(round(more))} more ({small.source}); of half of them is"
        " the estimate, since the kernel goes on giving huge pages where it has some."
    )
    return replace(found, remains=remains, basis=(*found.basis, said))
