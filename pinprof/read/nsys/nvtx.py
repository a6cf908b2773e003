"""NVTX ranges and marks from an Nsight Systems export.

The name is the event's own text, or a registered string; a domain's name is the text of the event that created it.
Ranges without an end (nsys leaves it out, or writes the end of the recording) end with the recording. The depth of a
range is the number of push/pop ranges of its thread that are open when it begins; start/end ranges, which need not
nest, are nobody's parents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import numbered_pairs, pairs_of
from pinprof.data.activity import MarkTable
from pinprof.data.model import Bool, Int32, Int64, RangeTable
from pinprof.read.by_thread import threads
from pinprof.read.nsys import schema
from pinprof.read.nsys.numbers import Numbers
from pinprof.read.nsys.tables import ExportTables, time_order

_NAMELESS = "(no name)"


def read_nvtx(tables: ExportTables, end_ns: int) -> tuple[RangeTable, MarkTable, dict[tuple[int, int], str]]:
    """Ranges, marks, and the names that the program gave its threads; `end_ns` closes what is open."""
    raw = tables.read(schema.NVTX)
    name, names = _names(tables, raw)
    domain, domains = _domains(raw, name, names)
    ranges = np.flatnonzero(
        np.isin(raw["type"], (schema.PUSH_POP, schema.START_END)) & (raw["start"] != schema.MISSING)
    )
    start, end = raw["start"][ranges], raw["end"][ranges]
    unclosed = end == schema.MISSING
    if open_ranges := int(np.count_nonzero(unclosed)):
        end = np.where(unclosed, np.maximum(start, end_ns), end)
        tables.notes.append(f"{open_ranges} ranges have no end; they are assumed to end with the recording.")
    backward = end < start
    if bad := int(np.count_nonzero(backward)):
        tables.bad_rows += bad
        tables.notes.append(f"{bad} NVTX ranges end before they start; they were left out.")
        ranges, start, end, unclosed = ranges[~backward], start[~backward], end[~backward], unclosed[~backward]
    order = time_order(start, end)
    ranges, start, end, unclosed = ranges[order], start[order], end[order], unclosed[order]
    pid, tid = raw["pid"][ranges], raw["tid"][ranges]
    table = RangeTable(
        name=tuple(map(names.__getitem__, name[ranges].tolist())),
        domain=tuple(map(domains.__getitem__, domain[ranges].tolist())),
        start_ns=start,
        end_ns=end,
        pid=pid,
        tid=tid,
        depth=_depth(start, end, pid, tid, raw["type"][ranges] == schema.PUSH_POP),
        ended=~unclosed,
    )
    return table, _marks(raw, name, names, domain, domains), _threads(raw, name, names)


def _names(tables: ExportTables, raw: Numbers) -> tuple[Int32, list[str]]:
    """Per event its name as an index into distinct names; the last of them stands for events without name."""
    count = len(raw["start"])
    table = tables.physical(schema.NVTX)
    own: Int32 = np.full(count, -1, np.int32)
    texts: list[str] = []
    if count and table and schema.NVTX_TEXT in tables.source.tables[table]:
        own, texts = tables.source.texts(table, schema.NVTX_TEXT)
    registered, strings = tables.names(raw["text_id"])
    names = [*texts, *strings, _NAMELESS]
    index = np.where(own >= 0, own, np.where(registered >= 0, registered + len(texts), len(names) - 1))
    return index.astype(np.int32), names


def _domains(raw: Numbers, name: Int32, names: list[str]) -> tuple[Int32, list[str]]:
    """Per event its domain as an index into domain names; ids count within a process, 0 is the default domain."""
    created = np.flatnonzero(raw["type"] == schema.DOMAIN_CREATE)
    texts = {
        (pid, number): names[text]
        for pid, number, text in zip(
            raw["pid"][created].tolist(), raw["domain"][created].tolist(), name[created].tolist(), strict=True
        )
    }
    number, of_number = np.unique(raw["domain"], return_inverse=True)
    pairs, index = numbered_pairs(of_number, raw["pid"])
    keys = [(pid, int(number[place])) for place, pid in pairs_of(pairs)]
    shown = [texts.get(key, "" if key[1] in (0, schema.MISSING) else f"domain {key[1]}") for key in keys]
    return index.astype(np.int32), shown


def _depth(start: Int64, end: Int64, pid: Int32, tid: Int32, nests: Bool) -> Int32:
    """Depth of ranges ordered by start, longer ones first."""
    depth = np.zeros(len(start), np.int32)
    for rows in threads(pid, tid):
        nesting = nests[rows]
        begun: Int64 = np.cumsum(nesting) - nesting
        ended = np.searchsorted(np.sort(end[rows[nesting]]), start[rows], side="right")
        depth[rows] = np.maximum(begun - ended, 0)
    return depth


def _marks(raw: Numbers, name: Int32, names: list[str], domain: Int32, domains: list[str]) -> MarkTable:
    rows = np.flatnonzero((raw["type"] == schema.MARK) & (raw["start"] != schema.MISSING))
    rows = rows[time_order(raw["start"][rows])]
    used, index = np.unique(np.concatenate([name[rows], domain[rows] + len(names)]), return_inverse=True)
    both = [*names, *domains]
    return MarkTable(
        time_ns=raw["start"][rows],
        name=index[: len(rows)].astype(np.int32),
        domain=index[len(rows) :].astype(np.int32),
        pid=raw["pid"][rows],
        tid=raw["tid"][rows],
        names=tuple(both[number] for number in used.tolist()),
    )


def _threads(raw: Numbers, name: Int32, names: list[str]) -> dict[tuple[int, int], str]:
    rows = np.flatnonzero(raw["type"] == schema.NAME_THREAD)
    columns: tuple[NDArray[Any], ...] = (raw["pid"][rows], raw["tid"][rows], name[rows])
    return {(pid, tid): names[text] for pid, tid, text in zip(*(column.tolist() for column in columns), strict=True)}
