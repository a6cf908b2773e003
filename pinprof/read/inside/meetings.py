"""Calls in which processes meet, from the agent's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pinprof.base.columns import Int32, halves
from pinprof.data.activity import Caller
from pinprof.data.meeting_calls import Communicator, MeetingCalls
from pinprof.data.meeting_functions import MEETING_FUNCTIONS
from pinprof.read.by_thread import outermost
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.sites import NOWHERE, KnownSite


def meeting_calls(files: Sequence[tuple[InsideFile, Mapping[int, KnownSite]]]) -> MeetingCalls | None:
    """Those of several processes; None where there are none."""
    names: dict[str, int] = {}
    sites: dict[Caller, int] = {}
    communicators: dict[Communicator, int] = {}
    tables = [_table(file, known, names, sites, communicators) for file, known in files if len(file.meetings.records)]
    if not tables:
        return None
    calls = tables[0].joined(*tables[1:])
    calls = calls.take(np.argsort(calls.start_ns, kind="stable"))
    return replace(calls, names=tuple(names), sites=tuple(sites), communicators=tuple(communicators))


def _table(
    file: InsideFile,
    known: Mapping[int, KnownSite],
    names: dict[str, int],
    sites: dict[Caller, int],
    communicators: dict[Communicator, int],
) -> MeetingCalls:
    met = file.meetings
    order = np.lexsort((-met.end_ns, met.begin_ns))
    pid = np.full(len(order), file.pid, np.int32)
    outer = outermost(met.begin_ns[order], met.end_ns[order], pid, met.tid[order])
    rows = order[outer == np.arange(len(order))]
    records = met.records[rows]
    roles = [MEETING_FUNCTIONS.get(name) for name in file.names]
    used = set(records["function"].tolist())
    number = np.array(
        [names.setdefault(name, len(names)) if place in used else -1 for place, name in enumerate(file.names)], np.int32
    )
    to_peer = np.array([role is not None and (role.peer, role.root) != (None, None) for role in roles], np.bool_)
    called = records["function"].astype(np.int64)
    peer, tag = halves(records["stream"])
    paired = to_peer[called]
    return MeetingCalls(
        start_ns=met.begin_ns[rows],
        end_ns=met.end_ns[rows],
        pid=pid[: len(rows)],
        tid=met.tid[rows],
        name=number[called],
        communicator=_communicators(file, records["address"].tolist(), communicators),
        number=records["source"].astype(np.int64),
        peer=np.where(paired, np.maximum(peer, -1), -1).astype(np.int64),
        tag=np.where(paired, tag, 0).astype(np.int64),
        size_bytes=records["bytes"].astype(np.int64),  # NOT_KNOWN becomes -1
        site=np.array([_site(known, site, sites) for site in records["site"].tolist()], np.int32),
        names=(),
        communicators=(),
        sites=(),
    )


def _communicators(file: InsideFile, identities: Sequence[int], numbers: dict[Communicator, int]) -> Int32:
    """The number of each; -1 for those of which the file says nothing."""
    of = {one.identity: numbers.setdefault(one, len(numbers)) for one in file.communicators}
    return np.array([of.get(identity, -1) for identity in identities], np.int32)


def _site(known: Mapping[int, KnownSite], number: int, sites: dict[Caller, int]) -> int:
    caller = known.get(number, NOWHERE).caller
    return sites.setdefault(caller, len(sites)) if caller is not None else -1
