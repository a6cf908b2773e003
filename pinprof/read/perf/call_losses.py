"""When records of CUDA calls may be missing: found no room in a ring, or were given up (calls.data).

Calls that grant and free memory share their rings with records of mappings alone (collect/native/events.py), so what is
lost of others says nothing of these. Each ring says when it had room again; its last record before that says since when
it had none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.base.columns import Bool, Int64
from pinprof.data import perf_format as perf
from pinprof.data.activity import GivenUp
from pinprof.data.gpu_functions import MEMORY
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import EventSource
from pinprof.read.perf.passes import Raw

ENTER, LEAVE = "call-enter", "call-leave"
_ALWAYS = -1
_NEVER = 1 << 62

Interval = tuple[int, int]
"""From one time to another."""


class CallLosses:
    """What the records of a file say of those that are missing."""

    def __init__(self, raw: Raw, sources: Sequence[EventSource], given_up: Sequence[GivenUp]) -> None:
        self._raw = raw
        names = [source.name.partition("/") for source in sources]
        self._kinds = [kind for _, _, kind in names]
        self._of_memory = np.array([kind in ("", MEMORY) for kind in self._kinds], np.bool_)
        self._by_event = all(source.attr.read_format & perf.FORMAT_LOST for source in sources)
        self._lost: dict[str, set[str]] = {kind: set() for kind in self._kinds}
        """Per kind which of its events lost some."""
        for place in raw.lost_by_source:
            self._lost[self._kinds[place]].add(names[place][0].removesuffix("-bare"))
        self._written: dict[tuple[bool, int], Int64] = {}
        """When each ring had a record: of memory or not, of a CPU."""
        self._given_up = [part for part in given_up if part.kind == MEMORY]

    @property
    def lost_memory(self) -> bool:
        """Whether records of calls that grant or free memory, or of mappings, may be among those that were lost."""
        return bool(self._gaps_of_memory())

    @property
    def of_memory(self) -> list[Interval]:
        """When these may be missing, for that reason or because they were not traced."""
        return sorted([*self._gaps_of_memory(), *((part.start_ns, part.end_ns) for part in self._given_up)])

    def _gaps_of_memory(self) -> list[Interval]:
        told = [
            loss
            for loss in self._raw.losses
            if not self._by_event or (loss.source >= 0 and self._of_memory[loss.source])
        ]
        gaps = [self._gap(loss) for loss in told]
        lost = sum(count for place, count in self._raw.lost_by_source.items() if self._of_memory[place])
        if lost > sum(loss.lost for loss in told):
            gaps.append((_ALWAYS, _NEVER))
        return gaps

    def across(self, entered: Int64, left: Int64) -> Bool:
        """Per pair of an entry and a return, rows of samples, whether the return of the one and the entry of the other
        may be missing between them.
        """
        samples = self._raw.samples
        start, end = samples.clock[entered], samples.clock[left]
        missing = np.zeros(len(entered), np.bool_)
        for cpu in {loss.cpu for loss in self._raw.losses if loss.cpu >= 0}:
            gaps = sorted(self._gap(loss) for loss in self._raw.losses if loss.cpu == cpu)
            since, until = (np.array([*column, _NEVER], np.int64) for column in zip(*gaps, strict=True))
            here = (samples.cpu[entered] == cpu) | (samples.cpu[left] == cpu)
            missing |= here & (until[np.searchsorted(since[:-1], start)] <= end)
        # Of a part of a recording nobody counts in the end.
        both = [not self._raw.lost_by_source or {ENTER, LEAVE} <= self._lost[kind] for kind in self._kinds]
        return missing & np.array(both, np.bool_)[samples.source[entered]]

    def _gap(self, loss: rec.Loss) -> Interval:
        """Since the last record of its ring before there was room again."""
        if loss.cpu < 0:
            return _ALWAYS, _NEVER
        of_memory = loss.source >= 0 and bool(self._of_memory[loss.source])
        key = of_memory, loss.cpu
        if key not in self._written:
            samples = self._raw.samples
            mine = (self._of_memory[samples.source] == of_memory) & (samples.cpu == loss.cpu)
            self._written[key] = np.sort(samples.clock[mine])
        place = int(np.searchsorted(self._written[key], loss.clock))
        return int(self._written[key][place - 1]) if place else _ALWAYS, loss.clock
