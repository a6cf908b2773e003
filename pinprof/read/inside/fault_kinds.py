"""What page faults made, concluded from what the process's memory grew by meanwhile, and from how long they took.

While a thread takes faults the sampler reads how much of the process's memory is anonymous, of files and shared. What
grows at a place tells what its faults are of. Memory that does not grow although pages are made is of files, where as
much of these is mapped meanwhile; else it is written again after it was written back, in a process that does this, or
copied, in one that forks, or given back and made again, in one that gives memory back. Else nothing is said of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int64
from pinprof.read.by_thread import threads
from pinprof.read.inside.used import Used

ENTERED = ("asm_exc_page_fault", "handle_mm_fault")
"""What serves every fault."""
_ANONYMOUS, _HUGE = "do_anonymous_page", "do_huge_pmd_anonymous_page"
_OF_FILE, SHARED, _PRIVATE, _WRITTEN = "do_read_fault", "shmem_fault", "do_wp_page", "wp_page_copy"
_WRITTEN_BACK = "do_page_mkwrite"
_MAPPED = "mapped"
_LEADS_TO = {_PRIVATE: ("do_fault", _PRIVATE)}
"""What serves these first."""
_HUGE_NS = 20_000
"""The kernel's time for each fault: a small page takes a twentieth of this, a huge one takes five times as long."""
_HUGE_PAGES = 8
"""Pages for each fault: from here on most of the memory is in huge ones, of 512 pages each."""
_GROWS = 0.25
"""The part of the faults, in pages, from which on growth tells what they are of."""
_PAGE_KIB = 4


@dataclass
class _Place:
    """What the faults of one chain of callers made."""

    faults: int = 0
    spent_ns: int = 0
    grown: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """In pages."""


@dataclass(frozen=True)
class Does:
    """What the process does that tells what faults are of."""

    forks: bool = False
    frees: bool = False
    syncs: bool = False
    """It writes files back, which it has mapped."""


def served_by(each: Used, seen: Bool, spent_ns: Int64, does: Does) -> Mapping[int, tuple[str, ...]]:
    """Per chain of callers the kernel's functions that its faults lead through, as far as that is known.

    `seen`: samples that were taken in a fault; `spent_ns`: what faults took in each.
    """
    places: dict[int, _Place] = defaultdict(_Place)
    for row in np.flatnonzero(seen).tolist():
        place = places[int(each.chain[row])]
        place.faults += int(each.faults[row])
        place.spent_ns += int(spent_ns[row])
    resident = each.resident
    columns = {
        _ANONYMOUS: resident.anonymous_kib,
        _OF_FILE: resident.file_kib,
        SHARED: resident.shared_kib,
        _MAPPED: resident.mapped_kib,
        _PRIVATE: resident.private_kib,
    }
    for mine in threads(np.zeros(len(resident.tid), np.int32), resident.tid):
        for name, column in columns.items():
            growth = np.diff(column[mine]) // _PAGE_KIB
            for chain, pages in zip(resident.chain[mine[1:]].tolist(), growth.tolist(), strict=True):
                places[chain].grown[name] += max(pages, 0)
    return {chain: (*ENTERED, *_kind(place, does)) for chain, place in places.items()}


def _kind(place: _Place, does: Does) -> tuple[str, ...]:
    """The function that serves most of its faults; none where that is not known."""
    grown, least = place.grown, _GROWS * place.faults
    most = max((_ANONYMOUS, _OF_FILE, SHARED), key=lambda name: grown[name])
    if grown[most] < least or not place.faults:
        most = (
            _OF_FILE if grown[_MAPPED] >= least > 0
            else _WRITTEN_BACK if does.syncs
            else _WRITTEN if does.forks
            else _ANONYMOUS if does.frees
            else ""
        )  # fmt: skip
    if grown[_PRIVATE] >= least > 0 and most in (_ANONYMOUS, _WRITTEN):
        most = _PRIVATE
    large = grown[most] > _HUGE_PAGES * place.faults or place.spent_ns > _HUGE_NS * place.faults
    if most == _ANONYMOUS and large:
        most = _HUGE
    return _LEADS_TO.get(most, (most,) if most else ())
