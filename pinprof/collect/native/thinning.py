"""Keeps one sample in 2^n and gives it the weight of those left out, on the way from the rings to the file.

    samples with a period       of a thread, one in 2^n; its period becomes the sum of all since the one before
    samples without             the same; the upper half of its CPU field counts the samples left out (samples.py)
    waits                       of a thread, short ones are joined until they are 4 ms together, or 8: the last one
                                is kept, and begins earlier by the length of those left out, its sample with it
    wake-ups                    those that end a wait which is kept, or one that began before thinning

All threads are thinned alike, and the sums of every thread with a kept sample stay what they were: what is left over
when a thread ends, or the recording, comes with the last sample that was left out. Of threads and processes that end
before, `short_lived` keeps some. Which one of 2^n is kept is drawn at random, so that it keeps no
step with what a program repeats. Other records pass as they are.

A wait is a sample, the record that its thread leaves a processor and the one that it returns, perhaps in another ring.
Rings are read one after another, so records as young as the reading itself wait for the next one.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import field

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.native import perf_event as pe
from pinprof.collect.native.events import WAKEUPS, EventSpec
from pinprof.collect.native.short_lived import Pool, ShortLivedProcesses
from pinprof.collect.pace import STEPS
from pinprof.data import perf_format as perf

JOINED_NS = 2_000_000
"""Waits are joined until they are as long as this, times two for each step."""

_WORD, _HALF = struct.Struct("<Q"), struct.Struct("<I")
_FORK, _TOLD, _SAMPLE, _OUT, _WAKING, _IN, _GONE = range(7)
_LINGERS_NS = 50_000_000
"""How long after its end a thread may still have records: it leaves its processor last of all."""
OFF_CPU = "off-cpu"
"""How reports call waits."""
_FORK_TIME = 24
"""In the record of a beginning."""
_MOST_LEFT_OUT = (1 << 32) - 1
_WOKEN = 4 + 24
"""From where a sample's raw data begin, in bytes: their size, then sched_waking's fields before the woken thread."""
_DELIVERED = 2
"""How often the kernel writes a wake-up: to the waker's event and to the woken thread's."""


@dataclass(frozen=True)
class _Kind:
    """An event, and where its samples have their fields, in bytes."""

    number: int
    name: str
    tid: int
    time: int
    period: int | None
    cpu: int
    waits: bool
    chain: int | None
    """Of wake-ups, where the call chain begins: the raw data are behind it."""


@dataclass
class _Turn:
    """One thread's samples of one event."""

    left: int
    """The number of further ones until one is kept."""
    over: int
    """The rest of the draw's block."""
    weight: int = 0
    """What was left out since the last that was kept: its periods, or its number."""
    count: int = 0
    """How many these are."""
    kept: bool = False
    """Whether any was kept."""
    last: bytes = b""
    """The sample left out last."""


@dataclass
class _Wait:
    """A wait that has begun."""

    since_ns: int
    """When the stack was taken, and then when the thread left."""
    sample: bytes
    """Empty in a pause of sampling."""
    sampling_ns: int = 0
    """From the one to the other: the recorder's own, as off_cpu.py says, and in no wait."""
    out: bytes = b""
    wakings: list[bytes] = field(default_factory=list)


@dataclass
class _Joined:
    """A thread's waits that were left out since the last that was kept."""

    ns: int = 0
    last: tuple[_Wait, bytes] | None = None
    last_ns: int = 0
    kept: bool = False
    """Whether any wait of the thread was kept."""


@dataclass
class ThinnedCounts:
    """What became of the samples while they were thinned, by event."""

    kept: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, *, kept: bool) -> None:
        """One more."""
        table = self.kept if kept else self.left_out
        table[name] = table.get(name, 0) + 1


class Thinner:
    """Records of one recording; `step` may change between two calls."""

    def __init__(self, events: Sequence[tuple[EventSpec, Sequence[int]]], seed: int = 0) -> None:
        """`events` as they are written, with the ids of their instances."""
        self.step = 0
        self.counts = ThinnedCounts()
        self._kinds: dict[int, _Kind] = {}
        self._random = random.Random(seed)
        self._turns: dict[tuple[int, int], _Turn] = {}
        self._open: dict[int, _Wait] = {}
        self._joined: dict[int, _Joined] = {}
        self._young: list[tuple[int, int, int, bytes]] = []
        self._processes = ShortLivedProcesses()
        self._pools: dict[int, Pool[tuple[bytes, list[bytes]]]] = {}
        self._waits_pool: Pool[tuple[_Joined, list[bytes]]] = Pool()
        """Each with the records of its process."""
        self._awaited: dict[int, int] = {}
        """Records of wake-ups still to be written, of threads whose wait is not held here; without an entry all."""
        common = events[0][0].attr.sample_type
        behind = [bit for bit in perf.TRAILER_WORDS if common & bit]
        # From the end of a record that is no sample.
        self._tid_back = 8 * (len(behind) - behind.index(perf.SAMPLE_TID)) - 4
        self._time_back = 8 * (len(behind) - behind.index(perf.SAMPLE_TIME))
        for spec, numbers in events:
            self._add(spec, numbers)

    def _add(self, spec: EventSpec, numbers: Sequence[int]) -> None:
        """The ids of an event; one that is neither sampled time, faults, waits nor wake-ups passes as it is."""
        kind, wakes = spec.attr.sample_type, spec.name == WAKEUPS
        if not wakes and (spec.attr.type != perf.TYPE_SOFTWARE or spec.always_on):
            return
        place = {bit: 8 * (1 + at) for at, bit in enumerate(bit for bit in perf.SAMPLE_WORDS if kind & bit)}
        entry = _Kind(
            numbers[0] if numbers else 0,
            spec.name,
            place[perf.SAMPLE_TID] + 4,
            place[perf.SAMPLE_TIME],
            place.get(perf.SAMPLE_PERIOD),
            place[perf.SAMPLE_CPU],
            bool(spec.attr.flags & pe.CONTEXT_SWITCH),
            8 * (1 + len(place)) if wakes else None,
        )
        self._kinds |= dict.fromkeys(numbers, entry)

    @property
    def held_bytes(self) -> int:
        """What `flush` would have to write."""
        turns = sum(len(turn.last) for turn in self._turns.values())
        waits = [*self._open.values(), *(joined.last[0] for joined in self._joined.values() if joined.last)]
        chosen = [pool.chosen for pool in self._pools.values()]
        records = [record for one in (*chosen, self._waits_pool.chosen) if one for record in one[1]]
        turns += sum(map(len, records)) + self._processes.held_bytes
        return turns + sum(len(wait.sample) + 2 * len(wait.out) + sum(map(len, wait.wakings)) for wait in waits)

    @property
    def idle(self) -> bool:
        """Whether records pass as they are."""
        return not self.step and not (self._turns or self._open or self._joined or self._young or self._processes)

    def thin(self, records: bytearray, horizon_ns: int) -> list[bytes | memoryview]:
        """What is to be written of whole records; of waits nothing that is younger than `horizon_ns`."""
        view = memoryview(records)
        kept: list[tuple[int, int]] = []
        extra: list[bytes] = []
        last: dict[tuple[int, int], tuple[_Turn, int, int]] = {}
        place, end = 0, len(records)
        while place + 8 <= end:
            kind, misc, size = perf.RECORD_HEADER.unpack_from(records, place)
            following = place + size
            if size < 8 or following > end:
                break
            stays = True
            if kind == perf.RECORD_SAMPLE:
                event = self._kinds.get(_WORD.unpack_from(records, place + 8)[0])
                if event is not None and event.waits:
                    # What was copied from outside (standing.py) begins no wait.
                    stays = misc & perf.MISC_CPUMODE_MASK == perf.MISC_USER
                    if not stays:
                        self._note(_SAMPLE, records, place, following, place + event.time, place + event.tid)
                elif event is not None and event.chain is not None:
                    stays = False
                    chain = place + event.chain
                    woken = chain + 8 * (1 + _WORD.unpack_from(records, chain)[0]) + _WOKEN
                    self._note(_WAKING, records, place, following, place + event.time, woken)
                elif event is not None:
                    stays = self._take(event, records, place, following, last)
                    if stays and self.step:
                        pid = _HALF.unpack_from(records, place + event.tid - 4)[0]
                        extra += self._processes.release(pid, early=True)
            elif kind in (perf.RECORD_SWITCH, perf.RECORD_SWITCH_CPU_WIDE):
                stays = False
                what = _OUT if misc & perf.MISC_SWITCH_OUT else _IN
                self._note(what, records, place, following, following - self._time_back, following - self._tid_back)
            elif kind == perf.RECORD_EXIT:
                tid, when = _HALF.unpack_from(records, place + 16)[0], _WORD.unpack_from(records, place + 24)[0]
                self._young.append((when + _LINGERS_NS, _GONE, tid, bytes(records[place + 8 : place + 12])))
                stays = self._told(_TOLD, records, place, following)
            elif kind == perf.RECORD_FORK:
                stays = self._told(_FORK, records, place, following)
            elif kind in (perf.RECORD_COMM, perf.RECORD_MMAP2):
                stays = self._told(_TOLD, records, place, following)
            if stays:
                if kept and kept[-1][1] == place:
                    kept[-1] = (kept[-1][0], following)
                else:
                    kept.append((place, following))
            place = following
        for turn, start, finish in last.values():
            turn.last = bytes(view[start:finish])
        extra += self._shown(self._waits(horizon_ns))
        if not self.step:
            extra += self.flush()
        return [*(view[start:finish] for start, finish in kept), *extra]

    def flush(self) -> list[bytes]:
        """What stands for all that was left out and not yet made up for; nothing is held back then."""
        held = list(self._shown(self._waits(1 << 63)))
        tids = {tid for _, tid in self._turns} | set(self._open) | set(self._joined)
        for tid in tids:
            held += self._shown(self._ended(tid))
        for pool in self._pools.values():
            held += self._shown(self._of_pool(pool))
        return [*held, *self._shown(self._of_waits_pool()), *self._processes.flush()]

    def _shown(self, records: Iterator[bytes]) -> Iterator[bytes]:
        """Records, and before samples what is known of their processes."""
        for record in records:
            if record and self.step and perf.RECORD_HEADER.unpack_from(record)[0] == perf.RECORD_SAMPLE:
                tid = self._kinds[_WORD.unpack_from(record, 8)[0]].tid
                yield from self._processes.release(_HALF.unpack_from(record, tid - 4)[0])
            yield record

    def _told(self, what: int, records: bytearray, start: int, end: int) -> bool:
        """Whether a record about a process is kept at once; else it takes its turn in the order of time."""
        if self.step:
            when, tid = _WORD.unpack_from(records, end - self._time_back)[0], _HALF.unpack_from(records, start + 8)[0]
            self._young.append((when, what, tid, bytes(records[start:end])))
        return not self.step

    def _take(
        self,
        event: _Kind,
        records: bytearray,
        start: int,
        end: int,
        last: dict[tuple[int, int], tuple[_Turn, int, int]],
    ) -> bool:
        """Whether a sample is kept; it has the weight of all since the one before then."""
        key = event.number, int(_HALF.unpack_from(records, start + event.tid)[0])
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn(0, 0)
            self._draw(turn)
        turn.left -= 1
        if self.step > STEPS or (self.step and turn.left > 0 and turn.weight < _MOST_LEFT_OUT):
            turn.weight += 1 if event.period is None else _WORD.unpack_from(records, start + event.period)[0]
            turn.count += 1
            last[key] = turn, start, end
            self.counts.add(event.name, kept=False)
            return False
        _weigh(event, records, start, turn.weight)
        last.pop(key, None)
        turn.weight, turn.count, turn.kept, turn.last = 0, 0, True, b""
        self._draw(turn)
        self.counts.add(event.name, kept=True)
        return True

    def _draw(self, turn: _Turn) -> None:
        """One of the next block of 2^step samples."""
        many = 1 << min(self.step, STEPS)
        chosen = self._random.randint(1, many)
        turn.left, turn.over = turn.over + chosen, many - chosen

    def _note(self, what: int, records: bytearray, start: int, end: int, time: int, tid: int) -> None:
        when, who = _WORD.unpack_from(records, time)[0], _HALF.unpack_from(records, tid)[0]
        if who:  # the idle loop waits for nothing
            self._young.append((when, what, who, bytes(records[start:end])))

    def _waits(self, horizon_ns: int) -> Iterator[bytes]:
        """What is to be written of the waits, of records older than the horizon."""
        longest = JOINED_NS << min(self.step, STEPS) if self.step else 0
        self._young.sort(key=_in_order)
        ready = next((at for at, entry in enumerate(self._young) if entry[0] >= horizon_ns), len(self._young))
        now, self._young = self._young[:ready], self._young[ready:]
        for when, what, tid, record in now:
            wait = self._open.get(tid)
            if what == _GONE:
                pid = _HALF.unpack(record)[0]
                yield from self._ended(tid, pid)
                self._processes.ended(pid, tid)
            elif what == _FORK:
                pid, parent, child = struct.unpack_from("<III", record, 8)
                yield from self._processes.forked(pid, parent, child, record)
            elif what == _TOLD:
                yield from self._processes.take_record(tid, record)
            elif what == _SAMPLE:
                if wait is not None:
                    yield from (wait.sample, wait.out)
                self._open[tid] = _Wait(when, record)
            elif what == _WAKING:
                yield from self._woken(tid, wait, record)
            elif wait is None and what == _OUT and self.step:
                # In a pause of sampling (switching.py), waits have no samples.
                self._open[tid] = _Wait(when, b"", out=record)
            elif wait is None or (what == _IN and not wait.out) or (what == _OUT and wait.out):
                yield record
            elif what == _OUT:
                wait.out, wait.sampling_ns, wait.since_ns = record, when - wait.since_ns, when
            else:
                del self._open[tid]
                yield from self._back(tid, wait, when, record, longest)
        for tid, wait in list(self._open.items()):
            # However it ends, it is long enough.
            if wait.out and horizon_ns - wait.since_ns >= longest and self.step <= STEPS:
                del self._open[tid]
                self._awaited[tid] = _DELIVERED
                yield from self._kept(tid, wait, b"")

    def _woken(self, tid: int, wait: _Wait | None, record: bytes) -> Iterator[bytes]:
        """A wake-up goes with the wait that it ends, wherever that goes."""
        if wait is not None:
            if len(wait.wakings) < _DELIVERED:
                wait.wakings.append(record)
            return
        left = self._awaited.get(tid, _DELIVERED) if self.step else _DELIVERED
        if left:
            self._awaited[tid] = left - 1
            yield record

    def _back(self, tid: int, wait: _Wait, when: int, record: bytes, longest: int) -> Iterator[bytes]:
        """A thread runs again: its wait is kept if it is long enough with those before."""
        joined = self._joined.setdefault(tid, _Joined())
        length = when - wait.since_ns
        if joined.ns + length >= longest and self.step <= STEPS:
            yield from self._kept(tid, wait, record)
            return
        joined.ns += length
        joined.last, joined.last_ns = (wait, record), length
        self.counts.add(OFF_CPU, kept=False)

    def _kept(self, tid: int, wait: _Wait, record: bytes) -> Iterator[bytes]:
        """A wait with the length of those left out before it."""
        joined = self._joined.get(tid, _Joined())
        self._joined[tid] = _Joined(kept=True)
        self.counts.add(OFF_CPU, kept=True)
        yield from self._begun_earlier(wait, joined.ns)
        yield record

    def _begun_earlier(self, wait: _Wait, ns: int) -> Iterator[bytes]:
        """A wait, but for its end; where others are in it, its sample is as old as its beginning."""
        if wait.sample:
            time = self._kinds[_WORD.unpack_from(wait.sample, 8)[0]].time
            yield _earlier(wait.sample, time, ns - wait.sampling_ns if ns else 0)
        yield _earlier(wait.out, len(wait.out) - self._time_back, ns)
        yield from wait.wakings

    def _ended(self, tid: int, pid: int | None = None) -> Iterator[bytes]:
        """What stands for the rest of a thread; those of `pid` are gone, and share what is kept where none was."""
        pooled = pid is not None and self.step
        records = self._processes.held_records(pid) if pid is not None else None
        for kind in {kind.number: kind for kind in self._kinds.values()}.values():
            turn = self._turns.pop((kind.number, tid), None)
            if turn is not None and turn.last:
                if pooled and not turn.kept:
                    pool = self._pools.setdefault(kind.number, Pool())
                    pool.add(self._random, turn.count, turn.weight, (turn.last, records or []))
                    if pool.size >= 1 << self.step and self.step <= STEPS:
                        yield from self._of_pool(pool)
                else:
                    yield self._with_weight(turn.last, turn.weight)
        joined = self._joined.pop(tid, None)
        if joined is not None and joined.last is not None:
            if pooled and not joined.kept and records is not None:
                self._waits_pool.add(self._random, joined.ns, joined.ns, (joined, records))
                if self._waits_pool.size >= JOINED_NS << self.step and self.step <= STEPS:
                    yield from self._of_waits_pool()
            else:
                yield from self._as_long_as(joined, joined.ns)
        begun = self._open.pop(tid, None)
        # Nobody waits who is gone.
        if begun is not None and not pooled:
            yield begun.sample
            yield begun.out
            yield from begun.wakings
        self._awaited.pop(tid, None)

    def _of_pool(self, pool: Pool[tuple[bytes, list[bytes]]]) -> Iterator[bytes]:
        if (found := pool.emptied()) is not None:
            (sample, records), weight = found
            yield from records
            yield self._with_weight(sample, weight)

    def _of_waits_pool(self) -> Iterator[bytes]:
        if (found := self._waits_pool.emptied()) is not None:
            (joined, records), ns = found
            for record in records:
                if perf.RECORD_HEADER.unpack_from(record)[0] == perf.RECORD_FORK:
                    record = _earlier(record, _FORK_TIME, ns)
                    record = _earlier(record, len(record) - self._time_back, ns)
                yield record
            yield from self._as_long_as(joined, ns)

    def _with_weight(self, record: bytes, weight: int) -> bytes:
        event, sample = self._kinds[_WORD.unpack_from(record, 8)[0]], bytearray(record)
        _weigh(event, sample, 0, weight - (1 if event.period is None else _WORD.unpack_from(sample, event.period)[0]))
        return bytes(sample)

    def _as_long_as(self, joined: _Joined, ns: int) -> Iterator[bytes]:
        """The last of joined waits, of this length."""
        assert joined.last is not None
        wait, record = joined.last
        yield from self._begun_earlier(wait, ns - joined.last_ns)
        yield record


def _in_order(entry: tuple[int, int, int, bytes]) -> tuple[int, int]:
    return entry[0], entry[1]


def _weigh(event: _Kind, records: bytearray, start: int, more: int) -> None:
    """Give a sample the weight of those left out before it as well."""
    if not more:
        return
    if event.period is not None:
        place = start + event.period
        _WORD.pack_into(records, place, _WORD.unpack_from(records, place)[0] + more)
    else:
        _HALF.pack_into(records, start + event.cpu + 4, min(more, _MOST_LEFT_OUT))


def _earlier(record: bytes, place: int, ns: int) -> bytes:
    """A record whose time is so much earlier."""
    if not ns or not record:
        return record
    when = _WORD.unpack_from(record, place)[0] - ns
    return record[:place] + _WORD.pack(max(when, 0)) + record[place + 8 :]
