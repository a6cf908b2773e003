"""Sizes of batched calls: of what the kernel read behind the end of an array, no byte goes from the rings to the file.

A definition reads as many sizes as it can (tracefs.fetched), and behind a shorter array lies any memory of the program.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.tracefs import ARGUMENTS_END, READ_SIZES
from pinprof.data import perf_format as perf

_NUMBER = struct.Struct("<Q")
_IDENTIFIER = 8
"""Where a sample says whose it is."""


class Batches:
    """Which events have sizes of a batch; `events` as they are written, with the ids of their instances."""

    def __init__(self, events: Iterable[tuple[EventSpec, Sequence[int]]]) -> None:
        self._kinds = {number: spec.attr.sample_type for spec, numbers in events if spec.batched for number in numbers}

    def cleaned(self, pieces: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        """Whole records, with zeros where no size stands."""
        if not self._kinds:
            return list(pieces)
        records, at = bytearray(b"".join(pieces)), 0
        while at + perf.RECORD_HEADER.size <= len(records):
            kind, _, size = perf.RECORD_HEADER.unpack_from(records, at)
            if size < perf.RECORD_HEADER.size:
                break
            if kind == perf.RECORD_SAMPLE and size >= _IDENTIFIER + _NUMBER.size:
                (number,) = _NUMBER.unpack_from(records, at + _IDENTIFIER)
                if (sample_type := self._kinds.get(number)) is not None:
                    begin = _beyond(records, at, at + size, sample_type)
                    records[begin : at + size] = bytes(max(at + size - begin, 0))
            at += size
        return [memoryview(records)]


def _beyond(records: bytearray, at: int, end: int, sample_type: int) -> int:
    """Where what is no size begins: behind the id, of a sample that is not laid out as its event says."""
    place = at + perf.RECORD_HEADER.size + 8 * (sample_type & perf.FIXED_FIELDS).bit_count()
    if place + 8 <= end:
        place += 8 + 8 * int(_NUMBER.unpack_from(records, place)[0])
    # u32 size, then what was read.
    sizes = place + 4 + ARGUMENTS_END
    last = sizes + 8 * READ_SIZES
    if last + 8 > end:
        return at + _IDENTIFIER + _NUMBER.size
    pieces = int(_NUMBER.unpack_from(records, last)[0])
    return sizes + 8 * min(pieces, READ_SIZES)
