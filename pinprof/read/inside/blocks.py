"""Large memory of the host from the agent's files → `LargeMemory`: who made it, who gave it back, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinprof.base.columns import Int32, Int64
from pinprof.data.host_memory import HostEvent, HostMemoryTable, HostSite, LargeMemory
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import SINGLE_BLOCKS, SUMMED_BLOCKS, Flag, Kind
from pinprof.read.inside.sites import KnownSite

_EVENTS: dict[int, HostEvent] = {
    kind: event
    for kinds in (SINGLE_BLOCKS, SUMMED_BLOCKS)
    for kind, event in zip(kinds, (HostEvent.MADE, HostEvent.GIVEN, HostEvent.ADVISED), strict=True)
}


def host_memory(files: Sequence[tuple[InsideFile, Mapping[int, KnownSite]]]) -> LargeMemory | None:
    """What the files of a capture say of large memory, each with its sites; None where they say nothing."""
    numbers: dict[HostSite, int] = {}
    tables = [_table(file, known, numbers) for file, known in files if len(file.blocks.records)]
    if not tables:
        return None
    table = HostMemoryTable.empty().joined(*tables)
    table = table.take(np.lexsort((table.event != HostEvent.GIVEN, table.time_ns)))
    return LargeMemory(table, tuple(numbers), sum(file.lost_blocks for file, _ in files))


def _table(file: InsideFile, known: Mapping[int, KnownSite], numbers: dict[HostSite, int]) -> HostMemoryTable:
    records, begin, end = file.blocks.records, file.blocks.begin_ns, file.blocks.end_ns
    kind = records["kind"].astype(np.int64)
    event = np.array([_EVENTS.get(number, 0) for number in range(max(Kind) + 1)], np.uint8)[kind]
    sums = np.isin(kind, SUMMED_BLOCKS)
    given = event == HostEvent.GIVEN
    ns = file.block_lengths_ns
    before = (event == HostEvent.MADE) & (records["flags"] & Flag.SAMPLE > 0)
    giver = np.where(given, records["extra"], np.uint32(0))
    return HostMemoryTable(
        time_ns=np.where(given & ~sums, end, begin),
        event=np.where(before, np.uint8(HostEvent.BEFORE), event),
        maker=records["function"].astype(np.uint8),
        pid=np.full(len(records), file.pid, np.int32),
        tid=file.blocks.tid,
        count=np.where(sums, records["address"], np.uint64(1)).astype(np.int64),
        size_bytes=records["bytes"].astype(np.int64),
        address=np.where(sums, np.uint64(0), records["address"]),
        site=_numbered(records["site"], known, numbers),
        given_at=_numbered(giver, known, numbers),
        lifetime_ns=np.where(given, np.where(sums, ns["source"], end - begin), 0),
        took_ns=np.where(given, ns["stream"], np.where(sums, ns["source"], end - begin)),
        elsewhere=given & (records["flags"] & Flag.ELSEWHERE > 0),
    )


def _numbered(site: Int64, known: Mapping[int, KnownSite], numbers: dict[HostSite, int]) -> Int32:
    """The numbers of sites among those of all processes; those that did nothing else are the same."""
    distinct, which = np.unique(site, return_inverse=True)
    found = []
    for number in distinct.tolist():
        one = known.get(number)
        named = HostSite(one.caller, one.frames) if one is not None and one.caller else None
        found.append(-1 if named is None else numbers.setdefault(named, len(numbers)))
    return np.array(found, np.int32)[which.reshape(-1)]
