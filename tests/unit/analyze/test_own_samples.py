"""The samples of a range's own thread, against the plain definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.ranges.own_samples import own_samples
from tests.support.stacks import Range, Sample, capture

NUMBERS = st.integers(-1, 3)
SAMPLES = st.lists(st.tuples(st.integers(0, 20), NUMBERS, NUMBERS, st.booleans()), max_size=12)
RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), NUMBERS, NUMBERS), max_size=6)


@given(SAMPLES, RANGES)
def test_every_range_has_the_chosen_samples_of_its_thread_inside_it(
    taken: list[tuple[int, int, int, bool]], opened: list[tuple[int, int, int, int]]
) -> None:
    taken.sort(key=lambda sample: sample[0])
    ranges = [Range("r", start, start + length, pid=pid, tid=tid) for start, length, pid, tid in sorted(opened)]
    data = capture([Sample(("main@/app",), 1, time, pid, tid) for time, pid, tid, _ in taken], ranges)
    found = own_samples(data, np.array([chosen for *_, chosen in taken], np.bool_))
    counted = [(row, *sample[:3]) for row, sample in enumerate(taken) if sample[3]]
    for number in range(len(data.ranges)):
        start, end = int(data.ranges.start_ns[number]), int(data.ranges.end_ns[number])
        pid, tid = int(data.ranges.pid[number]), int(data.ranges.tid[number])
        foreign = pid < 1 or all(sample[1] != pid for sample in taken)
        mine = [sample for sample in counted if sample[3] == tid >= 0 and (foreign or sample[2] == pid)]
        assert found.known[number] == bool(mine)
        if mine:
            rows = found.row[found.first[number] : found.last[number]].tolist()
            assert rows == [sample[0] for sample in mine if start <= sample[1] < end]
