from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.data.model import Dso
from pinprof.read.perf.mappings import NO_DSO, AddressSpaces, Spells, user_dso
from pinprof.read.perf.records import CommRecord, ForkRecord, MapRecord

PID = 7


def spaces_with(samples: list[int], *records: tuple[int, MapRecord | CommRecord | ForkRecord]) -> AddressSpaces:
    times = np.array(samples, np.int64)
    spaces = AddressSpaces(Spells([(np.full(len(times), PID, np.int32), times, times)]))
    for time, record in records:
        spaces.apply(time, record, {})
    return spaces


def mapped(start: int, end: int, path: str, pgoff: int = 0, pid: int = PID) -> MapRecord:
    return MapRecord(pid, start, end, pgoff, path, "")


def look_up(spaces: AddressSpaces, time: int, address: int, pid: int = PID) -> tuple[str, int]:
    table = spaces.table()
    version = int(table.version_of(np.array([pid], np.int32), np.array([time], np.int64))[0])
    dso, offset = table.find(version, np.array([address], np.uint64))
    return ("" if dso[0] == NO_DSO else table.dsos[dso[0]].path), int(offset[0])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=25))
def test_later_mappings_lie_over_earlier_ones(intervals: list[tuple[int, int]]) -> None:
    records, model = [], [""] * 81
    for number, (start, length) in enumerate(intervals):
        records.append((number, mapped(start, start + length, f"/{number}")))
        model[start : start + length] = [f"/{number}"] * length
    table = spaces_with([], *records).table()
    found, offsets = table.find(len(table.first) - 1, np.arange(81, dtype=np.uint64))
    assert ["" if dso == NO_DSO else table.dsos[dso].path for dso in found.tolist()] == model
    for address, path in enumerate(model):
        if path:
            assert int(offsets[address]) == address - intervals[int(path[1:])][0]
    assert (table.mapped.start < table.mapped.end).all()
    assert (table.mapped.end[:-1] <= table.mapped.start[1:]).all()


def test_offsets_count_from_the_start_of_the_file() -> None:
    spaces = spaces_with([], (0, mapped(0x7F0000001000, 0x7F0000003000, "/lib/x.so", pgoff=0x5000)))
    assert look_up(spaces, 1, 0x7F0000001010) == ("/lib/x.so", 0x5010)
    assert look_up(spaces, 1, 0x7F0000003000)[0] == ""


def test_version_begins_only_where_a_sampled_mapping_is_displaced() -> None:
    first, beside, other = mapped(0, 10, "/a"), mapped(20, 30, "/b"), mapped(5, 15, "/c", pgoff=5)
    unsampled = spaces_with([50], (1, first), (2, beside), (3, other))
    assert len(unsampled.versions) == 2
    sampled = spaces_with([2, 50], (1, first), (2, beside), (3, other))
    assert len(sampled.versions) == 3
    assert look_up(sampled, 2, 6)[0] == "/a"
    assert look_up(sampled, 50, 6)[0] == "/c"
    assert look_up(sampled, 50, 4)[0] == "/a"


def test_the_same_mapping_again_begins_no_version() -> None:
    spaces = spaces_with([2, 5], (1, mapped(0, 100, "/a")), (3, mapped(50, 100, "/a", pgoff=50)))
    assert len(spaces.versions) == 2


def test_code_made_at_run_time_may_come_and_go_without_new_versions() -> None:
    records = [(time, mapped(time % 3 * 8, 40, "//anon")) for time in range(1, 50)]
    spaces = spaces_with(list(range(50)), *records)
    assert len(spaces.versions) == 2
    assert look_up(spaces, 9, 0x20) == ("[anon]", 0x20)


def test_exec_empties_and_fork_copies() -> None:
    spaces = spaces_with(
        [2, 6],
        (1, mapped(0, 10, "/shell")),
        (3, ForkRecord(8, PID, 8, PID, True)),
        (4, CommRecord(PID, PID, "app", True)),
        (5, mapped(0, 10, "/app")),
        (7, CommRecord(PID, PID, "renamed", False)),
    )
    assert [look_up(spaces, time, 3)[0] for time in (2, 6, 9)] == ["/shell", "/app", "/app"]
    assert look_up(spaces, 9, 3, pid=8)[0] == "/shell"
    assert look_up(spaces, 9, 3, pid=99)[0] == ""
    assert not spaces.table().has_mappings(99)


def test_parent_and_child_map_each_for_itself_after_a_fork() -> None:
    spaces = spaces_with(
        [],
        (1, mapped(0, 10, "/shell")),
        (3, ForkRecord(8, PID, 8, PID, True)),
        (4, mapped(20, 30, "/parent")),
        (5, mapped(40, 50, "/child", pid=8)),
    )
    assert [look_up(spaces, 9, place)[0] for place in (3, 23, 43)] == ["/shell", "/parent", ""]
    assert [look_up(spaces, 9, place, pid=8)[0] for place in (3, 23, 43)] == ["/shell", "", "/child"]


def test_children_that_map_nothing_share_their_parents_mappings() -> None:
    forks = [(number, ForkRecord(8 + number, PID, 8 + number, PID, True)) for number in range(100)]
    spaces = spaces_with([], (0, mapped(0, 10, "/shell")), *forks)
    assert len({id(version.mappings) for version in spaces.versions[1:]}) == 1


def test_thread_of_a_process_shares_its_mappings() -> None:
    spaces = spaces_with([], (1, mapped(0, 10, "/app")), (2, ForkRecord(PID, PID, 9, PID, True)))
    assert look_up(spaces, 3, 1)[0] == "/app"


@pytest.mark.parametrize(
    ("path", "build_id", "expected"),
    [
        ("/usr/lib/libc.so.6", "ab", Dso("/usr/lib/libc.so.6", "ab", "file")),
        ("/tmp/gone.so (deleted)", "", Dso("/tmp/gone.so (deleted)", "", "file")),
        ("/tmp/gone.so (deleted)", "ab", Dso("/tmp/gone.so", "ab", "file")),
        ("[vdso]", "", Dso("[vdso]", "", "vdso")),
        ("[vsyscall]", "", Dso("[vsyscall]", "", "vdso")),
        ("//anon", "", Dso("[anon]", "", "jit")),
        ("", "", Dso("[anon]", "", "jit")),
        ("/dev/zero (deleted)", "", Dso("[anon]", "", "jit")),
        ("/memfd:doublemapper (deleted)", "", Dso("[memfd:doublemapper]", "", "jit")),
        ("/SYSV0000002a (deleted)", "", Dso("[SYSV0000002a]", "", "jit")),
        ("[heap]", "", Dso("[heap]", "", "anon")),
        ("[stack]", "", Dso("[stack]", "", "anon")),
        ("inode-less", "", Dso("[inode-less]", "", "anon")),
    ],
)
def test_names_of_mappings(path: str, build_id: str, expected: Dso) -> None:
    assert user_dso(path, build_id) == expected
