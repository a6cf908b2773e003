"""Looking where pages lie: what is looked at, when, at what cost, and what odd lists of mappings do to it."""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pinprof.collect import placement
from pinprof.collect.placement import ABSENT, LEAST_BYTES, UNKNOWN, UNKNOWN_SIZE, Placement, Point
from tests.support.probes import needs_pages

MIB = 1 << 20
LIBRARY = b"7f0000000000-7f0000100000 r-xp 00000000 08:01 7      /usr/lib/libcuda.so.580.1\n"


@pytest.fixture
def with_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process had CUDA's driver loaded, and time for whole looks on a busy machine."""
    monkeypatch.setattr(placement, "_DRIVER", re.compile(b""))
    monkeypatch.setattr(placement, "LIMIT_S", 60.0)


@pytest.fixture
def looks_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection of garbage or a hypervisor may take processor time during one that is played."""
    monkeypatch.setattr(placement.time, "thread_time", lambda: 0.0)


def test_a_look_without_time_ends_without_pages(with_driver: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "LIMIT_S", 0.0)
    with memory(64 * MIB, mmap.MADV_NOHUGEPAGE):
        assert Placement().look({os.getpid(): 100 * MIB}, 1000.0) is None


@contextmanager
def memory(size: int, advice: int) -> Iterator[tuple[mmap.mmap, int]]:
    """Private memory and its address."""
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(advice)
    view = ctypes.c_char.from_buffer(area)
    try:
        yield area, ctypes.addressof(view)
    finally:
        del view
        area.close()


def looked(watch: Placement, start: int, size: int) -> list[Point]:
    """The pages of a look that lie in a part of this process's memory."""
    found = watch.look({os.getpid(): 100 * MIB}, 1000.0)
    assert found is not None
    assert found[0] == os.getpid()
    return [point for point in found[1] if start <= point[0] < start + size]


@needs_pages
@pytest.mark.usefixtures("with_driver")
def test_a_page_that_was_touched_is_on_a_node_and_others_are_not_there() -> None:
    with memory(64 * MIB, mmap.MADV_NOHUGEPAGE) as (area, start):
        for place in range(0, 32 * MIB, mmap.PAGESIZE):
            area[place] = 1
        points = looked(Placement(), start, len(area))
        assert len(points) >= placement.LEAST_POINTS
        assert [place for place, *_ in points] == sorted(place for place, *_ in points)
        for place, node, huge in points:
            assert place % mmap.PAGESIZE == 0
            if place < start + 32 * MIB:
                assert node >= 0
                assert huge in (0, UNKNOWN_SIZE)
            else:
                assert (node, huge) == (ABSENT, UNKNOWN_SIZE)


@needs_pages
@pytest.mark.usefixtures("with_driver")
def test_looking_touches_no_page() -> None:
    with memory(64 * MIB, mmap.MADV_NOHUGEPAGE) as (_, start):
        for _ in range(3):
            assert {node for _, node, _ in looked(Placement(), start, 64 * MIB)} == {ABSENT}


def test_a_program_without_cuda_is_not_looked_at() -> None:
    with subprocess.Popen(["sleep", "60"]) as program:
        try:
            assert Placement().look({program.pid: 100 * MIB}, 1000.0) is None
        finally:
            program.kill()


@pytest.mark.parametrize(
    ("line", "area"),
    [
        (b"10000000-18000000 rw-p 00000000 00:00 0 \n", (0x10000000, 0x18000000, False)),
        (b"10000000-18000000 rw-s 00000000 00:01 9     /dev/zero (deleted)\n", (0x10000000, 0x18000000, False)),
        (b"10000000-18000000 rw-s 00000000 00:01 9     /dev/shm/x\n", (0x10000000, 0x18000000, False)),
        (b"10000000-18000000 rw-s 00000000 00:05 9     /dev/nvidia-uvm\n", (0x10000000, 0x18000000, True)),
        (b"10000000-18000000 rw-p 0 0:0 0 /a\\012b rw-p (deleted)\n", (0x10000000, 0x18000000, False)),
        (b"10000000-18000000 ---p 00000000 00:00 0 \n", None),
        (b"10000000-18000000 r--p 00000000 08:01 9     /usr/lib/libtorch.so\n", None),
        (b"10000000-10001000 rw-p 00000000 00:00 0 \n", None),
        (b"18000000-10000000 rw-p 00000000 00:00 0 \n", None),
        (b"g-18000000 rw-p 00000000 00:00 0 \n", None),
        (b"10000000000000000000000-18000000 rw-p 0 0:0 0 \n", None),
        (b"10000000-18000000 rw", None),
        (b"\xff\x00\n", None),
    ],
)
def test_large_memory_that_may_be_written_is_chosen(line: bytes, area: tuple[int, int, bool] | None) -> None:
    assert placement._areas(LIBRARY + line) == ([] if area is None else [area])
    assert placement._areas(line) == []


def test_any_bytes_in_the_place_of_mappings_are_survived() -> None:
    chance = random.Random(5)
    text = LIBRARY + b"10000000-18000000 rw-p 00000000 00:00 0 \n" * 5
    for _ in range(2000):
        damaged = bytearray(text)
        for _ in range(chance.randrange(1, 12)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        assert all(end - start >= LEAST_BYTES for start, end, _ in placement._areas(bytes(damaged)))


@pytest.mark.usefixtures("with_driver")
def test_a_process_that_ends_meanwhile_is_no_harm() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    watch = Placement()
    assert watch.look({child.pid: 100 * MIB}, 1000.0) is None
    assert not watch._refused


@pytest.mark.usefixtures("looks_cost_nothing")
def test_looks_follow_changes_that_are_over_and_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, looks = Placement(), []
    monkeypatch.setattr(watch, "_pages", lambda pid, _: looks.append(now) or iter([(0, 0, 0)]))
    for tenth in range(1000):
        now = 1000 + tenth / 10
        size = 10 * MIB if now < 1050 else min(10 + (now - 1050) * 40, 50) * MIB
        watch.look({7: round(size)}, now)
    gaps = [later - earlier for earlier, later in itertools.pairwise(looks)]
    # It grows from 1050 to 1051, and is looked at when it has grown.
    assert any(1051 <= look <= 1051.5 for look in looks)
    assert max(gaps) <= placement.LONGEST_S + 0.2
    assert max(gap for gap in gaps[:8]) > 3
    assert len(looks) < 20


@pytest.mark.usefixtures("looks_cost_nothing")
def test_a_program_without_cuda_that_changes_all_the_time_is_asked_for_the_driver_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, looks = Placement(), []
    driver: list[Point] = []
    monkeypatch.setattr(watch, "_pages", lambda pid, _: looks.append(now) or iter(driver))
    for tenth in range(300):
        now = 1000 + tenth / 10
        if tenth == 100:
            driver.append((0, 0, 0))
        watch.look({7: (10 + 30 * (tenth // 3)) * MIB}, now)
    before, after = [look for look in looks if look < 1010], [look for look in looks if look > 1020]
    assert 3 <= len(before) <= 5
    assert len(after) > 20


def test_looking_keeps_to_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = {"thread": 0.0}, []
    monkeypatch.setattr(placement.time, "thread_time", lambda: clock["thread"])
    watch = Placement()

    def pages(*_: object) -> Iterator[Point]:
        looks.append(now)
        clock["thread"] += 0.004
        yield 0, 0, 0

    monkeypatch.setattr(watch, "_pages", pages)
    for tenth in range(600):
        now = 1000 + tenth / 10
        # Each second it is of another size.
        watch.look({7: (tenth // 10 % 2) * 100 * MIB + 10 * MIB}, now)
    assert len(looks) > 5
    assert watch.spent / 60 <= placement.COST * 1.1


@pytest.mark.usefixtures("with_driver")
def test_a_look_ends_when_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory(64 * MIB, mmap.MADV_NOHUGEPAGE):
        assert list(Placement()._pages(os.getpid(), 0.0)) == []


@pytest.mark.usefixtures("with_driver")
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_a_kernel_that_says_nothing_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    calls = []

    class Refusing:
        def __init__(self, *_: object, **__: object) -> None: ...

        def syscall(self, *_: object) -> int:
            calls.append(1)
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(placement.ctypes, "CDLL", Refusing)
    watch = Placement()
    with memory(64 * MIB, mmap.MADV_NOHUGEPAGE):
        for now in (1000.0, 1100.0, 1200.0):
            assert watch.look({os.getpid(): 100 * MIB}, now) is None
    assert len(calls) == 1


def test_a_device_s_pages_that_the_kernel_does_not_know_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = LIBRARY + b"10000000-18000000 rw-s 00000000 00:05 9     /dev/nvidia-uvm\n20000000-28000000 rw-p 0 0:0 0 \n"
    monkeypatch.setattr(placement, "maps_of", lambda *_: maps)
    watch = Placement()
    monkeypatch.setattr(watch, "_nodes", lambda _, places: [-errno.ENOENT if place % 8192 else 1 for place in places])
    monkeypatch.setattr(placement, "_huge", lambda *_: 0)
    points = list(watch._pages(os.getpid(), float("inf")))
    assert {node for place, node, _ in points if place < 0x20000000} == {1, UNKNOWN}
    assert {node for place, node, _ in points if place >= 0x20000000} == {1, ABSENT}
