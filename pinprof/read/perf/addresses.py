"""Addresses of call chains as the kernel writes them, without the markers that say what they are.

User call chains may arrive later than their samples (Linux 6.19 and later, `perf record --call-graph fp,defer`): a
sample taken in the kernel then has the kernel's part of its chain, PERF_CONTEXT_USER_DEFERRED and a cookie. Shortly
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
from pinprof.read.perf import records as rec
from pinprof.read.perf.sequences import positions

UNKNOWN_USER, GUEST, UNKNOWN_KERNEL = 0, rec.KERNEL_START - 1, rec.KERNEL_START
"""Addresses that stand for: a user frame whose address cannot be code, any guest frame, a kernel frame likewise.

No processor has user memory at the guest's; small numbers such as 1 are what broken frame pointers lead to.
"""

_MODE_USER, _MODE_KERNEL, _MODE_GUEST, _MODE_BY_VALUE = 0, 1, 2, 3


def address_chains(words: UInt64, first: Int64, length: Int64) -> tuple[UInt64, Int64, Int64, UInt64]:
    """The addresses of all chains end to end without their context markers, and each chain's length without them; the
    chains whose user part comes later, and their cookies (`DeferredChains`).

    Addresses that contradict their context (a user frame with a kernel address is a forged or torn frame) and guest
    addresses, which mean nothing to the host's symbols, are replaced by the stand-ins at the top of this module.
    """
    ends = np.cumsum(length)
    begins = ends - length
    total = int(ends[-1]) if len(ends) else 0
    entries = words[np.arange(total) + np.repeat(first - begins, length)]
    later = np.flatnonzero(entries == np.uint64(rec.CONTEXT_USER_DEFERRED))
    later_chain = np.searchsorted(ends, later, side="right")
    has_cookie = later + 1 < ends[later_chain]
    later_chain, cookie_at = later_chain[has_cookie], later[has_cookie] + 1
    cookies = entries[cookie_at]
    entries[cookie_at] = rec.CONTEXT_USER
    markers = np.flatnonzero(entries >= np.uint64(rec.CONTEXT_LOWEST))
    # Segments of one mode begin at each marker, and at each chain that does not begin with one.
    plain = begins[(length > 0)]
    plain = plain[entries[plain] < np.uint64(rec.CONTEXT_LOWEST)]
    marker_values = entries[markers]
    modes = np.full(len(markers), _MODE_GUEST, np.uint8)
    modes[marker_values == np.uint64(rec.CONTEXT_KERNEL)] = _MODE_KERNEL
    modes[marker_values == np.uint64(rec.CONTEXT_USER)] = _MODE_USER
    if len(plain):
        starts = np.concatenate([markers, plain])
        modes = np.concatenate([modes, np.full(len(plain), _MODE_BY_VALUE, np.uint8)])
        order = np.argsort(starts, kind="stable")
        starts, modes = starts[order], modes[order]
    else:
        starts = markers
    mode = np.repeat(modes, np.diff(starts, append=total))
    keep = np.ones(total, np.bool_)
    keep[markers] = False
    entries, mode = entries[keep], mode[keep]
    odd = mode != (entries >= np.uint64(rec.KERNEL_START))
    if odd.any():
        entries[odd & (mode == _MODE_USER)] = UNKNOWN_USER
        entries[odd & (mode == _MODE_KERNEL)] = UNKNOWN_KERNEL
        entries[mode == _MODE_GUEST] = GUEST
    inside = np.searchsorted(markers, ends) - np.searchsorted(markers, begins)
    return entries, length - inside, later_chain, cookies


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
