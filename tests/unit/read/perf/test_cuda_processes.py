"""Processes that hold memory when a recording begins: what is known of them, written and read, and what follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.data.activity import Location, MemoryKind, MemoryOperation
from pinprof.read.perf.cuda_processes import Held, Known, MappingKind, Process, load, running, written
from pinprof.read.perf.records import CommRecord
from tests.unit.read.perf.test_cuda_memory import BUFFER, HEAP, MIB, PID, PIN, TO_DEVICE, Program

MAPS = """\
55d000000000-55d000001000 r-xp 00000000 fe:01 11 /usr/bin/program
55d000001000-55d000002000 rw-p 00001000 fe:01 11 /usr/bin/program
1000000000-1004000000 rw-p 00000000 00:00 0
3000000000-3004000000 r--s 00000000 fe:01 12 /data/weights of mine.bin
4000000000-8000000000 ---p 00000000 00:00 0
7f0000000000-7f0000010000 rw-s 00000000 00:05 13 /dev/nvidia0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
"""


def read_back(known: Known, folder: Path) -> Known:
    path = folder / "calls-before.json"
    path.write_text(written(known))
    return load(path)


def test_what_is_mapped_tells_the_driver_from_files_and_memory() -> None:
    process = running(PID, MAPS, whole=True)
    starts, _, values = process.mapped.columns
    assert dict(zip(starts, values, strict=True)) == {
        0x55D000000000: MappingKind.HOST, 0x55D000001000: MappingKind.HOST, 0x1000000000: MappingKind.HOST,
        0x3000000000: MappingKind.FILE, 0x4000000000: MappingKind.DRIVERS, 0x7F0000000000: MappingKind.DRIVERS,
    }  # fmt: skip


def first_part() -> Known:
    """A program that pins and registers, and what is known then."""
    program = Program()
    program.begin()
    program.pin(PIN, 4 * MIB)
    program.call("cudaHostRegister", BUFFER, MIB, 0)
    program.call("cuMemPoolCreate", 0x1, Location.HOST)
    program.call("cuMemAllocFromPoolAsync", 0x1, MIB, 0x99, 0)
    program.call("cuMemAllocManaged", 0x1, 3 * MIB, 1)
    return Known(program.clock + 10, program.traced().after)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    known = first_part()
    again = read_back(known, tmp_path)
    assert again.time_ns == known.time_ns
    mine, theirs = known.processes[PID], again.processes[PID]
    assert mine.live == {key: held._replace(before=False) for key, held in theirs.live.items()}
    assert len(mine.live) == 2
    assert [held.size for held in theirs.hosted] == [held.size for held in mine.hosted] == [MIB]
    assert theirs.adrift[MemoryKind.MANAGED] == [Held(3 * MIB, 0, before=True)]
    assert (theirs.whole, theirs.pools) == (mine.whole, mine.pools) == (True, {Location.HOST})
    assert mine.mapped.columns == theirs.mapped.columns
    assert mine.owned.columns == theirs.owned.columns


def test_a_later_part_knows_what_was_pinned_before(tmp_path: Path) -> None:
    known = read_back(first_part(), tmp_path)
    later = Program(clock=known.time_ns + 100)
    pinned = later.call("cuMemcpyHtoD", 0x4000000000, PIN + MIB, 1000)
    registered = later.call("cuMemcpyHtoD", 0x4000000000, BUFFER + 64, 1000)
    plain = later.call("cuMemcpyHtoD", 0x4000000000, BUFFER + 2 * MIB, 1000)
    later.call("cudaFreeHost", PIN)
    after = later.call("cuMemcpyHtoD", 0x4000000000, HEAP, 1000)
    calls = later.traced(known).calls
    assert calls.source_kind is not None
    assert calls.copy_kind is not None
    assert {int(calls.copy_kind[call]) for call in (pinned, registered, plain, after)} == {TO_DEVICE}
    kinds = [int(calls.source_kind[call]) for call in (pinned, registered, plain)]
    assert kinds == [MemoryKind.PINNED, MemoryKind.PINNED, MemoryKind.PAGEABLE]
    assert later.traced().calls.source_kind is not None
    blind = later.traced().calls.source_kind
    assert blind is not None
    assert int(blind[plain]) == MemoryKind.UNKNOWN


def test_what_is_given_back_was_allocated_here(tmp_path: Path) -> None:
    known = read_back(first_part(), tmp_path)
    later = Program(clock=known.time_ns + 100)
    freed = later.call("cudaFreeHost", PIN)
    later.pin(PIN + (1 << 30), 2 * MIB)
    later.call("cudaFreeHost", PIN + (1 << 30))
    traced = later.traced(known)
    assert traced.calls.size_bytes is not None
    assert int(traced.calls.size_bytes[freed]) == 4 * MIB
    operations = [MemoryOperation.ALLOCATE, MemoryOperation.FREE]
    assert traced.usage.operation.tolist() == operations
    assert traced.usage.size_bytes.tolist() == [2 * MIB, 2 * MIB]


def test_records_of_before_change_nothing(tmp_path: Path) -> None:
    """They are repeated in each part, for the names of its frames."""
    known = read_back(first_part(), tmp_path)
    later = Program(clock=known.time_ns + 100)
    later.tasks.append((10, CommRecord(PID, PID, "program", exec=True)))
    copied = later.call("cuMemcpyHtoD", 0x4000000000, PIN + MIB, 1000)
    kinds = later.traced(known).calls.source_kind
    assert kinds is not None
    assert int(kinds[copied]) == MemoryKind.PINNED


FACTS = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(changed=st.dictionaries(st.sampled_from(sorted(json.loads(written(first_part()))["processes"][0])), FACTS))
def test_nothing_is_known_by_a_damaged_file(changed: dict[str, object], tmp_path_factory: object) -> None:
    raw = json.loads(written(first_part()))
    raw["processes"][0].update(changed)
    path = Path(str(tmp_path_factory.getbasetemp())) / "damaged.json"  # type: ignore[attr-defined]
    path.write_text(json.dumps(raw))
    found = load(path)
    assert len(found.processes) <= 1
    for process in found.processes.values():
        assert isinstance(process, Process)
        starts, ends, _ = process.mapped.columns
        assert all(start < end for start, end in zip(starts, ends, strict=True))
