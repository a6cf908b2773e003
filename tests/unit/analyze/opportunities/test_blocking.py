"""Who holds up the critical thread in the driver: a thread that pins, by what its waits show, or another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.blame.results import BlameResult, BlameRow, Holder, HolderKind, WaitingThread
from pinprof.analyze.blame.table import blame_of
from pinprof.analyze.blame.waits import HolderCertainty
from pinprof.analyze.opportunities import allocating, blocking
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.sites import Site
from pinprof.data.model import NO_NODE
from tests.support.scenes import CREATED, FREE, MIB, MS, Traced, ran, recorded, scene, waited

IN_DRIVER = (
    "main@/app", "cudaMemcpy@/usr/lib/libcuda.so.1", "__x64_sys_ioctl", "rm_ioctl[nvidia]", "down_read", "schedule",
)  # fmt: skip
FUTEX = ("__x64_sys_futex", "do_futex", "futex_wait", "schedule")
IN_LIBRARY = (
    "main@/app", "cuMemAlloc_v2@/usr/lib/libcuda.so.1", "pthread_rwlock_wrlock@/usr/lib/libc.so.6", *FUTEX,
)  # fmt: skip
JOINS = ("main@/app", "pthread_mutex_lock@/usr/lib/libc.so.6", *FUTEX)


def pinning(
    length: int,
    waits: Sequence[str] = IN_DRIVER,
    pins: Sequence[tuple[float, float, int]] = (),
    beside: Sequence[Traced] = (),
) -> Scene:
    """Another thread pins for `length` ms while a call of the critical thread waits."""
    samples = [
        *ran(0, 10), *waited(10, 10 + length, waits), *ran(10 + length, 200),
        *ran(10, 10 + length, CREATED, tid=101), *ran(10 + length, 12 + length, FREE, tid=101),
    ]  # fmt: skip
    calls = [
        Traced("cuMemcpyHtoD", 10, 10 + length), Traced("cuLaunchKernel", 150, 151),
        *(Traced("cudaMallocHost", start, end, size, 1, tid=101)
          for start, end, size in pins or [(10, 10 + length, 1024 * MIB)]),
        *beside,
    ]  # fmt: skip
    made = recorded(samples, calls, threads={(100, 100): "main", (100, 101): "pin"})
    found = scene(made)
    return replace(found, blame=blame_of(made, found.attribution, found.sites))


@pytest.mark.parametrize("waits", [IN_DRIVER, IN_LIBRARY], ids=["driver", "library"])
def test_pin_that_holds_up_another_thread_is_made_in_pieces(waits: Sequence[str]) -> None:
    held = pinning(80, waits)
    (found,) = blocking.blocking_pins(held)
    assert found.cure.id == "pin-in-pieces"
    assert (found.site.place, found.site.thread) == ("app.cu:40", "pin")
    assert found.cost_ns == 80 * MS
    assert found.saving.likely_ns == 72 * MS
    assert [one.text for one in found.evidence if "delays this one for 80 ms" in one.text]
    # The wait is no cost of the call that waits.
    own = np.flatnonzero(held.calls.is_for("copy")) if held.calls else np.zeros(0, np.int64)
    assert held.cost_of_calls(own, held.rows_inside(own)) == 0


def test_line_that_pins_meanwhile_is_named_and_not_one_that_pins_later() -> None:
    later = Traced("cudaMallocHost", 150, 180, 1024 * MIB, 0, tid=101)
    (found,) = blocking.blocking_pins(pinning(80, pins=[(10, 90, 1024 * MIB)], beside=[later]))
    assert found.site.place == "app.cu:40"


def test_a_lock_of_the_program_is_not_the_drivers() -> None:
    assert not list(blocking.blocking_pins(pinning(80, JOINS)))


def test_short_pins_hold_up_nobody() -> None:
    assert not list(blocking.blocking_pins(pinning(19)))


def test_pins_that_are_pieces_already_come_before_the_work() -> None:
    (found,) = blocking.blocking_pins(pinning(80, pins=[(10, 50, 256 * MIB), (50, 90, 256 * MIB)]))
    assert found.cure.id == "pin-before-serving"
    assert "2 pieces of at most 256 MiB" in found.title
    assert found.saving.likely_ns == 80 * MS


def held_by(
    kind: HolderKind,
    pid: int,
    name: str,
    stack: tuple[str, ...],
    waiting: tuple[str, ...] = IN_DRIVER,
    wait: str = "wait.driver",
) -> list[Candidate]:
    holding = ran(90, 91, stack, pid=4711, tid=4711)
    made = recorded([*ran(0, 10), *waited(10, 90, waiting), *ran(90, 200), *holding])
    run = scene(made)
    node = int(made.samples.stack[made.samples.pid == 4711][0]) if stack else NO_NODE
    site = run.waiting_site(np.flatnonzero(run.caused_by(wait)))
    row = BlameRow(
        WaitingThread(100, 100, "main", site), wait, Holder(kind, pid, pid, name, Site("", "", 0, name), {}, node),
        {HolderCertainty.WAKER: 80 * MS}, 80 * MS, 1, 80 * MS, 10 * MS,
    )  # fmt: skip
    blame = BlameResult((row,), 80 * MS, 0, 0, 0, True, 1.0, (), 0)
    return list(blocking.other_process(replace(run, blame=blame)))


def test_another_process_is_named_where_the_whole_machine_was_recorded() -> None:
    (found,) = held_by(HolderKind.PROCESS, 4711, "server", ("down_write", "pin_user_pages", "os_lock_user_pages"))
    assert found.cure.id == "other-process"
    assert "process 4711 (server)" in found.title
    assert found.cost_ns == 80 * MS
    assert "pin_user_pages" in found.evidence[1].text


def test_the_kernel_is_no_driver() -> None:
    expands = (
        "main@/app",
        "__x64_sys_fcntl",
        "expand_files",
        "synchronize_rcu_normal",
        "wait_for_completion",
        "schedule",
    )
    assert not held_by(HolderKind.OUTSIDE, 0, "", (), expands, "wait.kernel")


@pytest.mark.parametrize(
    ("kind", "pid", "name", "stack"),
    [
        (HolderKind.OUTSIDE, 0, "", ()),
        (HolderKind.OUTSIDE, 0, "", ("uvm_tools_flush_events",)),
        (HolderKind.PROCESS, 4711, "pinprof-uvm", ("down_write",)),
        (HolderKind.PROCESS, 4711, "python3", ("fput", "uvm_tools_release", "uvm_va_space_down_write")),
    ],
    ids=["nobody seen", "nobody seen with a stack", "the recorder by name", "the recorder by what it does"],
)
def test_no_process_is_named_that_was_not_seen_and_never_the_recorder(
    kind: HolderKind, pid: int, name: str, stack: tuple[str, ...]
) -> None:
    assert not held_by(kind, pid, name, stack)


def test_waits_for_those_who_follow_managed_memory_are_the_recorders() -> None:
    follows = (
        "main@/app",
        "__x64_sys_ioctl",
        "uvm_ioctl[nvidia_uvm]",
        "uvm_tools_record_event[nvidia_uvm]",
        "schedule",
    )
    assert not held_by(HolderKind.PROCESS, 4711, "server", ("down_write",), follows, "wait.uvm")


def test_the_pin_itself_may_be_made_faster_too() -> None:
    (faster,) = allocating.page_creation(pinning(80, IN_LIBRARY))
    assert faster.cure.id == "touch-then-register"
