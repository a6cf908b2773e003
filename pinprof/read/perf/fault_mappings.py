"""In which mapping the addresses of page faults lie, by the records of what processes mapped.

The kernel records what is mapped, and not what is unmapped: but a fault that is served lies in a mapping, and the last
one that was recorded there is it. That holds only as long as every mapping was recorded, those without code as well
(`perf record -d`), and no record was lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import merge
from operator import itemgetter

import numpy as np

from pinprof.base.columns import Int32, Int64, UInt8, UInt64, ascending
from pinprof.data.mapped import Mapped, mapped_as
from pinprof.read.perf.mappings import TaskRecord
from pinprof.read.perf.places import Places
from pinprof.read.perf.records import DataArea, ForkRecord, MapRecord

_MAP_SHARED, _MAP_HUGE = 0x01, 0x40000
Change = tuple[int, DataArea | TaskRecord]


def mapped_at(time: Int64, pid: Int32, address: UInt64, changes: Iterable[Change]) -> UInt8:
    """Per fault what its address lies in (`Mapped`), UNKNOWN at address 0.

    `changes` are by time; one at the time of a fault comes behind it.
    """
    found = np.full(len(address), Mapped.UNKNOWN, np.uint8)
    asked = np.flatnonzero(address > 0)
    asked = asked[np.argsort(time[asked], kind="stable")]
    spaces: dict[int, Places] = defaultdict(Places)
    done, times = 0, time[asked]

    def look(upto: int) -> None:
        rows = asked[done:upto]
        for process in ascending(pid[rows]).tolist():
            mine = rows[pid[rows] == process]
            found[mine] = np.maximum(spaces[process].at(address[mine]), Mapped.UNKNOWN)

    for when, change in changes:
        upto = max(done, int(np.searchsorted(times, when)))
        look(upto)
        done = upto
        _apply(spaces, change)
    look(len(asked))
    return found


def by_time(areas: Iterable[tuple[int, DataArea]], tasks: Iterable[tuple[int, TaskRecord]]) -> Iterator[Change]:
    """What processes mapped and became, in the order of time, as both are."""
    return merge(areas, tasks, key=itemgetter(0))


def _apply(spaces: dict[int, Places], change: DataArea | TaskRecord) -> None:
    if isinstance(change, DataArea):
        shared, huge = bool(change.flags & _MAP_SHARED), bool(change.flags & _MAP_HUGE)
        spaces[change.pid].put(change.start, change.end, mapped_as(change.path, shared=shared, huge=huge))
    elif isinstance(change, MapRecord):
        spaces[change.pid].put(change.start, change.end, mapped_as(change.path, shared=False))
    elif isinstance(change, ForkRecord):
        if change.pid != change.parent_pid and change.clones:
            spaces[change.pid] = spaces[change.parent_pid].copy()
    elif change.exec:
        spaces.pop(change.pid, None)
