"""What page faults made, concluded from what the process's memory grew by meanwhile, and from how long they took.

While a thread takes faults the sampler reads how much of the process's memory is anonymous, of files and shared. What
grows at a place tells what its faults are of. Memory that does not grow although pages are made is either copied, in a
process that forks, or given back and made again, in one that gives memory back. Else nothing is said of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool
from pinprof.read.by_thread import threads
from pinprof.read.inside.used import Used

ENTERED = ("asm_exc_page_fault", "handle_mm_fault")
"""What serves every fault."""
_ANONYMOUS, _HUGE = "do_anonymous_page", "do_huge_pmd_anonymous_page"
_OF_FILE, _SHARED, _COPIED = "do_read_fault", "shmem_fault", "wp_page_copy"
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
    system_ns: int = 0
    grown: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """In pages."""


def served_by(each: Used, seen: Bool, *, forks: bool, frees: bool) -> Mapping[int, tuple[str, ...]]:
    """Per chain of callers the kernel's functions that its faults lead through, as far as that is known.

    `seen`: samples that were taken in a fault. `forks`, `frees`: what the process does.
    """
    places: dict[int, _Place] = defaultdict(_Place)
    for row in np.flatnonzero(seen).tolist():
        place = places[int(each.chain[row])]
        place.faults += int(each.faults[row])
        place.system_ns += int(each.system_ns[row])
    resident = each.resident
    for mine in threads(np.zeros(len(resident.tid), np.int32), resident.tid):
        for name, column in (
            (_ANONYMOUS, resident.anonymous_kib),
            (_OF_FILE, resident.file_kib),
            (_SHARED, resident.shared_kib),
        ):
            growth = np.diff(column[mine]) // _PAGE_KIB
            for chain, pages in zip(resident.chain[mine[1:]].tolist(), growth.tolist(), strict=True):
                places[chain].grown[name] += max(pages, 0)
    return {chain: (*ENTERED, *_kind(place, forks=forks, frees=frees)) for chain, place in places.items()}


def _kind(place: _Place, *, forks: bool, frees: bool) -> tuple[str, ...]:
    most = max(place.grown, key=lambda name: place.grown[name], default="")
    if not most or place.grown[most] < _GROWS * place.faults:
        most = _COPIED if forks else _ANONYMOUS if frees else ""
    large = place.grown[most] > _HUGE_PAGES * place.faults or place.system_ns > _HUGE_NS * place.faults
    if most == _ANONYMOUS and large:
        most = _HUGE
    return (most,) if most else ()
