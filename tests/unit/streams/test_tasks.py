"""What is kept of records for those that come later: nothing of a process that has ended."""

from __future__ import annotations

import struct

from pinprof.data import perf_format as perf
from pinprof.streams.tasks import Tasks

PARENT = 5
ROUND = perf.record(perf.RECORD_FINISHED_ROUND, 0, b"")


def family(kind: int, pid: int, parent: int, tid: int, time: int) -> bytes:
    return perf.record(kind, 0, struct.pack("<IIIIQ", pid, parent, tid, parent, time))


def fork(pid: int, time: int, parent: int = PARENT) -> bytes:
    return family(perf.RECORD_FORK, pid, parent, pid, time)


def thread(pid: int, tid: int, time: int) -> bytes:
    return family(perf.RECORD_FORK, pid, pid, tid, time)


def ended(pid: int, time: int, tid: int = 0) -> bytes:
    return family(perf.RECORD_EXIT, pid, PARENT, tid or pid, time)


def named(pid: int, name: bytes, *, executes: bool = False) -> bytes:
    misc = perf.MISC_COMM_EXEC if executes else 0
    return perf.record(perf.RECORD_COMM, misc, struct.pack("<II8s", pid, pid, name))


def mapped(pid: int, start: int, name: bytes = b"a.so") -> bytes:
    return perf.record(perf.RECORD_MMAP2, 0, struct.pack("<IIQQQ32s8s", pid, pid, start, 4096, 0, b"", name))


def kept(*rounds: bytes) -> bytes:
    tasks = Tasks()
    for records in rounds:
        assert tasks.take(records + ROUND) == len(records + ROUND)
    return tasks.records()


def test_a_process_is_kept_with_its_code_and_its_name_in_the_order_of_the_file() -> None:
    records = fork(6, 1) + named(6, b"a", executes=True) + mapped(6, 0x1000) + mapped(6, 0x2000)
    assert kept(records, b"", b"") == records.removeprefix(fork(6, 1))


def test_of_a_mapping_in_the_same_place_and_of_a_name_the_last_is_kept() -> None:
    first = named(6, b"a") + mapped(6, 0x1000) + mapped(6, 0x2000)
    assert kept(first, named(6, b"b") + mapped(6, 0x1000, b"b.so")) == (
        mapped(6, 0x2000) + named(6, b"b") + mapped(6, 0x1000, b"b.so")
    )


def test_another_program_has_none_of_the_code_before() -> None:
    assert kept(mapped(6, 0x1000) + named(6, b"b", executes=True)) == named(6, b"b", executes=True)


def test_what_has_ended_is_forgotten_a_round_later_whatever_comes_first_in_the_file() -> None:
    begin = fork(6, 10) + named(6, b"a") + mapped(6, 0x1000)
    for rounds in ((begin + ended(6, 20), b"", b""), (ended(6, 20) + begin, b"", b""), (ended(6, 20), begin, b"")):
        assert kept(*rounds) == b""
    assert kept(begin + ended(6, 20)) == begin, "samples of its processor may follow"


def test_a_thread_that_ends_leaves_its_process() -> None:
    process = fork(6, 1) + mapped(6, 0x1000)
    assert kept(process + thread(6, 7, 2), ended(6, 3, 7), b"") == process
    main_ends = process + thread(6, 7, 2)
    assert kept(main_ends, ended(6, 3), b"", b"") == main_ends
    assert kept(main_ends, ended(6, 3), ended(6, 4, 7), b"", b"") == b""


def test_the_next_process_with_the_pid_is_another() -> None:
    first = fork(6, 1) + mapped(6, 0x1000) + ended(6, 5)
    second = fork(6, 9) + mapped(6, 0x3000)
    assert kept(first + second, b"", b"") == second
    assert kept(first, second, b"", b"") == second


def test_a_child_goes_on_with_the_code_of_a_parent_that_has_ended() -> None:
    parent = fork(6, 1) + named(6, b"a") + mapped(6, 0x1000) + mapped(6, 0x2000)
    child = fork(7, 2, parent=6) + mapped(7, 0x2000, b"b.so")
    assert kept(parent + child, b"") == parent + child
    assert kept(parent + child, ended(6, 3), b"") == named(7, b"a") + mapped(7, 0x1000) + mapped(7, 0x2000, b"b.so")
    grandchild = fork(8, 4, parent=7)
    assert kept(parent + child + grandchild, ended(6, 5) + ended(7, 6), b"") == (
        named(8, b"a") + mapped(8, 0x1000) + mapped(8, 0x2000, b"b.so")
    )


def test_thousands_of_processes_leave_nothing() -> None:
    tasks = Tasks()
    for pid in range(100, 5100):
        begin = fork(pid, pid) + named(pid, b"a", executes=True) + mapped(pid, 0x1000)
        tasks.take((begin + ended(pid, pid + 1) if pid % 2 else ended(pid, pid + 1) + begin) + ROUND)
    tasks.take(ROUND)
    assert tasks.records() == b""


def test_records_may_come_in_any_pieces() -> None:
    parent = fork(6, 1) + named(6, b"a") + mapped(6, 0x1000)
    raw = parent + fork(7, 2, parent=6) + ROUND + ended(6, 3) + ROUND + mapped(7, 0x3000) + ROUND + fork(8, 4)
    whole = Tasks()
    assert whole.take(raw) == len(raw)
    for length in (1 << 7, 200, 333):
        tasks, begin = Tasks(), 0
        while begin < len(raw):
            begin += tasks.take(raw[begin : begin + length])
        assert tasks.records() == whole.records()
    assert whole.take(fork(9, 5) + mapped(9, 0x1000)[:-1]) == len(fork(9, 5))
