"""The samples and distinct call chains of a whole perf.data file, put together chunk by chunk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pinprof.base.columns import GrowingColumn, growing
from pinprof.data.gpu_functions import READ_PIECES
from pinprof.data.model import Int32, Int64, UInt64
from pinprof.read.perf.chains import NO_CHAIN, ChainGatherer, Chains
from pinprof.read.perf.chunk import Reduced
from pinprof.read.perf.samples import PAYLOAD_WORDS, Chunk, RawSamples, Readings
from pinprof.read.perf.workers import Pending


class SampleGatherer:
    """Grows the sample columns chunk by chunk; a column with one value takes no room."""

    def __init__(self, reduce: Callable[[Chunk], Pending], ahead: int, samples: int, chains: ChainGatherer) -> None:
        """`reduce` may go on with up to `ahead` chunks while others are read; `samples` is how many there may be.

        `chains` takes those that reducers pass on.
        """
        self.unknown_records = self.corrupt_bytes = 0
        self.missing = 0
        """Samples whose user call chain was to come in a record of its own and did not."""
        self._reduce = reduce
        self._ahead = ahead
        self._pending: deque[Pending] = deque()
        self._columns = {name: growing(column.dtype, samples) for name, column in vars(RawSamples.empty()).items()}
        self._chains = chains
        self._numbers: dict[int, GrowingColumn] = {}
        """Per reducer the numbers of its chains among those of the recording."""
        self._payloads: list[UInt64] = []
        self._batches: list[tuple[Int64, UInt64]] = []
        self._readings: list[Readings] = []
        self._kept = 0

    def take(self, chunk: Chunk) -> None:
        """Take in some samples."""
        self._pending.append(self._reduce(chunk))
        while len(self._pending) > self._ahead:
            self._add(self._pending.popleft()())

    def finish(self) -> None:
        """Wait for what is still being reduced."""
        while self._pending:
            self._add(self._pending.popleft()())

    def result(self) -> tuple[RawSamples, Chains]:
        """All samples, and their distinct callchains; once, at the end."""
        return RawSamples(**{name: column.whole() for name, column in self._columns.items()}), self._chains.result()

    def payload(self) -> UInt64:
        """Tracepoints' own fields as rows of PAYLOAD_WORDS, one for each sample where any event has them, else none."""
        none = np.zeros((0, PAYLOAD_WORDS), np.uint64)
        return np.concatenate([none, *self._payloads])

    def batches(self) -> tuple[Int64, UInt64]:
        """The samples that have sizes of a batch, and these: READ_PIECES columns."""
        none = (np.zeros(0, np.int64), np.zeros((0, READ_PIECES), np.uint64))
        rows, sizes = zip(*(none, *self._batches), strict=True)
        return np.concatenate(rows), np.concatenate(sizes)

    def readings(self) -> Readings:
        """The counters that were read at the samples."""
        return Readings.empty().joined(*self._readings)

    def _add(self, chunk: Reduced) -> None:
        samples = chunk.samples
        chain = samples.chain if chunk.chains is None else self._numbered(chunk, chunk.chains)
        for name, column in (vars(samples) | {"chain": chain}).items():
            self._columns[name].extend(column)
        if chunk.payload is not None:
            self._payloads.append(chunk.payload)
        rows, sizes = chunk.batches
        if len(rows):
            self._batches.append((self._kept + rows, sizes))
        if len(chunk.readings):
            self._readings.append(replace(chunk.readings, row=self._kept + chunk.readings.row))
        self._kept += len(samples)
        self.missing += chunk.missing
        self.unknown_records += chunk.unknown_records
        self.corrupt_bytes += chunk.corrupt_bytes

    def _numbered(self, chunk: Reduced, new: Chains) -> Int32:
        """Per sample the number of its chain among those of the recording."""
        if not chunk.first:
            self._numbers[chunk.reducer] = GrowingColumn(np.int32)
        numbers = self._numbers[chunk.reducer]
        numbers.extend(self._chains.add(new))
        number: Int32 = np.append(numbers.view, np.int32(NO_CHAIN))[chunk.samples.chain]
        return number
