"""Records of tasks in packed rows: they come back as they were, in the order of time, and take little memory."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from pinprof.read.perf.mappings import AddressSpaces, Spells, TaskRecord
from pinprof.read.perf.packed_records import PackedRecords
from pinprof.read.perf.records import CommRecord, DataArea, ForkRecord, MapRecord

INT32, UINT64 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**64 - 1)
TEXT = st.sampled_from(["", "app", "/usr/bin/a b", "\ufffd"])
RECORDS = st.one_of(
    st.builds(MapRecord, INT32, UINT64, UINT64, UINT64, TEXT, TEXT),
    st.builds(CommRecord, INT32, INT32, TEXT, st.booleans()),
    st.builds(ForkRecord, INT32, INT32, INT32, INT32, st.booleans()),
)
ROW_BYTES = 64
PROCESS_BYTES = 1500
"""Of a process that maps ten files."""


@given(st.lists(st.tuples(st.integers(0, 3), RECORDS)))
def test_records_come_back_in_the_order_of_time(tasks: list[tuple[int, TaskRecord]]) -> None:
    packed = PackedRecords[TaskRecord]()
    for time, record in tasks:
        packed.add(time, record)
    assert len(packed) == len(tasks)
    assert list(packed) == tasks
    packed.sort()
    tasks.sort(key=lambda task: task[0])
    assert list(packed) == tasks
    packed.drop_mappings()
    assert list(packed) == [task for task in tasks if not isinstance(task[1], MapRecord)]


def test_areas_have_their_protection_and_end_where_addresses_do() -> None:
    areas = PackedRecords[DataArea]()
    areas.add(5, DataArea(5, 7, 8, 0x1000, 0x3000, 3, 0x22, "/dev/zero"))
    areas.add(6, DataArea(6, 7, 8, 2**64 - 1, 2**65 - 2, 2**32 - 1, 2**32 - 1, ""))
    assert list(areas) == [
        (5, DataArea(5, 7, 8, 0x1000, 0x3000, 3, 0x22, "/dev/zero")),
        (6, DataArea(6, 7, 8, 2**64 - 1, 2**64 - 1, 2**32 - 1, 2**32 - 1, "")),
    ]


def test_many_short_processes_take_little_memory() -> None:
    tracemalloc.start()
    try:
        packed, processes = PackedRecords[TaskRecord](), 500
        for number in range(processes):
            pid, start = 1000 + number, 0x7F0000000000 + number * 0x10000000
            packed.add(10**12 + 2 * number, ForkRecord(pid, 7, pid, 7, clones=True))
            for file in range(10):
                place = start + file * 0x100000
                packed.add(10**12 + 2 * number + 1, MapRecord(pid, place, place + 0x1000, 0, f"/lib/{file}.so", ""))
        held = tracemalloc.get_traced_memory()[0]
        assert held < ROW_BYTES * 11 * processes
        spaces = AddressSpaces(Spells())
        for time, record in packed:
            spaces.apply(time, record, {})
        assert tracemalloc.get_traced_memory()[0] - held < PROCESS_BYTES * processes
    finally:
        tracemalloc.stop()
