"""Addresses of call chains as the kernel writes them, without the markers that say what they are.

User call chains may arrive later than their samples (Linux 6.19 and later, `perf record --call-graph fp,defer`): a
sample taken in the kernel then has the kernel's part of its chain, PERF_CONTEXT_USER_DEFERRED and a cookie. Shortly
before the thread returns to user mode, one record serves all samples that have its cookie:

    CALLCHAIN_DEFERRED   u64 cookie, nr; u64 ips[nr]; sample_id

Sources: include/uapi/linux/perf_event.h, kernel/events/callchain.c; tools/perf/util/session.c matches them likewise.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cached_property

import numpy as np

from pinprof.base.pair_index import PairIndex
from pinprof.data.model import Int32, Int64, UInt64
from pinprof.read.perf import kernels
from pinprof.read.perf import records as rec
from pinprof.read.perf.sequences import positions

UNKNOWN_USER, GUEST, UNKNOWN_KERNEL = 0, rec.KERNEL_START - 1, rec.KERNEL_START
"""Addresses that stand for: a user frame whose address cannot be code, any guest frame, a kernel frame likewise.

No processor has user memory at the guest's; small numbers such as 1 are what broken frame pointers lead to.
"""

_MODE_USER, _MODE_KERNEL, _MODE_GUEST, _MODE_BY_VALUE = 0, 1, 2, 3
_MODE_OF_MARKER = {rec.CONTEXT_USER: _MODE_USER, rec.CONTEXT_KERNEL: _MODE_KERNEL}


def address_chains(words: UInt64, first: Int64, length: Int64) -> tuple[UInt64, Int64, Int64, UInt64]:
    """The addresses of all chains end to end without their context markers, and each chain's length without them; the
    chains whose user part comes later, and their cookies (`DeferredChains`).

    Addresses that contradict their context (a user frame with a kernel address is a forged or torn frame) and guest
    addresses, which mean nothing to the host's symbols, are replaced by the stand-ins at the top of this module.
    """
    room = int(length.sum())
    length, out = length.astype(np.int64), np.empty(room, np.uint64)
    later, cookies, promised = np.empty(room, np.int64), np.empty(room, np.uint64), ctypes.c_uint64()
    if (library := kernels.library()) is None:
        promises: list[tuple[int, int]] = []
        filled = _addresses_slowly(words, first, length, out, promises)
        promised.value = len(promises)
        for column, values in zip((later, cookies), zip(*promises, strict=True), strict=False):
            column[: len(promises)] = values
    else:
        words, first = np.ascontiguousarray(words), np.ascontiguousarray(first)
        given = words.ctypes.data, len(words), first.ctypes.data, length.ctypes.data, len(length)
        made = out.ctypes.data, later.ctypes.data, cookies.ctypes.data, ctypes.byref(promised)
        filled = library.pinprof_perf_addresses(*given, *made)
    return out[:filled], length, later[: promised.value], cookies[: promised.value]


def _addresses_slowly(words: UInt64, first: Int64, length: Int64, out: UInt64, promises: list[tuple[int, int]]) -> int:
    filled = 0
    for chain, (begin, size) in enumerate(zip(first.tolist(), length.tolist(), strict=True)):
        before, mode, is_cookie = filled, _MODE_BY_VALUE, False
        chain_words = words[begin : begin + size].tolist()
        for word, following in zip(chain_words, [*chain_words, None][1:], strict=True):
            entry = rec.CONTEXT_USER if is_cookie else word
            is_cookie = word == rec.CONTEXT_USER_DEFERRED and following is not None
            if is_cookie:
                promises.append((chain, following))
            if entry >= rec.CONTEXT_LOWEST:
                mode = _MODE_OF_MARKER.get(entry, _MODE_GUEST)
                continue
            if mode == _MODE_GUEST:
                entry = GUEST
            elif mode != _MODE_BY_VALUE and mode != (entry >= rec.KERNEL_START):
                entry = UNKNOWN_KERNEL if mode == _MODE_KERNEL else UNKNOWN_USER
            out[filled] = entry
            filled += 1
        length[chain] = filled - before
    return filled


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
