"""Calls in which processes meet, as they were recorded."""

from __future__ import annotations

from typing import NamedTuple

from pinprof.base.columns import Int32, Int64, Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Caller
from pinprof.data.meeting_functions import MEETING_FUNCTIONS, MeetingFunction


class Communicator(NamedTuple):
    """A group of processes, as one of them knows it."""

    identity: int
    """The same in all of its processes."""
    rank: int
    size: int


@dataclass(frozen=True, eq=False, repr=False)
class MeetingCalls(Table):
    """Calls of NCCL, MPI and Gloo, ordered by start; those inside another of their thread are left out."""

    start_ns: Int64
    end_ns: Int64
    pid: Int32
    tid: Int32
    name: Int32
    """Index into `names`."""
    communicator: Int32
    """Index into `communicators`, -1 where the call has none, or it is not known."""
    number: Int64
    """Its number among the calls of its communicator that all ranks make in one order, from 1; 0 for other calls."""
    peer: Int64
    """The root, or the rank in the communicator that it sends to or receives from; -1 for other calls, and for any."""
    tag: Int64
    size_bytes: Int64
    """-1 where arguments do not say it."""
    site: Int32
    """Who called, an index into `sites`, -1 where not known."""
    names: tuple[str, ...]
    """Symbols of functions."""
    communicators: tuple[Communicator, ...]
    sites: tuple[Caller, ...]

    @property
    def functions(self) -> tuple[MeetingFunction, ...]:
        """What is known of each of `names`."""
        return tuple(MEETING_FUNCTIONS.get(name, MeetingFunction("none")) for name in self.names)
