"""The driver's events of managed memory on their way into a capture, with a stand-in for the driver."""

from __future__ import annotations

import ctypes
import errno
import gc
import math
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import CollectError
from pinprof.collect import BESIDE, RecordRequest, load
from pinprof.collect.collector import Setup, Waiter
from pinprof.collect.own_processes import collector_environment
from pinprof.collect.program import Program
from pinprof.collect.uvm import REFUSED, beside, descriptors, driver, source
from pinprof.collect.uvm import __main__ as follower
from pinprof.collect.uvm.driver import CONTROL_BYTES, UvmRing
from pinprof.data import uvm_events
from pinprof.data.uvm_events import ENTRY_BYTES, Counter, State, UvmEvent
from pinprof.doctor import recording
from pinprof.doctor.rehearsal import Rehearsal
from pinprof.read import uvm
from pinprof.streams import store
from tests.support import uvm_layout as layout
from tests.support.uvm_driver import Driver, write
from tests.truth.gpu import uvm_probe

SIZE = 72

takes_descriptors = pytest.mark.skipif(
    bool(beside.forbidden() or descriptors.impossible()), reason="descriptors of other processes may not be taken here"
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Driver:
    """A machine with the driver; its devices are plain files."""
    (tmp_path / "nvidia-uvm-tools").touch()
    (tmp_path / "nvidia-uvm").touch()
    stand_in = Driver()
    monkeypatch.setattr(driver, "ioctl", stand_in.ioctl)
    monkeypatch.setattr(driver, "DEVICE", tmp_path / "nvidia-uvm-tools")
    monkeypatch.setattr(descriptors, "MEMORY_DEVICE", str(tmp_path / "nvidia-uvm"))
    return stand_in


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The follower's clocks, which stand still: what it takes to read costs nothing, and `now` is the time in s."""
    clock = SimpleNamespace(now=5.0)
    told = {"monotonic": lambda: clock.now, "thread_time": lambda: 0.0}
    kept = ("monotonic_ns", "clock_gettime_ns", "CLOCK_MONOTONIC_RAW")
    monkeypatch.setattr(source, "time", SimpleNamespace(**told, **{name: getattr(time, name) for name in kept}))
    return clock


def migration(number: int, version: int = 2) -> bytes:
    return layout.event(
        UvmEvent.MIGRATION, version, cause=2, source=0, target=1, address=number << 12, bytes=4096, begin=10 + number,
        end=20 + number,
    )  # fmt: skip


def following(folder: Path, budget: float = math.inf) -> source.FollowedSpace:
    return source.FollowedSpace(os.getpid(), os.open("/dev/null", os.O_RDONLY), folder, budget)


def own_descriptors() -> set[Path]:
    """Without those of other tests' garbage, which may go at any time."""
    gc.collect()
    return set(Path("/proc/self/fd").iterdir())


def recorded(folder: Path) -> uvm.UvmFile:
    (path,) = folder.glob("*.bin")
    file = uvm.load(path)
    assert file is not None
    return file


def test_the_structures_are_as_large_as_the_drivers() -> None:
    assert [driver.INIT.size, driver.FLAGS.size, driver.TABLE.size] == [
        ctypes.sizeof(layout.INIT), ctypes.sizeof(layout.FLAGS), ctypes.sizeof(layout.TABLE),
    ]  # fmt: skip
    assert (layout.INIT.status.offset, layout.FLAGS.status.offset) == (48, 8)
    assert (layout.TABLE.status.offset, layout.OLD_TABLE.status.offset) == (8, 12)
    assert ctypes.sizeof(layout.CONTROL) == CONTROL_BYTES
    for version, size in ENTRY_BYTES.items():
        assert max(ctypes.sizeof(kinds[version]) for kinds in layout.EVENTS.values()) == size
    assert uvm.HEADER_TYPE.itemsize == source._PACKED.size <= uvm_events.TABLE_AT
    assert uvm_events.TABLE_AT + uvm_events.PROCESSORS * uvm_events.UUID_BYTES <= uvm_events.HEADER_BYTES


class Memory:
    """A queue of a few entries, as the driver and its reader share it."""

    def __init__(self, length: int) -> None:
        self.control, self.entries = bytearray(4096), bytearray(length * SIZE)
        self.data = layout.CONTROL.from_buffer(self.control)
        self.place = ctypes.addressof(ctypes.c_char.from_buffer(self.entries))
        self.length = length
        self.ring = UvmRing(memoryview(self.control), memoryview(self.entries), SIZE, length)

    def write(self, number: int) -> None:
        write(self.data, self.place, self.length, SIZE, migration(number))

    def read(self) -> list[int]:
        until = self.ring.announced()
        data = b"".join(map(bytes, self.ring.pieces(until)))
        self.ring.release(until)
        return [int.from_bytes(data[at + 16 : at + 24], "little") >> 12 for at in range(0, len(data), SIZE)]


@given(st.lists(st.integers(0, 12), max_size=40))
def test_every_event_is_read_once_in_its_order_or_counted_as_lost(bursts: list[int]) -> None:
    memory, written, seen = Memory(8), 0, []
    for burst in bursts:
        for _ in range(burst):
            memory.write(written)
            written += 1
        seen += memory.read()
    assert seen == sorted(set(seen))
    assert len(seen) + memory.ring.dropped[UvmEvent.MIGRATION] == written
    assert memory.ring.dropped[UvmEvent.MIGRATION] == sum(max(burst - 7, 0) for burst in bursts)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4))
def test_no_value_of_the_control_data_leads_out_of_the_queue(values: list[int]) -> None:
    memory = Memory(8)
    memory.data.get_ahead, memory.data.get_behind, memory.data.put_ahead, memory.data.put_behind = values
    pieces = memory.ring.pieces(memory.ring.announced())
    assert sum(map(len, pieces)) == (values[3] - values[1]) % 8 * SIZE
    memory.ring.release(values[3])
    assert memory.data.get_behind == values[3] % 8


def test_events_and_counters_are_in_the_file_at_once(machine: Driver, tmp_path: Path) -> None:
    followed = following(tmp_path)
    machine.writes(*map(migration, range(3)))
    machine.counters[0][Counter.TO_DEVICE] = 3 * 4096
    followed.read()
    file = recorded(tmp_path)
    assert (file.pid, file.layout, file.state) == (os.getpid(), 2, State.RUNNING)
    assert file.count(UvmEvent.MIGRATION) == 3
    assert file.counters[Counter.TO_DEVICE] == 3 * 4096
    machine.late = (migration(3),)
    followed.finish()
    file = recorded(tmp_path)
    assert (file.count(UvmEvent.MIGRATION), file.state, file.damaged, machine.flushed) == (4, State.ENDED, 0, 1)
    assert file.count(uvm_events.CLOCK) >= 1
    (path,) = tmp_path.glob("*.bin")
    assert path.read_bytes()[uvm_events.TABLE_AT + 16 : uvm_events.TABLE_AT + 32] == bytes(range(16))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_driver_that_knows_the_first_layout_alone_is_read_too(machine: Driver, tmp_path: Path) -> None:
    machine.newest = 1
    followed = following(tmp_path)
    machine.writes(migration(7, 1))
    followed.finish()
    file = recorded(tmp_path)
    assert (file.layout, file.of_kind(UvmEvent.MIGRATION)["address"].tolist()) == (1, [7 << 12])


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("budget", [source.BUDGET, math.inf])
def test_over_budget_the_address_space_is_let_go_of(machine: Driver, tmp_path: Path, budget: float) -> None:
    before = own_descriptors()
    followed = following(tmp_path, budget)
    flood = [migration(1)] * (round(source.BUDGET * source.PERIOD_S / source.MIGRATION_S) + 1)
    machine.counters[0][Counter.TO_HOST] = 1 << 30
    machine.writes(*flood)
    followed.read()
    file = recorded(tmp_path)
    assert (file.count(UvmEvent.MIGRATION), file.counters[Counter.TO_HOST]) == (len(flood), 1 << 30)
    if budget == math.inf:
        assert (file.state, followed.descriptor) == (State.RUNNING, followed.queue.descriptor)
        followed.finish()
        return
    assert (file.state, followed.descriptor) == (State.OVER_BUDGET, -1)
    assert file.stopped_ns > file.opened_ns
    assert len(own_descriptors() - before) == 2, "the file, and the copy of the program's descriptor"
    followed.read()
    followed.finish()
    assert recorded(tmp_path).state == State.OVER_BUDGET


def test_a_follower_that_stood_still_judges_the_time_that_has_passed(
    machine: Driver, tmp_path: Path, clock: SimpleNamespace
) -> None:
    followed = following(tmp_path, source.BUDGET)
    for passed, state in ((3.0, State.RUNNING), (2.0, State.OVER_BUDGET)):
        clock.now += passed
        machine.writes(*[migration(1)] * round(2.5 * source.BUDGET * source.PERIOD_S / source.MIGRATION_S))
        followed.read()
        assert recorded(tmp_path).state == state
    followed.finish()


@pytest.mark.usefixtures("clock")
def test_faults_are_not_what_costs_time(machine: Driver, tmp_path: Path) -> None:
    followed = following(tmp_path, 0.5 * source.BUDGET)
    fault = layout.event(UvmEvent.CPU_FAULT, 2, time=1, address=1 << 20)
    machine.writes(*[fault] * 10_000, migration(1))
    followed.read()
    assert recorded(tmp_path).state == State.RUNNING
    followed.finish()


def test_a_full_disk_ends_the_events_and_not_the_follower(
    machine: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = following(tmp_path)
    machine.writes(migration(0))
    followed.read()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", full)
    machine.writes(migration(1))
    followed.read()
    machine.writes(migration(2))
    followed.finish()
    assert (recorded(tmp_path).state, recorded(tmp_path).count(UvmEvent.MIGRATION)) == (State.NO_ROOM, 1)


def test_what_is_no_address_space_leaves_nothing_behind(machine: Driver, tmp_path: Path) -> None:
    null = Path("/dev/null").stat()
    machine.refuses.add((null.st_dev, null.st_ino))
    opened = own_descriptors()
    uvm_descriptor = os.open("/dev/null", os.O_RDONLY)
    with pytest.raises(driver.DriverRefused, match="status 0x16"):
        source.FollowedSpace(os.getpid(), uvm_descriptor, tmp_path, math.inf)
    os.close(uvm_descriptor)
    assert own_descriptors() <= opened  # less where what another test has left is collected
    assert not list(tmp_path.glob("*.bin"))


PROGRAM = """
import os, sys
memory = os.open(sys.argv[1], os.O_RDONLY)
again = os.open(sys.argv[2], os.O_RDONLY)
if not os.fork():
    sys.stdin.read()
    os._exit(0)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A lifeline that nobody lets go of."""
    read, write = os.pipe()
    monkeypatch.setattr(follower, "LIFELINE", read)
    yield
    os.close(read)
    os.close(write)


@takes_descriptors
@pytest.mark.usefixtures("quiet")
def test_a_process_is_found_followed_once_and_let_go_of(machine: Driver, tmp_path: Path) -> None:
    device = Path(descriptors.MEMORY_DEVICE)
    folder = tmp_path / "uvm"
    folder.mkdir()
    command = [sys.executable, "-c", PROGRAM, str(device), str(device)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline() == "open\n"
        watch = follower.Follower(program.pid, folder, math.inf)
        while len(watch.sources) < 2:
            watch.step()
        watch.search()
        # Two descriptors were opened; the forked process has copies of both.
        assert len(watch.sources) == len(list(folder.glob("*.bin"))) == 2
        machine.writes(migration(0), queue=0)
        program.send_signal(signal.SIGKILL)
        program.wait()
        while watch.sources:
            watch.step()
        watch.finish()
        files = [uvm.load(path) for path in folder.glob("*.bin")]
        assert sorted((file.state, file.count(UvmEvent.MIGRATION)) for file in files if file) == [(1, 0), (1, 1)]


@takes_descriptors
@pytest.mark.usefixtures("quiet")
def test_why_a_process_is_not_followed_is_said(
    machine: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = Path(descriptors.MEMORY_DEVICE)
    machine.refuses.add((device.stat().st_dev, device.stat().st_ino))
    command = [sys.executable, "-c", PROGRAM, str(device), "/dev/null"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        program.stdout.readline()
        watch = follower.Follower(program.pid, tmp_path, math.inf)
        watch.step()
        machine.refuses.clear()  # the program initialises what it opened
        while not watch.sources:
            watch.step()
        machine.refuses.add((device.stat().st_dev, device.stat().st_ino))
        other = follower.Follower(program.pid, tmp_path, math.inf)
        other.step()
        other.finish()
        watch.finish()
        program.kill()
    assert capsys.readouterr().out == f"{REFUSED}make an event queue: status 0x16 of the driver\n"


@takes_descriptors
def test_the_probe_for_a_gpu_notes_every_answer(machine: Driver) -> None:
    script = "import os, sys; f = os.open(sys.argv[1], 0); print('ready', flush=True); input(); print('{}')"
    machine.late = (migration(1), migration(2))
    steps = uvm_probe.probe([sys.executable, "-c", script, descriptors.MEMORY_DEVICE])
    text = uvm_probe.text_of(steps)
    (queue,) = (step for step in steps if step["step"] == "the queue of layout 2")
    assert queue["events"] == {UvmEvent.MIGRATION: 2}
    assert queue["first of each kind"][UvmEvent.MIGRATION][0] == migration(1).hex()
    assert [step["errno"] for step in steps if step.get("ioctl") == driver.INIT_TRACKER_V2] == [0]
    assert bytes(range(16)).hex() in text


@pytest.mark.slow
def test_the_process_itself_says_when_it_looks_and_ends_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-S", "-m", "pinprof.collect.uvm", str(os.getpid()), str(tmp_path), "inf"]
    environment = collector_environment()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline().startswith("managed memory: ready")
        process.stdin.close()
        assert process.wait() == 0


class Patience(Waiter):
    """Waits without a user."""

    def wait(self, timeout_s: float) -> None:
        time.sleep(timeout_s)
        for recorder in self.recorders:
            recorder.reap()


def test_a_program_without_managed_memory_is_said_to_have_none(tmp_path: Path) -> None:
    with ExitStack() as places:
        tool = beside.ManagedMemoryTool(Setup(RecordRequest((), gpu="uvm"), tmp_path, places, {}))
        tool.attach(cast("Program", SimpleNamespace(pid=os.getpid())))
        waiter = Patience([tool])
        tool.await_ready(waiter)
        tool.recorder.finish()
        while tool.recorder.wait_status is None:
            waiter.wait(0.01)
        result = tool.result()
    assert (result.facts["name"], result.failure) == ("uvm", None)
    assert result.notes == (
        "No process of the program used the unified-memory driver, so there are no migrations in the recording.",
    )
    assert not (tmp_path / store.UVM).exists()


@pytest.mark.parametrize("there", [True, False])
def test_it_joins_wherever_the_driver_allows_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool) -> None:
    collector = load("uvm.beside")
    assert "uvm.beside" in BESIDE
    monkeypatch.setattr(beside, "problem", lambda: ("", "") if there else ("No device.", "Get one."))
    budgets = {}
    for gpu in ("auto", "windows", "cupti", "uvm", "off"):
        request = RecordRequest(("true",), gpu=gpu)
        with ExitStack() as places:
            joined = collector.join(Setup(request, tmp_path, places, {}))
            budgets[gpu] = [tool._budget for tool in joined if isinstance(tool, beside.ManagedMemoryTool)]
        if there or gpu != "uvm":
            collector.check(request)
    limits = {"auto": source.BUDGET, "windows": source.BUDGET, "cupti": math.inf}
    some = {gpu: [limit] if there else [] for gpu, limit in limits.items()}
    assert budgets == {**some, "uvm": [math.inf], "off": []}
    assert not list(tmp_path.iterdir())
    beside_nsys = Setup(RecordRequest(("true",), ("nsys",), gpu="auto"), tmp_path, ExitStack(), {})
    assert not collector.join(beside_nsys)


def test_a_machine_without_the_device_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "DEVICE", tmp_path / "nothing")
    with pytest.raises(CollectError, match="nothing does not exist"):
        load("uvm.beside").check(RecordRequest(("true",), gpu="uvm"))
    with pytest.raises(CollectError, match="Nsight Systems already records"):
        load("uvm.beside").check(RecordRequest(("true",), ("nsys",), gpu="uvm"))
    check = recording._managed_memory(Rehearsal())
    assert (check.name, check.state, check.fix) == ("managed memory", "info", "")
    monkeypatch.setattr(recording.host, "gpus", lambda: [{"name": "H200"}])  # without a GPU there is nothing to fix
    assert "nvidia-modprobe" in recording._managed_memory(Rehearsal()).fix
    (tmp_path / "nothing").touch()
    monkeypatch.setattr(beside, "forbidden", lambda: "kernel.yama.ptrace_scope is 1")
    check = recording._managed_memory(Rehearsal())
    assert (check.state, "ptrace_scope" in check.found, bool(check.fix)) == ("info", True, True)
    monkeypatch.setattr(beside, "forbidden", str)
    monkeypatch.setattr(descriptors, "impossible", str)
    load("uvm.beside").check(RecordRequest(("true",), gpu="uvm"))
    assert recording._managed_memory(Rehearsal()).state == "ok"


def test_what_lies_in_memory_is_read_with_its_address() -> None:
    with mmap.mmap(-1, mmap.PAGESIZE) as memory:
        memory[5] = 7
        assert ctypes.c_uint8.from_address(driver.address(memory) + 5).value == 7
    assert time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) > 0
