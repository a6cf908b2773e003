from __future__ import annotations

import pytest

from pinprof.read.perf.processes import is_system_wide, profiled_command, program_tree
from pinprof.read.perf.records import CommRecord, ForkRecord


@pytest.mark.parametrize(
    ("line", "command", "wide"),
    [
        ("perf record ./app -a", "./app -a", False),
        ("perf record -a -g ./app", "./app", True),
        ("perf record -ag -- ./app -x", "./app -x", True),
        ("perf record -F 99 -g -- app", "app", False),
        ("perf record -gF 99 app", "app", False),
        ("perf record -F99 -e cpu-clock -o a.data app", "app", False),
        ("perf record --all-cpus --call-graph dwarf app 1", "app 1", True),
        ("perf record --call-graph=fp --clockid monotonic app", "app", False),
        ("perf record -C 0,1 sleep 1", "sleep 1", True),
        ("perf record -p 77", "", False),
        ("perf record -z -k CLOCK_MONOTONIC --control fifo:a,b app", "app", False),
        ("ld.so record -q -e x -d app", "app", False),
    ],
)
def test_program_and_reach_of_a_perf_command_line(line: str, command: str, wide: bool) -> None:
    assert " ".join(profiled_command(line.split())) == command
    assert is_system_wide(line.split()) is wide


def test_nothing_is_known_without_a_command_line() -> None:
    assert profiled_command(()) == ()
    assert is_system_wide(()) is None


def test_tree_is_the_program_and_what_it_started() -> None:
    tasks = [
        (0, CommRecord(5, 5, "app", False)),
        (1, CommRecord(6, 6, "app", True)),
        (2, ForkRecord(7, 6, 7, 6, True)),
        (3, ForkRecord(8, 7, 8, 7, True)),
        (4, ForkRecord(9, 1, 9, 1, True)),
        (5, CommRecord(9, 9, "app", True)),
    ]
    assert program_tree(tasks, (), ("/opt/app", "-x")) == {6, 7, 8}
    assert program_tree(tasks, {9}, ("/opt/app",)) == {9}
    assert program_tree(tasks, (), ()) == frozenset()


def test_long_program_names_are_cut_as_the_kernel_cuts_them() -> None:
    tasks = [(1, CommRecord(6, 6, "a-very-long-pro", True))]
    assert program_tree(tasks, (), ("/opt/a-very-long-program",)) == {6}
