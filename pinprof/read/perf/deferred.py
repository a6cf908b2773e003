"""User call chains that arrive later than their samples: Linux 6.19 and later, `perf record --call-graph fp,defer`.

A sample taken in the kernel then has the kernel's part of its chain, PERF_CONTEXT_USER_DEFERRED and a cookie. Shortly
before the thread returns to user mode, one record serves all samples that have its cookie:

    CALLCHAIN_DEFERRED   u64 cookie, nr; u64 ips[nr]; sample_id

Sources: include/uapi/linux/perf_event.h, kernel/events/callchain.c; tools/perf/util/session.c matches them likewise.
"""

from __future__ import annotations

import struct
from functools import cached_property

import numpy as np

from pinprof.base.columns import PairIndex
from pinprof.data.model import Int32, Int64, UInt64
from pinprof.read.perf.addresses import address_chains
from pinprof.read.perf.sequences import positions


class DeferredChains:
    """The records of one file, whose chains go behind those of its samples."""

    def __init__(self) -> None:
        self._tids: list[int] = []
        self._cookies: list[int] = []
        self._chains: list[UInt64] = []

    def take(self, tid: int, body: bytes) -> None:
        """One record of a thread; struct.error or IndexError where it is shorter than it says."""
        cookie, count = struct.unpack_from("<QQ", body)
        words = np.frombuffer(body, "<u8", len(body) >> 3)
        if count > len(words) - 2:
            raise IndexError(f"a call chain of {count} entries in {len(body)} bytes")
        self._tids.append(tid)
        self._cookies.append(cookie)
        self._chains.append(words[2 : 2 + count])

    def of(self, tid: Int32, cookies: UInt64) -> tuple[UInt64, Int64]:
        """The addresses of the chains that some samples wait for, end to end, and how many each has: -1 for none."""
        entries, length, index = self._columns
        which = index.find(tid, cookies.view(np.int64))
        came = which >= 0
        begins = np.cumsum(length) - length
        found = entries[positions(begins[which[came]], length[which[came]])]
        return found, np.where(came, np.append(length, 0)[which], -1)

    @cached_property
    def _columns(self) -> tuple[UInt64, Int64, PairIndex]:
        """All chains' addresses end to end, the length of each, and the chain of each thread and cookie."""
        length = np.array([len(chain) for chain in self._chains], np.int64)
        words = np.concatenate([np.zeros(0, np.uint64), *self._chains])
        entries, length, *_ = address_chains(words, np.cumsum(length) - length, length)
        own = np.array(self._cookies, np.uint64).view(np.int64)
        return entries, length, PairIndex.of(np.array(self._tids, np.int32), own, np.arange(len(own)))
