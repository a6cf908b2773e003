"""CPU samples with callchains from an Nsight Systems export.

nsys resolves user frames itself. From the kernel it keeps at most the innermost address, without a name; a kallsyms of
the recording boot gives it one. A whole callchain is kept for one sample in SAMPLES_PER_BACKTRACE, of the others the
innermost frame alone. Addresses are signed in SQLite: those of the kernel are negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import ascending, numbered_pairs, unpack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import KERNEL, NO_NODE, Bool, Event, Int32, Int64, Losses, SampleTable, StackTable, UInt64
from pinprof.read.assembly import KERNEL_IMAGE, UNKNOWN, StackBuilder, dso_of
from pinprof.read.nsys import schema
from pinprof.read.nsys.numbers import Numbers, number
from pinprof.read.nsys.tables import ExportTables, address_column, time_order
from pinprof.read.symbols.resolver import Resolver

_UNKNOWN_KERNEL = "[unknown kernel]"
_UNKNOWN_NAMES = ("[Unknown]", "[unknown]", "")
_MARKERS = ("[Broken backtraces]", "[Max depth]")
"""Entries that stand for missing outer frames."""
_CPU_CLOCK = "0"
"""Index of the CPU clock among the software events of nsys."""


@dataclass(frozen=True)
class CpuSamples:
    """What the CPU sampling of one export says."""

    events: tuple[Event, ...]
    samples: SampleTable
    stacks: StackTable
    losses: Losses


def read_samples(
    tables: ExportTables, facts: dict[str, str], pids: NDArray[np.int32] | None, resolver: Resolver
) -> CpuSamples:
    """Samples of the given processes, of all when None; `facts` are rows of META_DATA_CAPTURE."""
    raw = tables.read_timed(schema.SAMPLES)
    total = len(raw["start"])
    if pids is not None:
        ours = np.isin(raw["pid"], pids)
        raw = {name: values[ours] for name, values in raw.items()}
    order = time_order(raw["start"])
    raw = {name: values[order] for name, values in raw.items()}
    count = len(raw["start"])
    event = _event(facts)
    builder = StackBuilder()
    chains = _chains(tables, raw["id"])
    stack, ip, cut, unresolved = _stacks(tables, chains, count, builder, resolver)
    notes = []
    if count and not np.any(address_column(chains["ip"]) >> np.uint64(63)):
        notes.append("nsys sampled only user code, so kernel time is missing.")
    if count and (nth := facts.get(schema.SAMPLES_PER_CHAIN, "1")) != "1":
        notes.append(
            f"nsys kept a call chain for one CPU sample in {nth}; the others have only the innermost function."
        )
    samples = SampleTable.of(
        count,
        time_ns=raw["start"],
        pid=raw["pid"],
        tid=raw["tid"],
        cpu=raw["cpu"],
        weight=event.period or 1,
        stack=stack,
        ip=ip,
    )
    losses = Losses(
        truncated_chains=cut,
        unresolved_frames=unresolved,
        missing_stacks=int(np.count_nonzero(stack == NO_NODE)),
        other_processes=total - count,
        notes=tuple(notes),
    )
    return CpuSamples((event,) if count else (), samples, builder.table(), losses)


def _event(facts: dict[str, str]) -> Event:
    """Nanoseconds where the CPU clock was sampled at a known period, else samples: cycles have no common length."""
    period = facts.get(schema.SAMPLING_PERIOD, "")
    clock = facts.get(schema.SAMPLING_TRIGGER) == "Software" and facts.get(schema.SAMPLING_EVENT) == _CPU_CLOCK
    length = number(period)
    if clock and length is not None and 0 < length < 10**12:
        return Event("cpu-clock", "ns", length, None)
    return Event("cpu-samples", "samples", 1, None)


def _chains(tables: ExportTables, ids: Int64) -> Numbers:
    """Entries of callchains of the samples with these ids, outermost first; `row` is the sample's."""
    raw = tables.read(schema.CHAINS)
    if not len(ids):
        return {name: values[:0] for name, values in raw.items()} | {"row": np.zeros(0, np.int64)}
    by_id = np.argsort(ids, kind="stable")
    place = by_id[np.minimum(np.searchsorted(ids[by_id], raw["id"]), len(ids) - 1)]
    rows = np.flatnonzero(ids[place] == raw["id"])
    rows = rows[np.lexsort((-raw["depth"][rows].astype(np.int64), place[rows]))]
    return {name: values[rows] for name, values in raw.items()} | {"row": place[rows]}


def _stacks(
    tables: ExportTables, chains: Numbers, count: int, builder: StackBuilder, resolver: Resolver
) -> tuple[Int32, UInt64, int, int]:
    """Per sample its node and address; how many chains are cut; how many frames have no name."""
    ip = np.zeros(count, np.uint64)
    leaf = chains["depth"] == 0
    ip[chains["row"][leaf]] = address_column(chains["ip"][leaf])
    frame, named = _frames(tables, chains, builder, resolver)
    cut = len(ascending(chains["row"][frame < 0]))
    kept = np.flatnonzero(frame >= 0)
    row, frames = chains["row"][kept], frame[kept].astype(np.uint64)
    node = np.full(count, NO_NODE, np.int32)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    level = np.arange(len(row)) - np.repeat(first, np.diff(np.append(first, len(row))))
    by_level = np.argsort(level, kind="stable")
    bounds = np.flatnonzero(np.diff(level[by_level])) + 1
    for entries in np.split(by_level, bounds) if len(by_level) else ():
        node[row[entries]] = builder.children(node[row[entries]], frames[entries])
    return node, ip, cut, int(np.count_nonzero(~named[kept]))


def _frames(tables: ExportTables, chains: Numbers, builder: StackBuilder, resolver: Resolver) -> tuple[Int64, Bool]:
    """Per entry its frame, -1 for entries that stand for missing ones; and whether it has a name."""
    address = address_column(chains["ip"])
    kernel = (chains["kernel"] > 0) | (address >> np.uint64(63) > 0)
    frame, named = np.full(len(address), -1, np.int64), np.zeros(len(address), np.bool_)
    in_kernel, in_user = np.flatnonzero(kernel), np.flatnonzero(~kernel)
    if len(in_kernel):
        distinct, index = np.unique(address[in_kernel], return_inverse=True)
        names, dsos, which = resolver.kernel(distinct)
        made = [
            builder.frame(resolver.names[name] if name >= 0 else _UNKNOWN_KERNEL, dsos[dso], KERNEL)
            for name, dso in zip(names.tolist(), which.tolist(), strict=True)
        ]
        frame[in_kernel], named[in_kernel] = np.array(made)[index], (names >= 0)[index]
    if len(in_user):
        pairs, pair = numbered_pairs(chains["symbol"][in_user], chains["module"][in_user])
        distinct, index = np.unique(pair << 1 | (chains["unresolved"][in_user] > 0), return_inverse=True)
        symbols, modules = unpack(pairs[distinct >> 1])
        texts = tables.strings(np.concatenate([symbols, modules]))
        frames = [
            _user_frame(builder, texts.get(symbol, ""), texts.get(module, ""), bool(unresolved & 1))
            for symbol, module, unresolved in zip(symbols.tolist(), modules.tolist(), distinct.tolist(), strict=True)
        ]
        frame[in_user] = np.array([number for number, _ in frames])[index]
        named[in_user] = np.array([has_name for _, has_name in frames])[index]
    return frame, named


def _user_frame(builder: StackBuilder, symbol: str, module: str, unresolved: bool) -> tuple[int, bool]:
    if symbol in _MARKERS:
        return -1, False
    dso, mode = (UNKNOWN, 0) if module in _UNKNOWN_NAMES else dso_of(module)
    if dso == KERNEL_IMAGE:
        return builder.frame(_UNKNOWN_KERNEL, dso, mode), False
    if unresolved or symbol in _UNKNOWN_NAMES:
        return builder.frame(dso.name if dso.name.startswith("[") else f"[{dso.name}]", dso, mode), False
    return builder.frame(symbol, dso, mode), True
