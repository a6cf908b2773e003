from __future__ import annotations

import struct
from itertools import product

import pytest

from pinprof.collect.native.batches import Batches
from pinprof.collect.native.events import call_events
from pinprof.collect.native.tracefs import READ_SIZES, Tracepoints
from pinprof.data import perf_format as perf

ENTER, LEAVE = call_events({"batches": Tracepoints(11, 12, batched=True)})
COPIES, *_ = call_events({"copies": Tracepoints(21, 22)})
SECRET = int.from_bytes(b"hunter2!", "little")
BATCHES = Batches([(ENTER, (7, 8)), (LEAVE, (10,)), (COPIES, (11,))])


def record(number: int, pieces: int, sizes: list[int], chain: tuple[int, ...] = (1, 2, 3)) -> bytes:
    """As the kernel writes it: `header, id, ip, pid, tid, time, cpu`, the call chain, and what was read."""
    read = struct.pack(f"<QQ4Q{READ_SIZES}QQ", 5, 0x401000, 1, 2, 3, pieces, *sizes, pieces)
    fields = struct.pack("<QQiiQII", number, 0x401000, 70, 71, 1000, 3, 0)
    stack = struct.pack(f"<Q{len(chain)}Q", len(chain), *chain)
    body = fields + stack + struct.pack("<I", len(read) + 4) + read + bytes(4)
    return struct.pack("<IHH", perf.RECORD_SAMPLE, 2, 8 + len(body)) + body


def beyond(pieces: int) -> list[int]:
    return [*range(1, min(pieces, READ_SIZES) + 1), *[SECRET] * max(READ_SIZES - pieces, 0)]


@pytest.mark.parametrize("pieces", [0, 1, 3, 127, 128, 129, 2**64 - 1])
@pytest.mark.parametrize("number", [7, 8])
def test_nothing_behind_the_last_size_of_a_batch_is_left(number: int, pieces: int) -> None:
    given = record(number, pieces, beyond(pieces))
    cleaned = b"".join(BATCHES.cleaned([given]))
    kept = record(number, pieces, [*range(1, min(pieces, READ_SIZES) + 1)] + [0] * max(READ_SIZES - pieces, 0))
    end = len(kept) - 16  # of the sizes: behind them stands how many they are
    assert cleaned[:end] == kept[:end]
    assert len(cleaned) == len(given)
    assert b"hunter2" not in cleaned


def test_records_of_a_batch_may_be_divided_by_the_end_of_a_ring() -> None:
    records = [
        record(11, 3, beyond(3)),
        record(7, 3, beyond(3)),
        record(8, 2, beyond(2), chain=()),
    ]
    whole = b"".join(records)
    for cut in (0, 8, len(records[0]) + 100, len(records[0]) + len(records[1]) + 16, len(whole)):
        cleaned = b"".join(BATCHES.cleaned([whole[:cut], memoryview(whole)[cut:]]))
        assert cleaned[: len(records[0])] == records[0], "of other events everything is kept"
        assert b"hunter2" not in cleaned[len(records[0]) :]


def test_a_batch_that_is_not_laid_out_as_its_event_says_is_all_zeros() -> None:
    for number, length in product((7, 8), (16, 40, 56, 72, 200, 1100)):
        fields = struct.pack("<Q", number) + struct.pack("<Q", SECRET) * ((length - 16) // 8)
        given = struct.pack("<IHH", perf.RECORD_SAMPLE, 2, 8 + len(fields)) + fields
        assert b"hunter2" not in b"".join(BATCHES.cleaned([given]))
