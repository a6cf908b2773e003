"""User call chains that arrive later than their samples: Linux 6.19 and later, `perf record --call-graph fp,defer`.

A sample taken in the kernel then has the kernel's part of its chain, PERF_CONTEXT_USER_DEFERRED and a cookie. Shortly
before the thread returns to user mode, one record serves all samples that have its cookie:

    CALLCHAIN_DEFERRED   u64 cookie, nr; u64 ips[nr]; sample_id

Sources: include/uapi/linux/perf_event.h, kernel/events/callchain.c; tools/perf/util/session.c matches them likewise.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np

from pinprof.columns import PairIndex
from pinprof.model import Int32, Int64, UInt64
from pinprof.read.perf.samples import RawSamples, SampleGatherer, address_chains


class DeferredChains:
    """The records of one file, to be appended to the chains of its samples at the end."""

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

    def joined(self, gatherer: SampleGatherer, samples: RawSamples, chains: Int32) -> tuple[RawSamples, Int32, int]:
        """Samples and chains with the callers that came later, and how many samples wait for theirs in vain."""
        rows, cookies = gatherer.promised()
        if not len(rows) or not self._chains:
            return samples, chains, len(rows)
        own = np.array(self._cookies, np.uint64).view(np.int64)
        index = PairIndex.of(np.array(self._tids, np.int32), own, np.arange(len(own)))
        which = index.find(samples.tid[rows], cookies.view(np.int64))
        rows, which = rows[which >= 0], which[which >= 0]
        missing = len(cookies) - len(rows)
        length = np.array([len(chain) for chain in self._chains], np.int64)
        entries, length, *_ = address_chains(np.concatenate(self._chains), np.cumsum(length) - length, length)
        pool = np.concatenate([chains, gatherer.number(entries)])
        begins = len(chains) + np.cumsum(length) - length
        starts = np.stack([samples.chain_start[rows], begins[which]], 1).reshape(-1)
        lengths = np.stack([samples.chain_length[rows].astype(np.int64), length[which]], 1).reshape(-1)
        ends: Int64 = np.cumsum(lengths)
        made = pool[np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)]
        chain_start, chain_length = samples.chain_start.copy(), samples.chain_length.copy()
        chain_start[rows] = len(chains) + (ends - lengths)[::2]
        chain_length[rows] = lengths[::2] + lengths[1::2]
        return (
            replace(samples, chain_start=chain_start, chain_length=chain_length),
            np.concatenate([chains, made]),
            missing,
        )
