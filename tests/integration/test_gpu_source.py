"""The agent's part for CUPTI in a process of its own, with a CUPTI of the tests: what it writes and when it stops."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pinprof.base.columns import Int64
from pinprof.data.activity import CopyKind, GpuWindowTable, MemoryKind, OpKind
from pinprof.machine.libraries import compiler
from pinprof.read import cupti, cupti_file
from pinprof.read.cupti import GpuWork
from pinprof.read.cupti_file import CuptiState, GpuFile
from tests.support.cupti_programs import PROGRAM, SUPPORT, Running

pytestmark = pytest.mark.skipif(not compiler(), reason="no C compiler")


def copy(kind: int, source: int, target: int, size: int, start: int, end: int, correlation: int) -> bytes:
    """A CUpti_ActivityMemcpy."""
    head = struct.pack("<IBBBBQQQIIII", 1, kind, source, target, 0, size, start, end, 0, 1, 7, correlation)
    return head.ljust(112, b"\0")


def kernel(name: int, start: int, end: int, grid: int, block: int) -> bytes:
    """A CUpti_ActivityKernel."""
    head = struct.pack("<4IQQQ3I3I3I", 10, 0, 0, 0, start, end, 0, 0, 1, 7, grid, 1, 1, block, 1, 1)
    return (head.ljust(92, b"\0") + struct.pack("<IQQ", 5, 0, name)).ljust(248, b"\0")


def unified(counter: int, value: int, start: int, end: int, address: int, flags: int) -> bytes:
    """A CUpti_ActivityUnifiedMemoryCounter."""
    return struct.pack("<IIQQQQ5I", 25, counter, value, start, end, address, 0, 0, 0, 0, flags).ljust(104, b"\0")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Running:
    return Running(tmp_path_factory.mktemp("gpu"))


def work_of(*files: GpuFile) -> GpuWork:
    from pinprof.data.activity import ApiCallTable

    return cupti.combine(files, ApiCallTable.empty())


@pytest.mark.parametrize("loaded", [True, False])
def test_what_cupti_hands_over_is_in_the_file(running: Running, loaded: bool) -> None:
    records = (
        copy(1, 1, 3, 4096, 1000, 2000, 11)
        + kernel(0, 2000, 5000, 64, 256)
        + kernel(1, 6000, 7000, 1, 1)
        + kernel(0, 8000, 9000, 64, 256)
        + struct.pack("<IIQQQIIII", 2, 0, 1 << 20, 10_000, 11_000, 0, 1, 7, 12).ljust(104, b"\0")
        + struct.pack("<IIQQIIII", 38, 3, 12_000, 13_000, 14, 1, 7, 0).ljust(56, b"\0")
        + struct.pack("<IIIIQQQQIIII", 49, 1, 2, 15, 0x7F00, 8192, 14_000, 0, 1, 0, 1, 0).ljust(128, b"\0")
    )
    code = f"fake.fake_name(0, b'_Z3addPfS_'); fake.fake_name(1, b'scale'); assert deliver({records!r}) == 0"
    file = running(code, loaded=loaded)
    assert (file.state, file.damaged, file.dropped, file.api) == (CuptiState.ENDED, 0, 0, 130001)
    work = work_of(file)
    operations = work.operations
    assert operations.kind.tolist() == [
        OpKind.COPY, OpKind.KERNEL, OpKind.KERNEL, OpKind.KERNEL, OpKind.MEMSET, OpKind.SYNC,
    ]  # fmt: skip
    assert operations.copy_kind[0] == CopyKind.HOST_TO_DEVICE
    assert (operations.src_kind[0], operations.dst_kind[0]) == (MemoryKind.PAGEABLE, MemoryKind.DEVICE)
    add = "add(float*, float*)"
    assert [operations.names[number] for number in operations.name[1:4]] == [add, "scale", add]
    assert operations.size_bytes.tolist() == [4096, 0, 0, 0, 1 << 20, 0]
    assert (operations.start_ns[0], operations.end_ns[0], operations.stream[0]) == (1000, 2000, 7)
    assert work.memory.size_bytes.tolist() == [8192]
    assert "gpu_faults" not in work.recorded


ALLOCATOR = """
c = ctypes.CDLL(None)
for name in "malloc calloc realloc aligned_alloc strdup".split():
    getattr(fake, "fake_" + name).restype = ctypes.c_void_p
for name in "malloc sbrk".split():
    getattr(c, name).restype = ctypes.c_void_p
size, pointer = ctypes.c_size_t, ctypes.c_void_p
"""
KEPT_ABOVE = """
c.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD: large blocks come from the heap, too
before = c.sbrk(0)
large = c.malloc(size(64 << 20))
assert c.sbrk(0) - before >= 60 << 20
kept = {kept}
c.free(pointer(large))
with open({told!r}, "w") as file:
    file.write(str(c.sbrk(0) - before))
"""
BLOCKS = """
import random
chance = random.Random(33)
blocks, other = [], c.malloc(size(1))
def check(block):
    place, length, byte = block
    assert ctypes.string_at(place, length) == bytes([byte]) * length
for turn in range(20_000):
    length = int(2 ** chance.uniform(0, 25 if turn % 100 == 0 else 15))
    what = chance.randrange(6)
    if what == 0:
        place = fake.fake_malloc(size(length))
    elif what == 1:
        place = fake.fake_calloc(size(length), size(1))
        assert ctypes.string_at(place, length).count(0) == length
    elif what == 2:
        alignment = 1 << chance.randrange(4, 17)
        place = fake.fake_aligned_alloc(size(alignment), size(length))
        assert place % alignment == 0
    elif what == 3:
        alignment, made = 1 << chance.randrange(3, 17), pointer()
        assert fake.fake_posix_memalign(ctypes.byref(made), size(alignment), size(length)) == 0
        place = made.value
        assert place % alignment == 0
    elif blocks and what == 4:
        old, before, byte = blocks.pop(chance.randrange(len(blocks)))
        check((old, before, byte))
        place = fake.fake_realloc(pointer(old), size(length))
        assert ctypes.string_at(place, min(length, before)) == bytes([byte]) * min(length, before)
    else:
        place = fake.fake_strdup(bytes([turn % 255 + 1]) * length)
        assert ctypes.string_at(place) == bytes([turn % 255 + 1]) * length
    assert place % 16 == 0
    ctypes.memset(place, turn % 256, length)
    blocks.append((place, length, turn % 256))
    if len(blocks) > 200:
        block = blocks.pop(chance.randrange(len(blocks)))
        check(block)
        fake.fake_free(pointer(block[0]))
kept = fake.fake_realloc(pointer(c.malloc(size(100))), size(200_000))
fake.fake_free(pointer(kept))
assert fake.fake_posix_memalign(ctypes.byref(pointer()), size(3), size(1)) == 22
assert not fake.fake_malloc(size(1 << 62)) and not fake.fake_calloc(size(1 << 62), size(8))
for block in blocks:
    check(block)
child = os.fork()
if not child:
    fake.fake_free(pointer(blocks[0][0]))
    os._exit(0 if fake.fake_malloc(size(5000)) else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("loaded", [True, False])
def test_what_cupti_keeps_holds_no_memory_of_the_programs_heap(running: Running, loaded: bool, tmp_path: Path) -> None:
    def left(kept: str) -> int:
        told = tmp_path / "told"
        running(ALLOCATOR + KEPT_ABOVE.format(kept=kept, told=str(told)), loaded=loaded)
        return int(told.read_text())

    assert left("c.malloc(size(1 << 20))") >= 60 << 20
    assert left("fake.fake_malloc(size(1 << 20))") < 1 << 20


def test_blocks_of_cupti_are_those_of_an_allocator(running: Running) -> None:
    running(ALLOCATOR + BLOCKS)


def test_unified_memory_is_watched_from_the_first_allocation_of_it(running: Running) -> None:
    records = (
        unified(1, 65536, 1000, 2000, 0x1000, 2)
        + unified(4, 3, 900, 1000, 0x1000, 2)
        + unified(3, 0x400000, 3000, 0, 0x2000, 0)
    )
    file = running(
        f"assert not counts.unified; fake.fake_allocate_managed(); assert counts.unified; deliver({records!r})"
    )
    work = work_of(file)
    assert work.operations.kind.tolist() == [OpKind.MIGRATION]
    assert work.operations.copy_kind.tolist() == [CopyKind.UVM_HOST_TO_DEVICE]
    assert work.operations.size_bytes.tolist() == [65536]
    assert work.faults.device.tolist() == [0, -1]
    assert work.faults.count.tolist() == [3, 1]
    assert {"gpu_faults", "cpu_faults"} <= work.recorded


@pytest.mark.parametrize(
    "call",
    [
        "fake.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), None, None)",
        "fake.cuptiActivityRegisterCallbacks(None, None)",
        "fake.cuptiActivityEnable(10)",
    ],
)
def test_a_program_that_profiles_itself_gets_cupti_to_itself(running: Running, call: str) -> None:
    code = f"""
deliver({copy(1, 1, 3, 4096, 1000, 2000, 11)!r})
assert {call} == 0
assert counts.unsubscribed == 1 and counts.finalized == 1 and counts.refused == 0 and counts.unsafe == 0
"""
    file = running(code)
    assert file.state == CuptiState.STEPPED_BACK
    assert len(file.records) == 1
    assert any("profile itself" in note for note in work_of(file).notes)


def test_beside_a_call_that_goes_on_another_tool_gets_cupti_as_it_is(running: Running) -> None:
    code = """
ctypes.c_int.in_dll(fake, "fake_busy").value = 1
assert fake.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), None, None) == 0
fake.fake_return(282, ctypes.c_void_p.in_dll(fake, "fake_kept"))
assert counts.unsubscribed == 1 and counts.finalized == 0 and counts.unsafe == 0
"""
    assert running(code).state == CuptiState.STEPPED_BACK


@pytest.mark.parametrize("binding", ["-Wl,-z,now", "-Wl,-z,lazy"])
def test_a_profiler_that_was_linked_before_is_noticed_too(running: Running, binding: str) -> None:
    source = running.folder / "profiler.c"
    source.write_text(
        "int cuptiSubscribe(void **, void *, void *); void *handle;\n"
        "int profile(void) { return cuptiSubscribe(&handle, 0, 0); }\n"
    )
    library = running.folder / f"profiler{binding[-3:]}.so"
    command = [*compiler(), "-shared", "-fPIC", binding, str(source), str(running.fake), "-o", str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{running.folder}"], check=True)
    program = f"profiler = ctypes.CDLL({str(library)!r})"
    before = PROGRAM.replace("injection =", program.replace("{", "{{") + "\ninjection =")
    code = "assert profiler.profile() == 0 and counts.refused == 0 and counts.unsubscribed == 1"
    place = running.folder / "gpu"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", running.text(code, program=before)],
        env={**os.environ, "PINPROF_GPU": str(place)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = place.iterdir()
    file = cupti_file.load(path)
    assert file is not None
    assert file.state == CuptiState.STEPPED_BACK


@pytest.mark.parametrize(
    ("end", "status"),
    [("os._exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL), ("os.abort()", -signal.SIGABRT)],
)
def test_what_was_written_before_any_death_is_kept(running: Running, end: str, status: int) -> None:
    code = f"deliver({copy(1, 1, 3, 4096, 1000, 2000, 11)!r}); wait_until(written); {end}"
    file = running(code, status=status)
    assert file.state == CuptiState.RUNNING
    assert len(file.records) == 1
    assert any("half second" in note for note in work_of(file).notes)


def test_memory_is_bounded_and_what_found_no_room_is_said(running: Running) -> None:
    record = copy(1, 1, 3, 64, 1000, 2000, 1)
    code = f"""
many = {record!r} * 1000
fake.fake_hold(1)
lost = sum(deliver(many) for _ in range(400))
assert lost > 0
ctypes.c_size_t.in_dll(fake, "fake_dropped").value = lost
fake.fake_hold(0)
"""
    file = running(code)
    assert file.dropped > 0
    assert file.dropped + len(file.records) == 400_000
    assert any("did not fit" in note for note in work_of(file).notes)


def test_a_process_that_is_forked_writes_nothing_into_its_parents_file(running: Running) -> None:
    record = copy(1, 1, 3, 4096, 1000, 2000, 11)
    code = f"""
deliver({record!r})
if os.fork() == 0:
    sys.exit(0)
os.wait()
deliver({record!r})
"""
    file = running(code)
    assert file.state == CuptiState.ENDED
    assert len(file.records) == 2


def test_a_program_that_closes_all_descriptors_keeps_its_own_files(running: Running, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    code = f"""
os.closerange(3, 1024)
files = [os.open({str(mine)!r}, os.O_CREAT | os.O_RDWR) for _ in range(600)]
deliver({copy(1, 1, 3, 4096, 1000, 2000, 11)!r})
"""
    running(code)
    assert mine.read_bytes() == b""


def test_the_file_takes_no_larger_table_of_descriptors(running: Running) -> None:
    """For one the kernel makes a program with threads wait for all processors."""
    code = """
folder = os.environ["PINPROF_GPU"]
numbers = [entry for entry in os.listdir("/proc/self/fd") if entry != "3"]
(mine,) = (int(number) for number in numbers if os.readlink(f"/proc/self/fd/{number}").startswith(folder))
assert 3 < mine < 64, mine
"""
    running(code)


def test_a_cupti_of_an_unknown_version_is_left_alone(running: Running) -> None:
    place = running.folder / "new"
    place.mkdir(exist_ok=True)
    other = place / "libcupti.so.14"
    command = [*compiler(), "-shared", "-fPIC", "-DVERSION=140000", str(SUPPORT / "fake_cupti.c"), "-o", str(other)]
    subprocess.run(command, check=True)
    file = running("", loaded=False, named=str(other))
    assert file.api == 0
    assert len(file.records) == 0
    assert any("no usable CUPTI" in note for note in work_of(file).notes)


# Copies of now, as many as the budget lasts for until recording pauses; they begin and end in one instant.
OFTEN = f"""
import struct
first = counts.enabled
def copies(number):
    record, now = bytearray({copy(1, 1, 3, 64, 0, 0, 1)!r}), time.monotonic_ns()
    struct.pack_into("<QQ", record, 16, now, now)
    deliver(bytes(record) * number)
def work():
    copies(400)
    time.sleep(0.005)
def windows():
    return (counts.enabled - first) // 5
"""


@pytest.mark.parametrize("budget", ["", "1000"])
def test_with_any_budget_all_is_recorded(running: Running, budget: str) -> None:
    file = running(f"{OFTEN}\nfor _ in range(40): work()", budget=budget)
    assert (file.state, len(file.records)) == (CuptiState.ENDED, 16_000)
    assert work_of(file).recorded == {"cuda", "memory"}


def test_over_budget_work_is_recorded_in_windows(running: Running) -> None:
    code = f"""{OFTEN}
wait_until(lambda: work() or windows() >= 12)
for _ in range(10):
    fake.fake_return(282, call())
assert counts.disabled and counts.finalized == 0 and counts.unsubscribed == 0 and counts.unsafe == 0
"""
    file = running(code, budget="30")
    work = work_of(file)
    windows, begun = work.windows, work.operations.start_ns
    assert file.state == CuptiState.ENDED
    assert len(windows) >= 12
    assert windows.start_ns[0] == file.opened_ns
    assert windows.chance[0] == 1
    assert np.all(windows.chance > 0)
    assert windows.chance.min() < 0.5
    assert np.all(windows.start_ns[1:] >= windows.end_ns[:-1])
    assert begun[0] >= windows.start_ns[0]
    assert few(windows_with_late(begun, windows), windows)
    assert (work.recorded, work.complete) == ({"gpu windows", "memory"}, False)
    assert any(f"in {len(windows)} windows" in note for note in work.notes)


def test_where_it_does_not_come_back_recording_ends_with_the_first_window(running: Running) -> None:
    code = f"{OFTEN}\nwait_until(lambda: work() or counts.disabled)\nfor _ in range(200): work()\nassert not windows()"
    file = running(code, budget="30", resumes=False)
    assert file.windows.start_ns.tolist() == [file.opened_ns]
    assert "gpu windows" in work_of(file).recorded
    assert any("in 1 window," in note for note in work_of(file).notes)


def test_which_slots_are_recorded_depends_on_the_time_of_day_alone(running: Running) -> None:
    file = running(f"{OFTEN}\nwait_until(lambda: work() or windows() >= 12)", budget="30")
    to_day_ns = max(time.time_ns() - time.monotonic_ns() for _ in range(20))  # less where this stood still between them
    drawn = file.windows.take(slice(1, None))
    slots = (drawn.start_ns + to_day_ns) // 20_000_000
    others = [
        slot for slot, chance in zip(slots.tolist(), drawn.chance.tolist(), strict=True) if lot(slot) > chance * 2**32
    ]
    assert few(len(others), drawn)


def windows_with_late(begun: Int64, windows: GpuWindowTable) -> int:
    """How many windows hold work that began when they had ended."""
    at = np.searchsorted(windows.start_ns, begun, "right") - 1
    return len(np.unique(at[begun > windows.end_ns[at] + 5_000_000]))


def few(number: int, windows: GpuWindowTable) -> bool:
    """Whether a number of windows is one that a busy machine explains: between a reading of the clock and the switch
    beside it (microseconds), it stands still in one of a thousand. For four of twelve the chance is 5e-10.
    """
    assert len(windows) >= 12
    return number <= len(windows) // 4


def lot(slot: int) -> int:
    """The upper half of splitmix64's number."""
    most = (1 << 64) - 1
    slot = (slot + 0x9E3779B97F4A7C15) & most
    slot = ((slot ^ (slot >> 30)) * 0xBF58476D1CE4E5B9) & most
    slot = ((slot ^ (slot >> 27)) * 0x94D049BB133111EB) & most
    return (slot ^ (slot >> 31)) >> 32


def test_of_a_process_killed_in_a_window_the_windows_before_remain(running: Running) -> None:
    code = f"""{OFTEN}
wait_until(lambda: work() or (windows() >= 12 and counts.enabled - first == counts.disabled))
for _ in range(10):
    copies(600)
os.kill(os.getpid(), signal.SIGKILL)
"""
    file = running(code, budget="30", status=-signal.SIGKILL)
    assert file.state == CuptiState.RUNNING
    assert few(windows_with_late(work_of(file).operations.start_ns, file.windows), file.windows)


def test_memory_is_recorded_between_windows_too(running: Running) -> None:
    granted = struct.pack("<IIIIQQQQIIII", 49, 1, 2, 15, 0x7F00, 8192, 14_000, 0, 1, 0, 1, 0).ljust(128, b"\0")
    code = f"{OFTEN}\nwait_until(lambda: work() or counts.disabled)\ndeliver({granted!r})"
    assert len(work_of(running(code, budget="30")).memory) == 1


def test_another_tool_gets_cupti_between_windows_for_good(running: Running) -> None:
    code = f"""{OFTEN}
wait_until(lambda: work() or windows() >= 2)
assert fake.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), None, None) == 0
enabled = counts.enabled
time.sleep(1)
assert counts.enabled == enabled and counts.unsubscribed == 1 and counts.unsafe == 0
"""
    file = running(code, budget="30")
    assert file.state == CuptiState.STEPPED_BACK
    assert len(work_of(file).windows) == 0


def test_a_program_that_becomes_cheap_is_recorded_most_of_the_time(running: Running) -> None:
    # After a burst of 6.4 ms, a slot seems to cost 4.7 ms and more, so that its chance is a sixth at most.
    code = f"""{OFTEN}
from pathlib import Path
from pinprof.read import cupti_file
copies(1600)
wait_until(lambda: work() or windows())
def chances():
    (path,) = Path(os.environ["PINPROF_GPU"]).iterdir()
    return cupti_file.load(path).windows.chance
wait_until(lambda: len(chances()) > 2 and chances()[-1] > 4 * chances()[1])
"""
    windows = running(code, budget="30").windows
    assert windows.chance.max() > 4 * windows.chance[1]


def test_a_burst_is_recorded(running: Running) -> None:
    code = f"""
deliver({copy(1, 1, 3, 64, 1000, 2000, 1)!r} * 700)
time.sleep(0.7)
"""
    file = running(code, budget="30")
    assert (file.state, len(file.records)) == (CuptiState.ENDED, 700)


def test_calls_count_before_their_buffer_is_full(running: Running) -> None:
    code = f"""
deliver({copy(1, 1, 3, 64, 1000, 2000, 1)!r} * 1100)
wait_until(lambda: counts.disabled)
"""
    assert len(running(code, budget="30").windows) >= 1


def test_a_program_that_calls_now_and_then_is_recorded_to_its_end(running: Running) -> None:
    code = f"""
few = {copy(1, 1, 3, 64, 1000, 2000, 1)!r} * 5
for _ in range(20):
    deliver(few)
    time.sleep(0.02)
"""
    file = running(code, budget="30")
    assert (file.state, len(file.records)) == (CuptiState.ENDED, 100)
