"""Where both ends of copies lie: replayed from mappings and calls as a recording has them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.data.activity import UNRECORDED, ApiCallTable, CopyKind, Location, MemoryKind, MemoryOperation
from pinprof.data.gpu_functions import FUNCTIONS, STATED, plain_name
from pinprof.read.perf.cuda_memory import Arguments, CudaMemory, with_memory
from pinprof.read.perf.places import NOTHING, Places
from pinprof.read.perf.records import CommRecord, DataArea, ForkRecord, MapRecord

PID, TID = 7, 7
MIB = 1 << 20
HEAP, BUFFER, FILE, DEVICE, PIN = 0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000, 0x40_0000_0000, 0x50_0000_0000
READ_WRITE, SHARED, PRIVATE = 3, 0x01, 0x22


@dataclass
class Program:
    """What happens, one thing every 10 ns; each call takes 8 ns."""

    areas: list[DataArea] = field(default_factory=list)
    tasks: list[tuple[int, CommRecord | ForkRecord | MapRecord]] = field(default_factory=list)
    calls: list[tuple[int, str, tuple[int, ...], int, int]] = field(default_factory=list)
    clock: int = 10
    missing: list[tuple[int, int]] = field(default_factory=list)
    """When records may be missing."""

    def begin(self, pid: int = PID) -> None:
        self.tasks.append((self._next(), CommRecord(pid, pid, "program", exec=True)))
        self.map(HEAP, 64 * MIB, "[heap]", pid=pid)
        self.map(BUFFER, 64 * MIB, "//anon", pid=pid)
        self.map(DEVICE, 1024 * MIB, "//anon", protection=0, pid=pid)

    def fork(self, child: int, parent: int = PID) -> None:
        self.tasks.append((self._next(), ForkRecord(child, parent, child, parent, clones=True)))

    def map(
        self, start: int, size: int, path: str, *, protection: int = READ_WRITE, flags: int = PRIVATE, pid: int = PID
    ) -> None:
        self.areas.append(DataArea(self._next(), pid, pid, start, start + size, protection, flags, path))

    def call(
        self, name: str, *arguments: int, maps: tuple[int, int, str] | None = None, status: int = 0, pid: int = PID
    ) -> int:
        """Returns the number of the call; `maps` is a mapping made inside it."""
        start = self._next()
        if maps:
            begin, size, path = maps
            self.areas.append(DataArea(start + 4, pid, pid, begin, begin + size, READ_WRITE, SHARED, path))
        self.calls.append((start, plain_name(name), arguments, status, pid))
        return len(self.calls) - 1

    def pin(self, address: int, size: int, granted: int | None = None) -> int:
        return self.call("cudaHostAlloc", 0x1, size, maps=(address, granted or size, "/dev/zero (deleted)"))

    def _next(self) -> int:
        self.clock += 10
        return self.clock

    def traced(self) -> CudaMemory:
        names = tuple(dict.fromkeys(name for _, name, *_ in self.calls))
        roles = [FUNCTIONS[name] for _, name, *_ in self.calls]
        given = [arguments for _, _, arguments, *_ in self.calls]
        start = np.array([call[0] for call in self.calls], np.int64)

        def column(places: list[int | None]) -> list[int]:
            return [0 if place is None else each[place] for each, place in zip(given, places, strict=True)]

        stated = [
            STATED[each[role.stated]] if role.stated is not None else role.copies or CopyKind.UNKNOWN
            for each, role in zip(given, roles, strict=True)
        ]
        size = [-1 if role.size is None else each[role.size] for each, role in zip(given, roles, strict=True)]
        table = ApiCallTable.of(
            len(start), start_ns=start, end_ns=start + 8, name=[names.index(call[1]) for call in self.calls],
            pid=[call[4] for call in self.calls], tid=[call[4] for call in self.calls],
            correlation_id=np.arange(1, len(start) + 1), status=[call[3] for call in self.calls], names=names,
            size_bytes=size,
        )  # fmt: skip
        arguments = Arguments(
            *(
                np.array(column([getattr(role, part) for role in roles]), np.uint64)
                for part in ("pointer", "target", "source")
            ),
            np.array(stated, np.uint8),
            np.zeros(len(start), np.uint64),
            np.array(column([role.properties for role in roles]), np.uint8),
        )
        return with_memory(table, arguments, self.areas, self.tasks, missing=self.missing)

    def kinds(self, call: int) -> tuple[int, int, int]:
        """Direction, source and target of a copy."""
        calls = self.traced().calls
        assert calls.copy_kind is not None
        assert calls.source_kind is not None
        assert calls.target_kind is not None
        return int(calls.copy_kind[call]), int(calls.source_kind[call]), int(calls.target_kind[call])


@pytest.fixture
def program() -> Program:
    made = Program()
    made.begin()
    return made


TO_DEVICE = CopyKind.HOST_TO_DEVICE


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        (Location.DEVICE, MemoryKind.DEVICE),
        (Location.HOST, MemoryKind.PINNED),
        (Location.HOST_NUMA, MemoryKind.PINNED),
        (Location.HOST_NUMA_CURRENT, MemoryKind.PINNED),
        (Location.UNKNOWN, MemoryKind.DEVICE),
    ],
)
def test_memory_with_a_handle_or_from_a_pool_lies_where_the_properties_say(
    program: Program, location: Location, kind: MemoryKind
) -> None:
    program.call("cuMemCreate", 0x1, 2 * MIB, location)
    program.call("cuMemRelease", 0x77)
    program.call("cuMemPoolCreate", 0x1, location)
    program.call("cuMemAllocFromPoolAsync_ptsz", 0x1, MIB, 0x99, 0)
    program.call("cuMemFreeAsync", 0x5000)
    traced = program.traced()
    assert traced.calls.location is not None
    assert traced.calls.location.tolist() == [location, 0, location, location, 0]
    usage = traced.usage
    assert usage.memory_kind.tolist() == [kind] * 4
    assert usage.size_bytes.tolist() == [2 * MIB, 2 * MIB, MIB, MIB]
    assert usage.operation.tolist() == [MemoryOperation.ALLOCATE, MemoryOperation.FREE] * 2


def test_which_of_several_pools_memory_comes_from_is_not_guessed(program: Program) -> None:
    program.call("cudaMemPoolCreate", 0x1, Location.HOST)
    program.call("cudaMemPoolCreate", 0x1, Location.DEVICE)
    allocation = program.call("cudaMallocFromPoolAsync", 0x1, MIB, 0x99, 0)
    traced = program.traced()
    assert traced.calls.location is not None
    assert traced.calls.location[allocation] == Location.UNKNOWN
    assert traced.usage.memory_kind.tolist() == [MemoryKind.DEVICE]


def test_a_pool_that_was_not_made_holds_nothing(program: Program) -> None:
    program.call("cudaMemPoolCreate", 0x1, Location.HOST, status=801)
    program.call("cudaMallocFromPoolAsync", 0x1, MIB, 0x99, 0)
    assert program.traced().usage.memory_kind.tolist() == [MemoryKind.DEVICE]


def test_memory_that_cuda_did_not_grant_is_pageable(program: Program) -> None:
    copy = program.call("cudaMemcpyAsync", DEVICE, BUFFER + 64, MIB, 1)
    assert program.kinds(copy) == (TO_DEVICE, MemoryKind.PAGEABLE, MemoryKind.DEVICE)


def test_memory_mapped_inside_its_allocation_is_pinned_and_its_rounding_is_known(program: Program) -> None:
    pin = program.pin(PIN, MIB, granted=2 * MIB)
    copy = program.call("cuMemcpyDtoHAsync_v2", PIN + 4096, DEVICE, 4096)
    program.call("cudaFreeHost", PIN)
    assert program.kinds(copy) == (CopyKind.DEVICE_TO_HOST, MemoryKind.DEVICE, MemoryKind.PINNED)
    traced = program.traced()
    assert traced.calls.granted_bytes is not None
    assert traced.calls.granted_bytes.tolist()[pin] == 2 * MIB
    assert traced.calls.size_bytes is not None
    assert traced.calls.size_bytes.tolist() == [MIB, 4096, MIB]
    assert traced.usage.operation.tolist() == [MemoryOperation.ALLOCATE, MemoryOperation.FREE]


def test_a_small_pin_may_come_out_of_an_earlier_ones_mapping(program: Program) -> None:
    program.pin(PIN, 64, granted=2 * MIB)
    program.call("cudaMallocHost", 0x1, 64)
    copy = program.call("cudaMemcpy", DEVICE, PIN + 512, 64, 1)
    assert program.kinds(copy)[1] == MemoryKind.PINNED


def test_registered_memory_is_pinned_until_it_is_unregistered(program: Program) -> None:
    program.call("cudaHostRegister", BUFFER, MIB, 0)
    inside = program.call("cudaMemcpy", DEVICE, BUFFER + MIB - 1, 1, 1)
    beyond = program.call("cudaMemcpy", DEVICE, BUFFER + MIB, 1, 1)
    program.call("cudaHostUnregister", BUFFER)
    after = program.call("cudaMemcpy", DEVICE, BUFFER, 1, 1)
    assert [program.kinds(copy)[1] for copy in (inside, beyond, after)] == [
        MemoryKind.PINNED, MemoryKind.PAGEABLE, MemoryKind.PAGEABLE,
    ]  # fmt: skip


def test_a_call_that_failed_pins_nothing(program: Program) -> None:
    program.call("cudaHostRegister", BUFFER, MIB, 0, status=2)
    assert program.kinds(program.call("cudaMemcpy", DEVICE, BUFFER, 1, 1))[1] == MemoryKind.PAGEABLE


def test_managed_memory_is_managed_on_either_side(program: Program) -> None:
    program.call("cudaMallocManaged", 0x1, MIB, 1, maps=(PIN, 2 * MIB, "/dev/nvidia-uvm"))
    stated = program.call("cudaMemcpy", PIN, BUFFER, MIB, 1)
    unified = program.call("cuMemcpy", BUFFER, PIN, MIB)
    assert program.kinds(stated) == (TO_DEVICE, MemoryKind.PAGEABLE, MemoryKind.MANAGED)
    assert program.kinds(unified) == (CopyKind.UNKNOWN, MemoryKind.MANAGED, MemoryKind.PAGEABLE)


def test_addresses_tell_the_direction_where_nothing_states_it(program: Program) -> None:
    program.pin(PIN, MIB)
    program.map(DEVICE + (2 << 30), MIB, "/dev/nvidia0", flags=SHARED)
    copies = [
        program.call("cuMemcpyAsync", DEVICE, PIN, 64),
        program.call("cudaMemcpy", BUFFER, DEVICE + (2 << 30), 64, 4),
        program.call("cuMemcpy", DEVICE, DEVICE + 4096, 64),
        program.call("cuMemcpy", HEAP, BUFFER, 64),
    ]
    assert [program.kinds(copy)[0] for copy in copies] == [
        TO_DEVICE, CopyKind.DEVICE_TO_HOST, CopyKind.DEVICE_TO_DEVICE, CopyKind.HOST_TO_HOST,
    ]  # fmt: skip


def test_only_mapped_files_of_data_count_as_files(program: Program) -> None:
    program.map(FILE, MIB, "/data/weights.safetensors", protection=1)
    program.tasks.append((5, MapRecord(PID, 0x1000, 0x2000, 0, "/usr/bin/program", "")))
    program.map(FILE + (1 << 30), MIB, "/usr/bin/program", protection=1)
    program.map(FILE + (2 << 30), MIB, "/dev/shm/torch_1", flags=SHARED)
    copies = [program.call("cudaMemcpy", DEVICE, FILE + (each << 30), 64, 1) for each in range(3)]
    calls = program.traced().calls
    assert calls.from_file is not None
    assert calls.from_file[copies].tolist() == [True, False, False]
    assert {program.kinds(copy)[1] for copy in copies} == {MemoryKind.PAGEABLE}


def test_what_is_mapped_later_takes_an_address_over(program: Program) -> None:
    program.pin(PIN, MIB)
    program.call("cudaFreeHost", PIN)
    program.map(PIN, MIB, "//anon")
    assert program.kinds(program.call("cudaMemcpy", DEVICE, PIN, 64, 1))[1] == MemoryKind.PAGEABLE


def test_processes_have_addresses_of_their_own(program: Program) -> None:
    program.call("cudaHostRegister", BUFFER, MIB, 0)
    program.fork(8)
    child = program.call("cudaMemcpy", DEVICE, BUFFER, 64, 1, pid=8)
    parent = program.call("cudaMemcpy", DEVICE, BUFFER, 64, 1)
    assert program.kinds(child)[1] == MemoryKind.PAGEABLE
    assert program.kinds(parent)[1] == MemoryKind.PINNED


def test_of_a_program_that_already_ran_only_what_it_pins_now_is_known() -> None:
    program = Program()
    before = program.call("cudaMemcpy", DEVICE, BUFFER, 64, 1)
    program.call("cudaHostRegister", BUFFER, MIB, 0)
    after = program.call("cudaMemcpy", DEVICE, BUFFER, 64, 1)
    assert program.kinds(before) == (TO_DEVICE, MemoryKind.UNKNOWN, MemoryKind.DEVICE)
    assert program.kinds(after)[1] == MemoryKind.PINNED


def test_where_records_may_be_missing_memory_is_unknown_until_later_ones_tell(program: Program) -> None:
    program.pin(PIN, MIB)
    program.call("cudaHostRegister", BUFFER, MIB, 0)
    ends = PIN, BUFFER, HEAP
    before = [program.call("cudaMemcpy", DEVICE, end, 64, 1) for end in ends]
    program.missing.append((program.clock + 5, program.clock + 15))
    program.clock += 10
    after = [program.call("cudaMemcpy", DEVICE, end, 64, 1) for end in ends]
    program.call("cudaHostRegister", HEAP, MIB, 0)
    later = program.call("cudaMemcpy", DEVICE, HEAP, 64, 1)
    program.begin(pid=PID + 1)
    another = program.call("cudaMemcpy", DEVICE, HEAP, 64, 1, pid=PID + 1)
    pinned, pageable, unknown = MemoryKind.PINNED, MemoryKind.PAGEABLE, MemoryKind.UNKNOWN
    assert [program.kinds(call)[1] for call in before] == [pinned, pinned, pageable]
    assert [program.kinds(call)[1] for call in after] == [pinned, unknown, unknown], "the driver's mapping is there"
    program.map(PIN, MIB, "//anon")
    assert program.kinds(program.call("cudaMemcpy", DEVICE, PIN, 64, 1))[1] == unknown, "now it is not"
    assert (program.kinds(later)[1], program.kinds(another)[1]) == (pinned, pageable)
    program.missing.append((program.clock - 60, 1 << 62))
    assert program.kinds(another)[1] == unknown, "a program that began meanwhile"


def test_copies_whose_addresses_were_not_recorded_say_only_what_their_names_do(program: Program) -> None:
    assert program.kinds(program.call("cuMemcpy3DAsync_v2", 0x1)) == (
        CopyKind.UNKNOWN, MemoryKind.UNKNOWN, MemoryKind.UNKNOWN,
    )  # fmt: skip
    assert program.kinds(program.call("cudaDeviceSynchronize")) == (UNRECORDED,) * 3


def test_addresses_and_sizes_beyond_all_memory_are_survived(program: Program) -> None:
    last = 2**64 - 1
    program.map(last - 1, last, "//anon")
    program.call("cudaHostRegister", last, 2**63 - 1, 0)
    program.call("cudaHostRegister", 2**63, 2**63 - 1, 0)
    program.call("cudaHostAlloc", 0x1, 64, maps=(0, 2 * last, "/dev/zero (deleted)"))
    copies = [program.call("cudaMemcpy", DEVICE, 2**63 + number, 64, 1) for number in range(40)]
    assert {program.kinds(copy)[1] for copy in copies} == {MemoryKind.PINNED}


SLOTS = st.integers(0, 5)
STEPS = st.lists(st.tuples(st.sampled_from(["pin", "register", "managed", "free", "copy", "many"]), SLOTS), max_size=40)


@given(STEPS)
def test_any_sequence_agrees_with_a_plain_model(steps: list[tuple[str, int]]) -> None:
    program = Program()
    program.begin()
    kind: dict[int, tuple[str, MemoryKind]] = {}
    expected: list[tuple[int, MemoryKind]] = []
    for step, slot in steps:
        plain, granted = BUFFER + slot * MIB, PIN + slot * MIB
        if step in ("pin", "managed") and slot not in kind:
            if step == "pin":
                program.pin(granted, MIB)
                kind[slot] = "cudaFreeHost", MemoryKind.PINNED
            else:
                program.call("cudaMallocManaged", 0x1, MIB, 1, maps=(granted, MIB, "/dev/nvidia-uvm"))
                kind[slot] = "cudaFree", MemoryKind.MANAGED
        elif step == "register" and slot not in kind:
            program.call("cudaHostRegister", plain, MIB, 0)
            kind[slot] = "cudaHostUnregister", MemoryKind.PINNED
        elif step == "free" and slot in kind:
            function, _ = kind.pop(slot)
            registered = function == "cudaHostUnregister"
            program.call(function, plain if registered else granted)
            if not registered:  # the program uses the address again
                program.map(granted, MIB, "//anon")
        elif step in ("copy", "many"):
            function, now = kind.get(slot, ("cudaHostUnregister", MemoryKind.PAGEABLE))
            address = plain if function == "cudaHostUnregister" else granted
            many = range(30 if step == "many" else 1)
            expected += [(program.call("cudaMemcpyAsync", DEVICE, address + each, 64, 1), now) for each in many]
    if not program.calls:
        return
    calls = program.traced().calls
    assert calls.source_kind is not None
    assert [int(calls.source_kind[row]) for row, _ in expected] == [now for _, now in expected]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(-1, 3)), max_size=30),
    st.lists(st.integers(0, 41), max_size=40),
)
def test_places_are_what_was_laid_over_them_last(laid: list[tuple[int, int, int]], asked: list[int]) -> None:
    places, model = Places(), [NOTHING] * 42
    for start, end, value in laid:
        places.put(start, end, value)
        model[start:end] = [value] * len(model[start:end])
    assert places.at(np.array(asked, np.uint64)).tolist() == [model[each] for each in asked]
    assert places.copy().at(np.arange(42, dtype=np.uint64)).tolist() == model
