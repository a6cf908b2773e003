"""The ledger: which allocation a free ends, and what lives when."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinprof.analyze import analyze
from pinprof.analyze.activity.calls import Calls, prepare_calls
from pinprof.analyze.allocations.levels import StepFunction
from pinprof.analyze.allocations.lifetimes import allocations_of, with_ends
from pinprof.analyze.allocations.recorded import FAMILIES, FAMILY_OF_KIND, FreeTable, recorded
from pinprof.analyze.allocations.results import FOREVER, KINDS, Allocations, AllocationTable
from pinprof.analyze.ledger.checkpoints import MOST_CHECKPOINTS, MOST_LINES, checkpoints_of
from pinprof.analyze.ledger.curves import BINS, curves_of
from pinprof.data.activity import Activity, Location, MemoryKind, MemoryOperation, MemoryUsageTable
from pinprof.data.model import RangeTable
from pinprof.read import read
from tests.support.scenes import MIB, MS, Traced, table
from tests.support.stacks import Range, Sample, capture

CASES = Path(__file__).parents[2] / "data" / "cases"
Made = tuple[int, int, int, int, int]
"""start, kind, site, size, address."""
Free = tuple[int, int, int]
"""start, family, address."""


def ledger(made: list[Made], frees: list[Free], ended: dict[int, int] | None = None) -> Allocations:
    start, kind, site, size, address = (np.array(column, np.int64) for column in zip(*made, strict=True))
    table = AllocationTable.of(
        len(made), start_ns=start, end_ns=FOREVER, pid=7, tid=7, kind=kind, site=site, size_bytes=size,
        wanted_bytes=size, granted_bytes=size, address=address.astype(np.uint64), call=-1, free=-1,
    )  # fmt: skip
    times, family, places = (np.array([free[part] for free in frees], np.int64) for part in range(3))
    gone = FreeTable(
        times,
        np.full(len(frees), 7, np.int32),
        family.astype(np.uint8),
        places.astype(np.uint64),
        np.arange(len(frees)),
    )
    return with_ends(table, gone, ("call",), ("a", "b", "c"), ended or {})


@pytest.mark.slow
def test_live_bytes_of_a_random_plan_are_exact_by_line() -> None:
    plan, alive, truth = random.Random(17), {}, []
    made: list[Made] = []
    frees: list[Free] = []
    for time in range(10, 20_000, 10):
        if alive and plan.random() < 0.45:
            place = plan.choice(sorted(alive))
            kind, _, _ = alive.pop(place)
            frees.append((time, int(FAMILY_OF_KIND[kind]), place))
        else:
            place = plan.choice([at for at in range(4096, 4096 * 2000, 4096) if at not in alive])
            kind, site, size = plan.randrange(len(KINDS)), plan.randrange(3), plan.randrange(1, 1 << 20)
            alive[place] = kind, site, size
            made.append((time, kind, site, size, place))
        truth.append((time, [sum(size for _, site, size in alive.values() if site == line) for line in range(3)]))
    found = ledger(made, frees)
    assert (found.frees, found.unknown_frees, found.undecided_frees) == (len(frees), 0, 0)
    times = np.array([time for time, _ in truth], np.int64)
    for line in range(3):
        mine = found.table.take(found.table.site == line)
        assert StepFunction.of(mine, mine.size_bytes).at(times).tolist() == [live[line] for _, live in truth]


def test_a_second_free_and_a_free_of_older_memory_end_nothing() -> None:
    host = FAMILIES.index("host")
    found = ledger([(10, 0, 0, 100, 4096)], [(20, host, 4096), (30, host, 4096), (40, host, 8192)])
    assert found.table.end_ns.tolist() == [20]
    assert (found.frees, found.unknown_frees) == (1, 2)


def test_memory_that_comes_back_at_an_address_has_a_life_of_its_own() -> None:
    host = FAMILIES.index("host")
    found = ledger([(10, 0, 0, 100, 4096), (30, 0, 1, 50, 4096), (40, 0, 2, 70, 4096)], [(20, host, 4096)])
    assert found.table.end_ns.tolist() == [20, 40, FOREVER]


def test_of_several_allocations_without_address_only_equal_ones_are_ended() -> None:
    host = FAMILIES.index("host")
    alike = ledger([(10, 0, 0, 100, 0), (20, 0, 0, 100, 0)], [(30, host, 4096)])
    assert sorted(alike.table.end_ns.tolist()) == [30, FOREVER]
    unlike = ledger([(10, 0, 0, 100, 0), (20, 0, 0, 200, 0)], [(30, host, 4096)])
    assert (unlike.undecided_frees, unlike.table.end_ns.tolist()) == (1, [FOREVER, FOREVER])


def test_a_free_that_is_not_certain_is_likely_of_what_was_made_last() -> None:
    host = FAMILIES.index("host")
    kept, again = (10, 0, 0, 100, 0), [(at, 0, 1, 200, 0) for at in (20, 40, 60)]
    found = ledger([kept, *again], [(30, host, 4096), (50, host, 8192)])
    assert found.table.free.tolist() == [-1, 0, 1, -1]
    assert (found.table.freed.sum(), found.undecided_frees) == (0, 2)


@pytest.mark.parametrize(("make", "free"), [
    ("cuMemCreate", "cuMemRelease"), ("cudaMallocFromPoolAsync", "cudaFreeAsync"), ("cuMemHostAlloc", "cuMemFreeHost"),
])  # fmt: skip
def test_memory_on_the_host_is_pinned_whatever_function_makes_it(make: str, free: str) -> None:
    calls = table([Traced(make, 0, 1, MIB), Traced(free, 2, 3)])
    calls = replace(
        calls,
        address=np.array([0, 4096], np.uint64),
        location=np.array([Location.HOST, Location.UNKNOWN], np.uint8),
    )
    activity = Activity("uprobes", calls=calls, recorded=frozenset({"cuda calls"}))
    found = allocations_of(replace(capture([]), activity=activity), prepare_calls(activity))
    assert found is not None
    assert [KINDS[kind] for kind in found.table.kind] == ["pinned"]
    assert (found.table.end_ns.tolist(), found.frees) == ([2 * MS], 1)


def test_arrays_are_given_back_by_functions_of_their_own() -> None:
    names = ("cudaMalloc", "cudaMallocArray", "cudaFreeArray", "cudaFree")
    activity = Activity("uprobes", calls=table([Traced(name, at, at + 1) for at, name in enumerate(names)]))
    found = allocations_of(replace(capture([]), activity=activity), prepare_calls(activity))
    assert found is not None
    assert (found.table.free.tolist(), found.undecided_frees) == ([3, 2], 0)


def test_registrations_that_a_tool_does_not_report_are_in_the_history_beside_what_it_reports() -> None:
    calls = table(
        [Traced("cudaMallocHost", 0, 1), Traced("cudaHostRegister", 2, 3), Traced("cudaHostUnregister", 4, 5)]
    )
    memory = MemoryUsageTable.of(
        1, time_ns=MS, size_bytes=MIB, address=np.array([4096], np.uint64), memory_kind=np.uint8(MemoryKind.PINNED),
        operation=MemoryOperation.ALLOCATE, pid=100, correlation_id=1,
    )  # fmt: skip
    activity = Activity("nsys", calls=replace(calls, size_bytes=None), memory=memory)
    found = allocations_of(replace(capture([]), activity=activity), prepare_calls(activity))
    assert found is not None
    assert [KINDS[kind] for kind in found.table.kind] == ["pinned", "registered"]
    assert (found.table.size_bytes.tolist(), found.unsized, found.table.free.tolist()) == ([MIB, 0], 1, [-1, 2])


def test_what_a_process_leaves_ends_with_it() -> None:
    assert ledger([(10, 0, 0, 100, 4096)], [], {7: 50}).table.end_ns.tolist() == [50]


@pytest.mark.slow
def test_a_million_allocations_stay_bounded() -> None:
    """Half of them are given back, by a thousand lines; the tables that a report shows do not grow with them."""
    many = 1_000_000
    numbers = np.arange(many)
    table = AllocationTable.of(
        many, start_ns=10 * numbers, end_ns=FOREVER, pid=7, tid=7, kind=numbers % 2, site=numbers % 1000,
        size_bytes=4096, wanted_bytes=4096, granted_bytes=4096, address=(4096 * (1 + numbers)).astype(np.uint64),
        call=-1,
    )  # fmt: skip
    half = numbers[: many // 2]
    frees = FreeTable(
        10 * many + half,
        np.full(len(half), 7, np.int32),
        FAMILY_OF_KIND[half % 2],
        (4096 * (1 + half)).astype(np.uint64),
        half,
    )
    names, sites = ("call",), tuple(f"f (a.c:{line})" for line in range(1000))
    tracemalloc.start()
    found = with_ends(table, frees, names, sites, {})
    curves = curves_of(found, 20 * many)
    points, left_out = checkpoints_of(found, ranges_of(2000), ())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.frees, int((found.table.end_ns == FOREVER).sum())) == (many // 2, many - many // 2)
    assert most < 600e6
    assert (len(curves.labels), len(curves.edge_ns)) == (10, BINS)
    assert (len(points), left_out) == (MOST_CHECKPOINTS, 3000)
    assert max(len(point.by_line) for point in points) == MOST_LINES + 1
    assert points[-1].live_bytes == 4096 * int(StepFunction.of(found.table, np.ones(many, np.int64)).at(
        np.array([points[-1].time_ns]))[0])  # fmt: skip


def ranges_of(count: int) -> RangeTable:
    ranges = [Range(f"step {number}", 1000 * number, 1000 * number + 500, pid=7, tid=7) for number in range(count)]
    return capture([Sample(("main@/app",))], ranges).ranges


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "held", "share", "beside"),
    [
        ("long_pin_blocks", 4112 << 20, 0.01, 0),
        ("pool_start", 2 << 30, 0.01, 0),
        # 18 MiB are few pages: the kernel adds up what each processor counts a little late. The driver pins 10 MiB
        # for itself at the first copies, between calls of the program.
        ("train_pinned", 18 << 20, 0.011, 10_952_704),
    ],
)
def test_the_kernel_counts_as_much_as_the_ledger(name: str, held: int, share: float, beside: int) -> None:
    found = analyze(read(CASES / f"{name}.pinprof.tar.xz")).ledger
    assert found
    (view,) = (view for view in found.kernel if view.counter == "nr_foll_pin")
    assert view.ledger_bytes == held
    assert abs(view.difference_bytes) <= share * held
    assert view.agrees == (share == 0.01)
    assert view.beside_bytes == beside


def traced(*calls: Traced, address: int = 0) -> Calls:
    """Calls as uprobes see them, all of one address: not known."""
    made = table(calls)
    made = replace(made, address=np.full(len(made), address, np.uint64), status=np.zeros(len(made), np.int32))
    return prepare_calls(Activity("uprobes", calls=made, recorded=frozenset({"cuda calls"})))


def test_what_gives_back_no_address_gives_nothing_back() -> None:
    made, gone = recorded(Activity("uprobes"), traced(Traced("cudaMalloc", 0, 1, MIB), Traced("cudaFree", 2, 3)))
    assert (len(made), len(gone)) == (1, 0)


def reported(*rows: tuple[float, MemoryKind, int, int]) -> Activity:
    """(ms, kind, size, address) of what CUPTI reports as allocated."""
    time, kind, size, address = (np.array(column) for column in zip(*rows, strict=True))
    usage = MemoryUsageTable.of(
        len(rows), time_ns=(time * MS).astype(np.int64), pid=100, operation=MemoryOperation.ALLOCATE,
        memory_kind=kind.astype(np.uint8), size_bytes=size, address=address.astype(np.uint64),
    )  # fmt: skip
    return Activity("uprobes", reported=usage)


def test_cupti_tells_the_addresses_of_as_many_calls_of_a_size_in_their_order() -> None:
    calls = traced(
        Traced("cudaMallocAsync", 10, 11, 4096), Traced("cudaMallocHost", 20, 21, 4096),
        Traced("cudaMallocAsync", 30, 31, 4096), Traced("cudaMallocAsync", 40, 41, 8192),
    )  # fmt: skip
    # The device's records are those of pools too; a record is late, and one is of a size that no call asked for.
    seen = reported(
        (10.5, MemoryKind.DEVICE, 4096, 0x1000), (20.5, MemoryKind.PINNED, 4096, 0x2000),
        (39, MemoryKind.DEVICE, 4096, 0x3000), (40.5, MemoryKind.DEVICE, 1, 0x4000),
    )  # fmt: skip
    made, _ = recorded(seen, calls)
    assert [KINDS[kind] for kind in made.kind.tolist()] == ["pool", "pinned", "pool", "pool"]
    assert made.address.tolist() == [0x1000, 0x2000, 0x3000, 0]


def test_where_cupti_reports_more_than_was_called_only_what_lies_in_a_call_is_its_own() -> None:
    calls = traced(Traced("cudaMallocAsync", 10, 12, 4096), Traced("cudaMallocAsync", 30, 33, 4096))
    seen = reported(
        (11, MemoryKind.DEVICE, 4096, 0x1000), (20, MemoryKind.DEVICE, 4096, 0x2000),
        (31, MemoryKind.DEVICE, 4096, 0x3000), (32, MemoryKind.DEVICE, 4096, 0x4000),
    )  # fmt: skip
    made, _ = recorded(seen, calls)
    assert made.address.tolist() == [0x1000, 0]  # the second call has two
