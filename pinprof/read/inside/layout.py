"""How a file of the agent is laid out: its header, chunks and records, as inside/agent.h declares them."""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

from pinprof.read import chunked_file

MAGIC = b"PINPCALL"
HEADER = np.dtype(
    [
        *chunked_file.HEADER,
        ("begun_ticks", "<u8"),
        ("begun_ns", "<u8"),
        ("opened_ticks", "<u8"),
        ("unsited", "<u8"),
        ("names", "<u4"),
        ("lost_blocks", "<u4"),
    ]
)
CHUNK = np.dtype([*chunked_file.CHUNK, ("left", "<u8"), ("reserved", "<u8", 5)])
RECORD = np.dtype(
    [
        ("begin", "<u8"),
        ("end", "<u8"),
        ("bytes", "<u8"),
        ("address", "<u8"),
        ("source", "<u8"),
        ("stream", "<u8"),
        ("site", "<u4"),
        ("function", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("result", "<i4"),
        ("extra", "<u4"),
    ]
)
NOT_KNOWN = 2**64 - 1
"""In `bytes` and `stream`."""


class Kind(IntEnum):
    """What a record is."""

    CALL = 1
    SUM = 2
    THREAD = 3
    ANCHOR = 4
    SITE = 5
    MAPPED = 6
    UNMAPPED = 7
    MADE = 8
    MADE_SUM = 9
    GIVEN = 10
    GIVEN_SUM = 11
    ADVISED = 12
    ADVISED_SUM = 13
    MODULE = 14
    CODE = 15
    CHAIN = 16
    USED = 17
    RESIDENT = 18
    NAMED = 19
    WITHDREW = 20
    MET = 21
    COMMUNICATOR = 22
    ENTERED = 23
    FORKED = 24
    BEGUN = 25
    WAITED = 26


class Withdrew(IntEnum):
    """Why a process is not sampled, or no more."""

    HANDLED = 0
    """It handles the signal itself."""
    HELD_BACK = 1
    """ThreadSanitizer holds signals back."""


class Stop(IntEnum):
    """Why a process's recording ended before the process did."""

    RUNNING = 0
    NO_ROOM = 1
    LIMIT = 2


class Flag(IntFlag):
    """What more a record says."""

    SAMPLE = 1
    """Of calls that are summed otherwise."""
    INSIDE = 2
    """A call of its thread made the mapping."""
    FAULTED = 4
    """`extra` has the page faults in the call: minor ones in 24 bits, and major ones above."""
    ELSEWHERE = 8
    """Another thread had made what was given back."""
    INHERITED = 16
    """A parent had made it, before the fork."""
    TORN = 32
    """A chain whose outermost callers are missing."""
    CALLED = 64
    """A sample of a thread that has called the kernel,"""
    PIPE = 128
    """to read or write a pipe."""


SINGLE_BLOCKS = (Kind.MADE, Kind.GIVEN, Kind.ADVISED)
SUMMED_BLOCKS = (Kind.MADE_SUM, Kind.GIVEN_SUM, Kind.ADVISED_SUM)
"""Records of large memory: of one event each, and sums of such, in the same order."""
LATEST_NS = 2**62
"""Times and lengths of time beyond are damage."""
