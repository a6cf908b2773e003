"""Samples of the agent: who called what, what the kernel is concluded to have done, and what damage leaves of it."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinprof.analyze.completeness import gaps_of
from pinprof.data.model import KERNEL, Capture, SampleTable
from pinprof.read.assembly import StackBuilder, foreign_capture
from pinprof.read.inside import file as inside_file
from pinprof.read.inside import samples
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import Kind, Withdrew
from pinprof.read.symbols.resolver import Resolver
from tests.support.agent_file import chunk, header, record, ticks

T = 2_000_000
PERIOD_NS = 4_000_000
CODE_AT = 0x40_0000
FUNCTION, LEAF = CODE_AT + 0x100, CODE_AT + 0x200
MUNMAP, READ, WRITE, IOCTL, MSYNC, WAIT4, FUTEX = 11, 0, 1, 16, 26, 61, 202
CALLED, TORN, PIPE = 64, 32, 128


def texted(kind: Kind, said: bytes, **values: int) -> bytes:
    return record(kind, bytes=len(said), **values) + said.ljust(-(-len(said) // 64) * 64, b"\0")


def module(begin: int = CODE_AT, end: int = CODE_AT + 0x1000, path: str = "/gone/program", at: int = T) -> bytes:
    return texted(Kind.MODULE, path.encode(), address=begin, source=end, stream=0, begin=ticks(at))


def chain(number: int, native: tuple[int, ...] = (), python: tuple[tuple[int, int], ...] = (), flags: int = 0) -> bytes:
    said = struct.pack(f"<{len(native)}Q", *native) + b"".join(struct.pack("<II", *each) for each in python)
    return texted(Kind.CHAIN, said, site=number, address=len(native), source=len(python), flags=flags)


def used(at: int, user_ns: int = PERIOD_NS, system_ns: int = 0, call: int | None = None, **values: int) -> bytes:
    known = {"site": 1, "address": LEAF, "stream": 0, "result": PERIOD_NS, **values}
    if call is not None:
        known = {"function": call + 1, "flags": CALLED, **known}
    return record(Kind.USED, begin=ticks(at), bytes=user_ns, source=system_ns, **known)


def resident(at: int, anonymous: int = 0, of_file: int = 0, shared: int = 0, **values: int) -> bytes:
    sizes = {"bytes": anonymous, "address": of_file, "source": shared, "stream": 0, "end": 0}
    return record(Kind.RESIDENT, begin=ticks(at), site=1, **(sizes | values))


def parsed(*units: bytes, **facts: int) -> InsideFile:
    file = inside_file.parse(b"".join((header(**facts), chunk(*units))))
    assert file is not None
    return file


def capture_of(*files: InsideFile, outcome: dict[str, Any] | None = None) -> Capture:
    empty = foreign_capture("x", "timers", (), SampleTable.empty(), StackBuilder().table())
    manifest = replace(empty.manifest, host={"arch": "x86_64"}, outcome=outcome or {})
    return samples.with_samples(replace(empty, manifest=manifest), files, Resolver(), None)


def kernel_of(capture: Capture, event: int = 0) -> dict[tuple[str, ...], int]:
    """The weight of an event by the kernel's functions of its stack, outermost first."""
    found: dict[tuple[str, ...], int] = {}
    stacks = capture.stacks
    for row in np.flatnonzero(capture.samples.event == event).tolist():
        frames = [int(stacks.frame[node]) for node in stacks.chain(int(capture.samples.stack[row]))]
        names = tuple(stacks.frames.function[frame] for frame in frames[::-1] if stacks.frames.mode[frame] == KERNEL)
        found[names] = found.get(names, 0) + int(capture.samples.weight[row])
    return found


def chains_of(capture: Capture) -> set[tuple[str, ...]]:
    stacks = capture.stacks
    return {
        tuple(stacks.frames.symbol[stacks.frame[node]] for node in stacks.chain(stack))[::-1]
        for stack in capture.samples.stack.tolist()
    }


def test_a_sample_has_its_time_thread_and_callers() -> None:
    python = texted(Kind.CODE, b"Model.step\t/home/me/train.py", site=5)
    file = parsed(module(), python, chain(1, (FUNCTION,), ((5, 12),)), used(T), texted(Kind.NAMED, b"worker"))
    capture = capture_of(file)
    assert file.damaged == 0
    assert chains_of(capture) == {("Model.step (train.py:12)", "[program]", "[program]")}
    assert capture.threads == {(7, 77): "worker"}
    sample = capture.samples
    assert (sample.pid[0], sample.tid[0], sample.weight[0], sample.time_ns[0]) == (7, 77, PERIOD_NS, T)


def test_what_the_kernel_did_of_itself_is_marked_as_inferred() -> None:
    capture = capture_of(parsed(module(), chain(1), used(T, 0, PERIOD_NS, MUNMAP), used(T, 0, PERIOD_NS, stream=900)))
    assert chains_of(capture) == {
        ("[program]", "__x64_sys_munmap", "unmap_region (inferred)"),
        ("[program]", "asm_exc_page_fault (inferred)", "handle_mm_fault (inferred)", "do_anonymous_page (inferred)"),
    }


def test_time_in_the_program_and_in_the_kernel_are_apart() -> None:
    assert kernel_of(capture_of(parsed(module(), chain(1), used(T, 3_000_000, 1_000_000, MUNMAP)))) == {
        (): 3_000_000,
        ("__x64_sys_munmap", "unmap_region"): 1_000_000,
    }


@pytest.mark.parametrize(
    ("values", "served"),
    [
        ({"call": MSYNC}, ("__x64_sys_msync",)),
        ({"call": 9999}, ("[unknown kernel]",)),
        ({"flags": CALLED, "stream": 900}, ("[unknown kernel]",)),
        ({"stream": 900}, ("asm_exc_page_fault", "handle_mm_fault")),
        ({}, ("[unknown kernel]",)),
    ],
)
def test_the_instruction_says_why_the_thread_was_in_the_kernel(values: dict[str, int], served: tuple[str, ...]) -> None:
    capture = capture_of(parsed(module(), chain(1), used(T, 0, PERIOD_NS, **values)))
    assert kernel_of(capture) == {served: PERIOD_NS}


def test_faults_count_where_the_thread_is_next_seen_in_one() -> None:
    units = (used(T, stream=30), used(T + 10, stream=20, site=2), used(T + 20, 0, PERIOD_NS, stream=50, site=3))
    capture = capture_of(parsed(module(), chain(1), chain(2, (FUNCTION,)), chain(3), *units, used(T + 30, stream=4)))
    faults = capture.samples.take(capture.samples.event == 1)
    assert (faults.weight.tolist(), faults.time_ns.tolist()) == ([104], [T + 20])


@pytest.mark.parametrize(
    ("grown", "kind"),
    [
        ({"anonymous": 4000}, "do_anonymous_page"),
        ({"of_file": 4000}, "do_read_fault"),
        ({"shared": 4000}, "shmem_fault"),
        ({"anonymous": 4000, "end": 4000}, "do_wp_page"),
        ({"stream": 4000}, "do_read_fault"),
        ({"anonymous": 80_000}, "do_huge_pmd_anonymous_page"),
        ({}, "handle_mm_fault"),
    ],
)
def test_what_grows_says_what_faults_are_of(grown: dict[str, int], kind: str) -> None:
    fault = {"user_ns": 0, "system_ns": PERIOD_NS, "stream": 1000}
    units = (resident(T), used(T, **fault), resident(T + 10, **grown), used(T + 10, **fault))
    (served,) = kernel_of(capture_of(parsed(module(), chain(1), *units)))
    assert served[-1] == kind


@pytest.mark.parametrize(("call", "kind"), [(MUNMAP, "do_anonymous_page"), (MSYNC, "do_page_mkwrite")])
def test_faults_of_memory_that_does_not_grow_follow_what_the_process_does(call: int, kind: str) -> None:
    fault = used(T, 0, PERIOD_NS, stream=1000)
    capture = capture_of(parsed(module(), chain(1), chain(2), fault, used(T + 10, 0, PERIOD_NS, call, site=2)))
    assert {served[-1] for served in kernel_of(capture) if served[0] == "asm_exc_page_fault"} == {kind}


def test_in_a_process_that_was_forked_they_are_copies() -> None:
    fault = (module(), chain(1), used(T, 0, PERIOD_NS, stream=1000))
    parent, child = parsed(module(), chain(1), used(T), token=3), parsed(*fault, token=4, parent=3, pid=8)
    assert ("asm_exc_page_fault", "handle_mm_fault", "wp_page_copy") in kernel_of(capture_of(parent, child))


def test_a_call_that_copies_to_new_memory_takes_its_faults_itself() -> None:
    units = (used(T, 0, PERIOD_NS, READ, stream=1000), used(T + 10, 0, PERIOD_NS, IOCTL, stream=10**6, site=2))
    found = kernel_of(capture_of(parsed(module(), chain(1), chain(2), *units)))
    of_read = found["__x64_sys_read", "asm_exc_page_fault", "handle_mm_fault"]
    assert 0 < of_read < PERIOD_NS
    assert found["__x64_sys_read",] == PERIOD_NS - of_read
    pinned = ("__x64_sys_ioctl", "pin_user_pages", "faultin_page", "asm_exc_page_fault", "handle_mm_fault")
    assert found[pinned] == PERIOD_NS, "faults take no more than the call does"


def test_a_thread_that_stays_in_the_kernel_has_a_sample_for_each_period() -> None:
    capture = capture_of(parsed(module(), chain(1), used(T + 10**9, 0, 10 * PERIOD_NS + 5, READ)))
    assert len(capture.samples) == 10
    assert capture.samples.weight.sum() == 10 * PERIOD_NS + 5
    assert len(set(capture.samples.time_ns.tolist())) == 10


def test_time_in_which_others_ran_is_a_wait_for_a_processor() -> None:
    capture = capture_of(parsed(module(), chain(1), used(T + 5_000_000, extra=3_000)))
    waits = capture.samples.take(capture.samples.event == 2)
    assert capture.events[2].spans
    assert (waits.weight.tolist(), waits.time_ns.tolist()) == ([3_000_000], [T + 2_000_000])
    assert waits.wait is not None
    assert waits.wait.tolist() == [1]


def caller(kind: Kind, begin_ns: int, end_ns: int, **values: int) -> bytes:
    known = {"source": LEAF, "extra": 1, "stream": 0, "bytes": 0, **values}
    return record(kind, begin=ticks(begin_ns), end=ticks(end_ns), **known)


@pytest.mark.parametrize(
    ("call", "flags", "served"),
    [
        (FUTEX, CALLED, ("__x64_sys_futex",)),
        (WAIT4, CALLED, ("__x64_sys_wait4",)),
        (READ, CALLED | PIPE, ("__x64_sys_read", "pipe_read")),
    ],
)
def test_a_wait_for_others_is_one_at_its_place(call: int, flags: int, served: tuple[str, ...]) -> None:
    wait = caller(Kind.WAITED, T + 10, T + 5_000_010, function=call + 1, flags=flags)
    file = parsed(module(), chain(1), used(T), wait)
    capture = capture_of(file)
    assert file.damaged == 0
    assert kernel_of(capture, 2) == {served: 5_000_000}
    waits = capture.samples.take(capture.samples.event == 2)
    assert waits.wait is not None
    assert (waits.time_ns.tolist(), waits.wait.tolist(), waits.tid.tolist()) == ([T + 10], [0], [77])
    assert capture.samples.weight[capture.samples.event == 0].tolist() == [PERIOD_NS]


def test_to_read_and_write_a_pipe_is_told_from_files() -> None:
    units = (used(T, 0, PERIOD_NS, READ, flags=CALLED | PIPE), used(T + 10, 0, PERIOD_NS, WRITE, flags=CALLED | PIPE))
    assert kernel_of(capture_of(parsed(module(), chain(1), *units, used(T + 20, 0, PERIOD_NS, READ)))) == {
        ("__x64_sys_read", "pipe_read"): PERIOD_NS,
        ("__x64_sys_write", "pipe_write"): PERIOD_NS,
        ("__x64_sys_read",): PERIOD_NS,
    }


CHILD = 8
IN_EXECVE = ("__x64_sys_execve", "exec_mmap")


def begun(at: int, spent_ns: int) -> bytes:
    return record(Kind.BEGUN, begin=ticks(at), bytes=spent_ns, stream=0)


@pytest.mark.parametrize(
    ("spent_ns", "sampled_ns", "found_ns"),
    [
        (9_000_000, 0, 9_000_000),
        (9_000_000, PERIOD_NS, 9_000_000 - PERIOD_NS),
        (90_000_000, 0, 15_000_000),
        (3_000_000, PERIOD_NS, 0),
    ],
    ids=["whole", "less what samples stand for", "at most three times what the fork took", "nothing is left"],
)
def test_what_a_forked_process_spends_in_execve_counts_where_it_was_forked(
    spent_ns: int, sampled_ns: int, found_ns: int
) -> None:
    fork = caller(Kind.FORKED, T + 10, T + 5_000_010, address=CHILD, site=1)
    parent = parsed(module(), chain(1), used(T), fork, token=3)
    before = parsed(module(), chain(1), *[used(T + 6_000_000)] * (sampled_ns > 0), token=4, parent=3, pid=CHILD)
    after = parsed(begun(T + 20_000_000, spent_ns), token=5, pid=CHILD)
    later = parsed(begun(T + 30_000_000, spent_ns), token=6, pid=CHILD)
    other = parsed(begun(T + 20_000_000, spent_ns), token=7, pid=CHILD + 1)
    capture = capture_of(parent, before, after, later, other)
    assert all(file.damaged == 0 for file in (parent, before, after))
    assert kernel_of(capture).get(IN_EXECVE, 0) == found_ns
    of_child = capture.samples.take(capture.samples.pid == CHILD)
    assert of_child.weight.sum() == found_ns + sampled_ns
    if found_ns:
        assert of_child.time_ns.max() == T + 20_000_000
        assert set(of_child.tid[of_child.time_ns > T + 7_000_000].tolist()) == {CHILD}


def test_code_is_that_of_its_time() -> None:
    units = (
        module(path="/first", at=T), module(path="/second", at=T + 1000), chain(1),
        used(T + 500), used(T + 1500), used(T - 500_000, address=CODE_AT + 0x999),
    )  # fmt: skip
    found = chains_of(capture_of(parsed(*units)))
    assert found == {("[first]",), ("[second]",)}


def test_an_address_in_no_file_is_code_that_was_made() -> None:
    assert chains_of(capture_of(parsed(chain(1), used(T)))) == {("[anon]",)}


def test_only_the_recorded_part_of_a_run_counts() -> None:
    file = parsed(module(), chain(1), used(T), used(T + 1000), used(T + 2000))
    assert capture_of(file, outcome={"recorded_ns": (T + 500, T + 1500)}).samples.time_ns.tolist() == [T + 1000]


def test_torn_stacks_and_samplers_that_end_early_are_counted() -> None:
    capture = capture_of(parsed(module(), chain(1, flags=TORN), used(T), record(Kind.WITHDREW)))
    assert capture.losses.truncated_chains == 1
    assert "ended early in 1 process" in capture.losses.unsampled[0]


def test_a_process_that_is_left_out_for_its_sanitizer_is_said_to_be() -> None:
    file = parsed(record(Kind.WITHDREW, result=Withdrew.HELD_BACK))
    assert not file.has_calls
    (gap,) = gaps_of(capture_of(file))
    assert gap.hides
    assert gap.text == (
        "The sampler left out 1 process, because ThreadSanitizer holds signals back. Build the program without it."
    )


@pytest.mark.parametrize(
    "damage",
    [
        record(Kind.CHAIN, site=1, address=3, source=0, bytes=8) + bytes(64),
        record(Kind.CHAIN, site=1, address=2**60, source=2**60, bytes=8) + bytes(64),
        record(Kind.MODULE, address=9, source=3, bytes=1) + bytes(64),
        record(Kind.CODE, site=1, bytes=3) + b"\xff\xfe\t".ljust(64, b"\0"),
        record(Kind.USED, begin=2**63, bytes=1, source=1, result=1),
        record(Kind.USED, begin=ticks(T), bytes=2**60, source=1, result=1),
        record(Kind.RESIDENT, begin=ticks(T), bytes=2**64 - 1, address=2**64 - 1, source=2**64 - 1),
        record(Kind.WAITED, begin=ticks(T), end=ticks(T) - 1, function=1, extra=2**32 - 1),
        record(Kind.WAITED, begin=ticks(T), end=2**63, function=2**16 - 1),
        record(Kind.FORKED, begin=ticks(T), end=ticks(T + 9), address=2**64 - 1) + record(Kind.BEGUN, bytes=2**63),
    ],
)
def test_damage_costs_what_is_damaged(damage: bytes) -> None:
    capture = capture_of(parsed(module(), damage, used(T + 10, site=9)))
    assert capture.samples.weight.tolist() == [PERIOD_NS]


def test_samples_that_others_took_stay() -> None:
    known = SampleTable.of(1, weight=5)
    empty = foreign_capture("x", "perf", (), known, StackBuilder().table())
    assert samples.with_samples(empty, [parsed(module(), chain(1), used(T))], Resolver(), None) is empty
