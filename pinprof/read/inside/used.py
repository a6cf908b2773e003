"""What the agent's sampler noted of CPU time: where threads were, and what they used since they last were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int32, Int64, UInt64
from pinprof.read.inside.layout import LATEST_NS, Flag

DENIED, NO_CALL, UNKNOWN_CALL = -3, -2, -1
"""`Used.call` of samples that no call of the kernel has led to, and where it is not known which one."""
_SIZES = ("bytes", "address", "source", "stream", "end")
_MOST = 1 << 40


class Chain(NamedTuple):
    """Callers, innermost first: native ones by their return addresses, then Python's functions with their lines."""

    native: tuple[int, ...]
    python: tuple[tuple[int, int], ...]
    torn: bool
    """Whether the outermost ones are missing."""


class MappedCode(NamedTuple):
    """Code of a file; of none where `path` is empty."""

    ticks: int
    begin: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True)
class Resident:
    """What the process's memory was made of while threads took faults: columns of one length, by thread."""

    tid: Int32
    chain: Int64
    anonymous_kib: Int64
    file_kib: Int64
    shared_kib: Int64
    mapped_kib: Int64
    """Of files, so far, whether it is touched or not, …"""
    private_kib: Int64
    """… and beside it what of files was mapped to be written privately."""


@dataclass(frozen=True)
class Used:
    """The samples of a process, as columns of one length, and what their numbers mean."""

    period_ns: int
    """From sample to sample."""
    ticks: UInt64
    time_ns: Int64
    tid: Int32
    user_ns: Int64
    system_ns: Int64
    delayed_ns: Int64
    """For which others kept the thread from running, since the sample before."""
    waited_ns: Int64
    """For which it waited for others, by then; not 0 where it did nothing else."""
    faults: Int64
    address: UInt64
    chain: Int64
    call: Int32
    """Number of the kernel's call, UNKNOWN_CALL, NO_CALL, or DENIED where it may not touch what it touched."""
    pipe: Bool
    """Whether that reads or writes a pipe."""
    resident: Resident
    chains: dict[int, Chain]
    codes: dict[int, tuple[str, str]]
    """Name and file of functions of Python."""
    modules: tuple[MappedCode, ...]
    """In the order in which they were found."""
    names: dict[int, str]
    """Of threads."""

    @property
    def torn(self) -> int:
        """How many samples lack their outermost callers."""
        short = [number for number, chain in self.chains.items() if chain.torn]
        return int(np.isin(self.chain, short).sum())


def sound(records: NDArray[np.void]) -> Bool:
    """Which of the records of samples say what can be."""
    return np.asarray((records["bytes"] < _MOST) & (records["source"] < _MOST) & (records["result"] > 0))


def columns(records: NDArray[np.void]) -> dict[str, Any]:
    """The columns of records of samples."""
    faults, number = records["stream"], records["function"].astype(np.int32)
    called = records["flags"] & Flag.CALLED > 0
    return {
        "ticks": records["begin"].copy(),
        "user_ns": records["bytes"].astype(np.int64),
        "system_ns": records["source"].astype(np.int64),
        "delayed_ns": records["extra"].astype(np.int64) * 1000,
        "waited_ns": np.zeros(len(records), np.int64),
        "faults": ((faults & np.uint64(0xFFFF_FFFF)) + (faults >> np.uint64(32))).astype(np.int64),
        "address": records["address"].copy(),
        "chain": records["site"].astype(np.int64),
        "pipe": records["flags"] & Flag.PIPE > 0,
        "call": np.where(
            called, np.where(number > 0, number - 1, UNKNOWN_CALL), np.where(number > 0, DENIED, NO_CALL)
        ).astype(np.int32),
    }


def resident(records: NDArray[np.void], tid: Int64) -> Resident:
    """The readings of memory."""
    sizes = (np.minimum(records[name], _MOST).astype(np.int64) for name in _SIZES)
    return Resident(tid.astype(np.int32), records["site"].astype(np.int64), *sizes)


def chains(told: Iterable[tuple[np.void, bytes]]) -> Iterator[tuple[int, Chain]]:
    """Chains by their numbers."""
    for record, text in told:
        native, python = int(record["address"]), int(record["source"])
        if 8 * (native + python) != len(text):
            continue  # damage
        places = np.frombuffer(text[: 8 * native], "<u8").tolist()
        lines = np.frombuffer(text[8 * native :], "<u4").reshape(-1, 2).tolist()
        torn = bool(int(record["flags"]) & Flag.TORN)
        yield (
            int(record["site"]),
            Chain(tuple(places), tuple((code, min(line, 2**31 - 1)) for code, line in lines), torn),
        )


def modules(told: Iterable[tuple[np.void, bytes]]) -> Iterator[MappedCode]:
    """Code, by what was read of the process's mappings."""
    for record, text in told:
        begin, end = int(record["address"]), int(record["source"])
        if begin < end < LATEST_NS:
            path = text.decode("utf-8", "replace").removesuffix(" (deleted)")
            yield MappedCode(int(record["begin"]), begin, end, min(int(record["stream"]), LATEST_NS), path)


def codes(told: Iterable[tuple[np.void, bytes]]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Functions of Python by their numbers."""
    for record, text in told:
        name, _, file = text.decode("utf-8", "replace").partition("\t")
        yield int(record["site"]), (name, file)


def module_of(found: tuple[MappedCode, ...], addresses: UInt64, ticks: UInt64) -> Int64:
    """Per address the code that lay there then, by its place in `found`; -1 for none. What was found later counts where
    nothing was before: the sampler reads mappings after it has met what it does not know.
    """
    module: Int64 = np.full(len(addresses), -1, np.int64)
    for number in range(len(found) - 1, -1, -1):
        each = found[number]
        module[(addresses >= np.uint64(each.begin)) & (addresses < np.uint64(each.end))] = number
    first = np.array([each.ticks for each in found], np.uint64)
    if len({each.begin for each in found}) == len(found):
        return module
    for number, each in enumerate(found):
        here = (addresses >= np.uint64(each.begin)) & (addresses < np.uint64(each.end)) & (first[number] <= ticks)
        module[here] = number
    return module
