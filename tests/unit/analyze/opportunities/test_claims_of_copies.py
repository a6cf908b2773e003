"""Random programs whose lines copy known memory in mixed sizes: what is claimed of a line is true of all its copies."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinprof.analyze.opportunities import copying
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.copy_groups import TINY_BYTES
from pinprof.analyze.rules.copies import TINY_COPIES
from pinprof.data.activity import MemoryKind
from tests.support.scenes import MAIN, MIB, SITES, Traced, ran, recorded, scene, to_gpu

COPIES = (*MAIN, "cuMemcpyHtoD_v2@/usr/lib/libcuda.so.580.1")
LEAST = 8 * MIB
"""Bytes of pageable memory that a line is asked about."""


@dataclass(frozen=True)
class Line:
    """What one line copies."""

    tiny: int
    """How many copies of 2 to 64 KiB."""
    large: tuple[int, ...]
    """The sizes of others in MiB."""
    kind: MemoryKind
    again: bool
    """Whether larger copies have the same source."""


LINES = st.builds(
    Line,
    st.sampled_from((0, 3, TINY_COPIES - 1, TINY_COPIES, 1300)),
    st.lists(st.sampled_from((1, 4, 16, 64)), max_size=9).map(tuple),
    st.sampled_from((MemoryKind.PAGEABLE, MemoryKind.PINNED)),
    st.booleans(),
)


def calls(lines: tuple[Line, ...], seed: int) -> list[Traced]:
    """The copies of all lines, mixed."""
    drawn = random.Random(seed)
    sizes = [
        (number, drawn.randrange(2 << 10, TINY_BYTES + 1)) for number, one in enumerate(lines) for _ in range(one.tiny)
    ]
    sizes += [(number, size * MIB) for number, one in enumerate(lines) for size in one.large]
    drawn.shuffle(sizes)
    made, now = [], 0.0
    for number, size in sizes:
        takes = 0.02 + 0.1 * size / MIB
        place = (
            (number + 1) << 40 if lines[number].again or size <= TINY_BYTES else (number + 1) << 40 | len(made) << 28
        )
        made.append(to_gpu(now, now + takes, size, lines[number].kind, site=number, address=place))
        now += takes + 0.01
    return made


def claimed(lines: tuple[Line, ...], seed: int) -> list[Candidate]:
    made = calls(lines, seed)
    shown = scene(recorded(ran(0, int(made[-1].end) + 1, COPIES), made)) if made else None
    return [one for find in (copying.tiny, copying.pageable) for one in find(shown)] if shown else []


def check(lines: tuple[Line, ...], seed: int) -> None:
    made = calls(lines, seed)
    found = claimed(lines, seed)
    for number, line in enumerate(lines):
        here = [one for one in found if one.site.line == SITES[number].line]
        of_line = [call.size for call in made if call.site == number]
        apart = line.tiny >= TINY_COPIES
        batched = [one for one in here if one.cure.id == "batch-copies"]
        assert [(one.count, one.bytes) for one in batched] == (
            [(line.tiny, sum(size for size in of_line if size <= TINY_BYTES))] if apart else []
        )
        staged = [one for one in here if one.cure.id != "batch-copies"]
        rest = [size for size in of_line if size > TINY_BYTES or not apart]
        if line.kind == MemoryKind.PINNED:
            assert not staged
        elif sum(rest) >= LEAST:
            (one,) = staged
            assert (one.count, one.bytes) == (len(rest), sum(rest))
            # 0.1 ms for a MiB, whatever the median copy is.
            assert one.cost_ns == pytest.approx(100_000 * sum(rest) / MIB, rel=0.02)


@pytest.mark.slow
@given(st.lists(LINES, min_size=1, max_size=2).map(tuple), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_claims_hold_for_all_copies_of_a_line(lines: tuple[Line, ...], seed: int) -> None:
    check(lines, seed)


@pytest.mark.parametrize("tiny", [3, TINY_COPIES - 1, 1300])
def test_line_with_many_tiny_copies_and_a_few_large_ones_is_judged_by_bytes(tiny: int) -> None:
    check((Line(tiny, (64, 64, 16, 64), MemoryKind.PAGEABLE, again=True),), 1)
