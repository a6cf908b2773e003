"""Files that do not lie in memory: a touch of a mapped page, or a read, waits for the disk."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pinprof.analyze.course.labels import START_UP, phase_labels
from pinprof.analyze.opportunities.candidate import Candidate, sampled
from pinprof.analyze.opportunities.fault_addresses import mapped_at, mostly
from pinprof.analyze.opportunities.pressure import LEAST_SEEN, frees, limit_of, limits
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import distinct
from pinprof.base.units import format_counted, format_ns
from pinprof.data.mapped import Mapped
from pinprof.data.model import Bool, Int64

_TOUCHES = re.compile(r"filemap_fault(\.\w+)*")
_READS = re.compile(r"(filemap_read_folio|\w*read_?ahead\w*|page_cache_\w*ra\w*|\w+_readpages|read_pages)(\.\w+)*")
_OF_CALL = re.compile(r"(filemap_read|generic_file_buffered_read|do_generic_file_read)(\.\w+)*")
"""A read through the page cache."""
_ONE_BY_ONE = re.compile(r"filemap_read_folio(\.\w+)*")
"""The kernel reads what is touched and nothing ahead of it."""
_OF_FAULT = ("fault.file", "fault.core", "fault.entry", "fault.reclaim", "wait.reclaim")
_ALONE = (0.06, 0.02, 0.3)
"""What remains of reading page by page if all is read ahead: likely, least, most. Measured on a virtual disk: 0.03."""
_AHEAD = (0.7, 0.3, 1.0)
"""The same where the kernel reads ahead already; measured: 0.43 to 1.0."""
_AGAIN = (0.5, 0.1, 1.0)
"""The same where a limit makes the kernel drop pages: how many of them are read again, nobody knows."""


def cold_files(scene: Scene) -> Iterator[Candidate]:
    """Waits for a disk in page faults of mapped files and in reads, by place.

    Those of a program's or a library's own text are none, nor is a module that is imported: the program maps and reads
    neither.
    """
    own = scene.in_own() & (phase_labels(scene.capture.stacks)[scene.node] != START_UP)
    touches = scene.has(_TOUCHES) & ~scene.of_other_programs
    reads = scene.has(_OF_CALL) & ~scene.has(_TOUCHES)
    reading = touches & scene.caused_by("fault.file") & scene.has(_READS)
    disk = scene.caused_by("wait.disk")
    for waits in scene.by_place(np.flatnonzero(((touches & disk) | reading) & own)):
        if not disk[waits].any():
            continue
        here = np.isin(scene.place, scene.place[waits[:1]]) & own
        group = distinct(waits, np.flatnonzero(here & scene.caused_by(*_OF_FAULT)))
        freed = group[frees(scene)[group]]
        if len(freed) >= LEAST_SEEN or scene.waits()[freed].any():
            yield _dropped(scene, group, freed, limited=limits(scene, freed))
        elif _may_be_data(scene, waits):
            yield _touched(scene, group, waits, disk)
    for waits in scene.by_place(np.flatnonzero(reads & disk & own)):
        yield _cold(scene, waits, "a file", "as it is needed", (len(waits), "read waits", "reads wait"), _AHEAD)


def _may_be_data(scene: Scene, waits: Int64) -> bool:
    """Whether what these faults read may be a file that the program mapped, and not code and data of a library.

    Where the recording has addresses of faults, those of a large file are among them. So few that none was recorded are
    a library's, unless the kernel reads nothing ahead.
    """
    found = mapped_at(scene, waits)
    known = bool(found) or scene.capture.samples.mapped is None or _one_by_one(scene, waits)
    return known and not mostly(found, (Mapped.PROGRAM,))


def _one_by_one(scene: Scene, waits: Int64) -> bool:
    return 2 * scene.ns(waits[scene.has(_ONE_BY_ONE)[waits]]) > scene.ns(waits)


def _touched(scene: Scene, group: Int64, waits: Int64, disk: Bool) -> Candidate:
    """A mapped file that nothing but its disk keeps from being there."""
    how, remains = ("page by page", _ALONE) if _one_by_one(scene, waits) else ("as it is touched", _AHEAD)
    count = (int(disk[waits].sum()), "page fault waits", "page faults wait")
    return _cold(scene, group, "a mapped file", how, count, remains)


def _cold(
    scene: Scene,
    group: Int64,
    what: str,
    how: str,
    waits: tuple[int, str, str],
    remains: tuple[float, float, float],
) -> Candidate:
    """`waits` has their number, and the words for one and for more."""
    why = (
        "The kernel reads nothing ahead, so each page is a request of its own: the program advised so (MADV_RANDOM), or"
        " its accesses jump."
        if remains is _ALONE
        else "The kernel reads ahead by itself. If the disk is at its limit, the change saves nothing."
    )
    site = scene.site_of(group)
    return sampled(
        scene,
        group,
        site,
        f"{scene.subject(group, site)} reads {what} from the disk {how}.",
        "read-ahead",
        remains,
        why,
        Evidence(f"{format_counted(*waits)} for the disk."),
    )


def _dropped(scene: Scene, group: Int64, freed: Int64, *, limited: bool) -> Candidate:
    reason = "its control group has reached its memory limit" if limited else "the machine has none left"
    site = scene.site_of(group)
    return sampled(
        scene,
        group,
        site,
        f"{scene.subject(group, site)} reads a mapped file from the disk while the kernel frees memory, because"
        f" {reason}.",
        "memory-limit",
        _AGAIN,
        "Touching a page that the kernel dropped reads it again; how often that happens is not known.",
        Evidence(f"In these faults, the kernel frees memory for {format_ns(scene.ns(freed))}."),
        *(limit_of(scene) if limited else ()),
    )
