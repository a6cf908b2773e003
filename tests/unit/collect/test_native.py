from __future__ import annotations

import errno
import mmap
import os
import platform
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof import collect
from pinprof.base.errors import CollectError, ToolMissing, UsageError
from pinprof.collect import RecordRequest, limits, native, own_processes, permission, timers
from pinprof.collect import perf as perf_tool
from pinprof.collect import python as python_lines
from pinprof.collect.native import attached, events, existing, opened, perf_event, perf_file, sampler
from pinprof.collect.native.perf_event import EventAttr
from pinprof.collect.native.ring import Ring
from pinprof.collect.proc import threads
from pinprof.data import perf_format as perf
from pinprof.machine.whereabouts import Whereabouts
from pinprof.read.perf import data as perf_data
from pinprof.read.perf import records as rec
from pinprof.read.symbols.elf import read_elf

STANDARD = events.standard(frequency=499, fault_period=8, off_cpu=True, kernel=True)


def ring_over(data_bytes: int, tail: int) -> tuple[Ring, mmap.mmap]:
    """A ring in ordinary shared memory, and the kernel's view of it."""
    file = os.memfd_create("ring")
    os.ftruncate(file, mmap.PAGESIZE + data_bytes)
    kernel = mmap.mmap(file, mmap.PAGESIZE + data_bytes)
    struct.pack_into("<QQQ", kernel, 1024, tail, tail, mmap.PAGESIZE)
    ring = Ring(file, data_bytes)
    os.close(file)
    return ring, kernel


def produce(kernel: mmap.mmap, data: bytes, data_bytes: int) -> None:
    """Write what the kernel would: bytes behind the head, around the end if need be, then the new head."""
    (head,) = struct.unpack_from("<Q", kernel, 1024)
    for place, byte in enumerate(data, head):
        kernel[mmap.PAGESIZE + place % data_bytes] = byte
    struct.pack_into("<Q", kernel, 1024, head + len(data))


def test_the_attribute_has_the_kernels_layout() -> None:
    attr = EventAttr(8, 1, 2, 3, 1 << 34, 4, 5, 6, 7, 8, 9, -1, 11).pack()
    assert len(attr) == perf_event.ATTR_SIZE == struct.unpack_from("<I", attr, 4)[0]
    parsed = rec.parse_attr(attr)
    assert (parsed.type, parsed.config, parsed.sample_type, parsed.period_or_freq) == (8, 1, 2, 3)
    assert (parsed.read_format, parsed.flags, parsed.clockid, parsed.sample_max_stack) == (4, 1 << 34, -1, 11)
    # offsetof(wakeup_events, config1, config2, sample_regs_user, sample_stack_user)
    assert struct.unpack_from("<I4xQQ8xQI", attr, 48) == (5, 6, 7, 8, 9)


@pytest.mark.skipif(platform.machine().startswith("ppc"), reason="ioctl numbers are others there")
def test_ioctls_have_the_numbers_of_the_header() -> None:
    assert (perf_event.IOC_ENABLE, perf_event.IOC_DISABLE) == (0x2400, 0x2401)
    assert (perf_event.IOC_SET_OUTPUT, perf_event.IOC_ID) == (0x2405, 0x80082407)


def test_a_fixed_period_comes_without_the_period_field() -> None:
    for spec in STANDARD:
        if not spec.attr.flags & perf_event.FREQ:
            assert not spec.attr.sample_type & perf.SAMPLE_PERIOD, spec.name
        assert spec.attr.sample_type & perf.SAMPLE_IDENTIFIER, spec.name


def test_events_survive_their_orders(tmp_path: Path) -> None:
    spec = events.EventSpec("malloc", EventAttr(9, 1, 0), optional=True, path="/lib/libcuda.so.1")
    orders = sampler.Orders("out", (*STANDARD, spec), 7, 4096, ("ctl", "ack"), ("pinprof",), "pinprof 1")
    orders.save(tmp_path / "orders")
    assert sampler.Orders.load(tmp_path / "orders") == orders


def test_the_path_of_an_event_reaches_the_kernel_by_address() -> None:
    import ctypes

    attr, keep = events.EventSpec("u", EventAttr(9, 1, 0), path="/lib/libc.so.6").kernel_attr()
    assert ctypes.string_at(attr.config1) == b"/lib/libc.so.6"
    assert keep is not None


def test_what_older_kernels_do_not_know_is_left_out_newest_first() -> None:
    whole, without_lost, oldest = events.for_older_kernels(STANDARD)
    assert whole == STANDARD
    assert {spec.attr.read_format for spec in without_lost} == {perf.FORMAT_ID}
    assert any(spec.attr.flags & perf_event.BUILD_ID for spec in without_lost)
    assert not any(spec.attr.flags & perf_event.BUILD_ID for spec in oldest)


def test_a_ring_is_read_around_its_end() -> None:
    size = mmap.PAGESIZE
    ring, kernel = ring_over(size, 5 * size - 16)
    assert ring.pending() == []
    produce(kernel, bytes(range(40)), size)
    pieces = ring.pending()
    assert [len(piece) for piece in pieces] == [16, 24]
    assert b"".join(pieces) == bytes(range(40))
    assert struct.unpack_from("<Q", kernel, 1032) == (5 * size - 16,), "the kernel may not write over it yet"
    ring.release()
    assert struct.unpack_from("<Q", kernel, 1032) == (5 * size + 24,)
    assert ring.pending() == []


def test_a_full_ring_is_read_whole() -> None:
    size = mmap.PAGESIZE
    ring, kernel = ring_over(size, size)
    produce(kernel, bytes(size), size)
    assert [len(piece) for piece in ring.pending()] == [size]


def test_rings_shrink_together_to_what_may_be_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    from pinprof.collect.native import ring

    locked: list[int] = []

    class Limited:
        def __init__(self, _file: int, size: int) -> None:
            if sum(locked) + size > 300 << 10:
                raise OSError(errno.EPERM, "no")
            locked.append(size)
            self.data_bytes = size

        def close(self) -> None:
            locked.remove(self.data_bytes)

    monkeypatch.setattr(ring, "Ring", Limited)
    assert [made.data_bytes for made in ring.map_rings([3, 4, 5], 256 << 10, 32 << 10)] == [64 << 10] * 3
    locked.clear()
    with pytest.raises(OSError, match="no"):
        ring.map_rings([3, 4, 5], 256 << 10, 128 << 10)
    assert not locked


@pytest.mark.skipif(permission.sampling_errno(kernel=False) != 0, reason="this process may not sample")
def test_a_ring_that_was_given_back_can_be_mapped_smaller() -> None:
    file = perf_event.open_event(STANDARD[-1].attr, 0, -1)
    try:
        Ring(file, 16 * mmap.PAGESIZE).close()
        ring = Ring(file, 8 * mmap.PAGESIZE)
        assert perf_event.event_id(file) > 0
        ring.pending()
        ring.close()
    finally:
        os.close(file)


def test_the_file_reads_back_without_the_hosts_name(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    described = [(spec, [10 * place + 1, 10 * place + 2]) for place, spec in enumerate(STANDARD, 1)]
    file = perf_file.PerfFile(path, described)
    file.write([existing.Listing(perf_file.trailer(STANDARD[0])).process(os.getpid())])
    file.write([perf_file.lost_samples(STANDARD[1], 21, 5), perf_file.FINISHED_ROUND])
    command = ("pinprof", "record", "--with=native", "--system-wide")
    file.finish(
        perf_file.features(
            described, version="pinprof 1", command=command, kernel_build_id=b"\x01" * 20, times_ns=(1, 2)
        )
    )
    file.close()
    recording = perf_data.load(path)
    assert [(source.name, source.ids) for source in recording.header.sources] == [
        (spec.name, tuple(ids)) for spec, ids in described
    ]
    features = recording.header.features
    assert features.command == command
    assert features.facts["kernel"] == os.uname().release
    assert features.build_ids == {"[kernel.kallsyms]": "01" * 20}
    # The machine may stand still between two clocks: one is read before and after the other.
    earliest, utc_ns, latest = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    assert utc_ns - latest - 10**9 < (features.utc_offset_ns or 0) < utc_ns - earliest + 10**9
    assert recording.raw.lost_samples == 5
    assert recording.raw.corrupt_bytes == recording.raw.unknown_records == 0
    paths = {record.path for _, record in recording.raw.tasks if isinstance(record, rec.MapRecord)}
    assert any("libc" in name for name in paths)
    assert path.stat().st_mode & 0o077 == 0
    if len(os.uname().nodename) > 3:
        assert os.uname().nodename.encode() not in path.read_bytes()


def test_a_file_that_was_never_finished_reads_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    file = perf_file.PerfFile(path, [(spec, [place]) for place, spec in enumerate(STANDARD, 1)])
    file.write([existing.Listing(perf_file.trailer(STANDARD[0])).process(os.getpid())])
    file.close()
    recording = perf_data.load(path)
    assert recording.raw.tasks
    assert recording.raw.corrupt_bytes == 0


def test_a_full_disk_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = perf_file.PerfFile(tmp_path / "perf.data", [(STANDARD[0], [1])])
    record = struct.pack("<IHH", 3, 0, 24) + bytes(16)
    room = iter([40, -1])

    def writev(descriptor: int, pieces: Sequence[bytes | memoryview]) -> int:
        left = next(room)
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, b"".join(pieces)[:left])

    monkeypatch.setattr(os, "writev", writev)
    with pytest.raises(OSError, match="No space"):
        file.write([record, memoryview(record + record)])
    assert file.data_bytes == 24
    file.close()


def test_a_write_that_the_kernel_cuts_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = perf_file.PerfFile(tmp_path / "perf.data", [(STANDARD[0], [1])])
    start = (tmp_path / "perf.data").stat().st_size
    monkeypatch.setattr(os, "writev", lambda descriptor, pieces: os.write(descriptor, b"".join(pieces)[:7]))
    file.write([b"abcdefgh", memoryview(b"ijkl"), b"mnopqrstuvwxyz"])
    file.close()
    assert (tmp_path / "perf.data").read_bytes()[start:] == b"abcdefghijklmnopqrstuvwxyz"


def test_mappings_carry_the_build_ids_of_their_files(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    file = perf_file.PerfFile(path, [(STANDARD[0], [1])])
    file.write([existing.Listing(perf_file.trailer(STANDARD[0])).process(os.getpid())])
    file.close()
    maps = [record for _, record in perf_data.load(path).raw.tasks if isinstance(record, rec.MapRecord)]
    libc = next(record for record in maps if "/libc." in record.path or "/libc-" in record.path)
    symbols = read_elf(Path(libc.path), Path("/"))
    assert symbols is not None
    assert symbols.build_id == libc.build_id != ""


def test_a_process_that_is_gone_is_passed_over() -> None:
    assert existing.Listing(b"").process(2**22 + 1) == b""
    assert threads(2**22 + 1) == []


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8\n", [0, 1, 2, 3, 8]), ("0\n", [0]), ("", []), ("0-255", list(range(256)))]
)
def test_offline_cpus_leave_gaps_in_the_list(text: str, cpus: list[int]) -> None:
    assert opened.parse_cpus(text) == cpus


def test_a_cpu_that_goes_offline_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_event(_attr: EventAttr, _pid: int, cpu: int) -> int:
        if cpu == 1:
            raise OSError(errno.ENODEV, "No such device")
        return 100 + cpu

    monkeypatch.setattr(perf_event, "open_event", open_event)
    on_cpu: dict[int, list[int]] = {0: [], 1: [], 2: []}
    assert list(opened.instances(STANDARD[0], [7], on_cpu)) == [100, 102]
    assert on_cpu == {0: [100], 1: [], 2: [102]}


@pytest.mark.parametrize(
    ("text", "words"),
    [("strace", "no collector 'strace'"), ("", "is not a collector"), ("native,perf", "two"), ("auto,perf", "two")],
)
def test_collectors_that_cannot_be_meant_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        collect.parse_names(text)


@pytest.mark.parametrize(
    ("kernel", "perf_works", "call_graph", "chosen", "beside"),
    [
        (True, True, "fp", "native", ("nsys",)),
        (True, False, "fp", "native", ()),
        (False, True, "fp", "perf", ("nsys",)),
        (False, False, "fp", "native", ("nsys",)),
        (False, False, "fp", "timers", ()),
        (None, True, "fp", "perf", ()),
        (None, False, "fp", "native", ("nsys",)),
        (None, False, "fp", "timers", ()),
        (True, True, "dwarf", "perf", ()),
    ],
)
def test_auto_takes_what_sees_most(
    kernel: bool | None,
    perf_works: bool,
    call_graph: str,
    chosen: str,
    beside: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def samples_kernel(_request: RecordRequest) -> bool:
        if kernel is None:
            raise CollectError("forbidden", "", "perf-permission")
        return kernel

    def check(_request: RecordRequest) -> None:
        if not perf_works:
            raise ToolMissing("absent", "", "perf-missing")

    monkeypatch.setattr(native, "samples_kernel", samples_kernel)
    monkeypatch.setattr(perf_tool, "check", check)
    monkeypatch.setattr(timers, "serves", lambda request: "nsys" not in request.collectors)
    request = RecordRequest(("true",), ("auto", *beside), call_graph=call_graph)
    assert collect.resolve(request).collectors == (chosen, *beside)


@pytest.mark.parametrize(
    ("program", "python", "denied", "chosen"),
    [
        (sys.executable, "auto", True, "timers"),
        (sys.executable, "lines", True, "timers"),
        (sys.executable, "auto", False, "native"),
        (sys.executable, "off", True, "native"),
        ("true", "auto", True, "native"),
    ],
)
def test_where_pythons_memory_may_not_be_read_from_outside_timers_see_its_lines(
    program: str, python: str, denied: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "samples_kernel", lambda _: True)
    monkeypatch.setattr(timers, "serves", lambda _: True)
    monkeypatch.setattr(python_lines, "forbidden", lambda: "it fails" if denied else "")
    assert collect.resolve(RecordRequest((program,), ("auto",), python=python)).collectors == (chosen,)


def test_copied_stacks_are_left_to_perf() -> None:
    with pytest.raises(UsageError, match="--call-graph dwarf") as caught:
        native.check(RecordRequest(("true",), call_graph="dwarf"))
    assert "--record perf" in caught.value.remedy


def test_a_frequency_above_the_kernels_limit_is_lowered_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rate").write_text("800\n")
    monkeypatch.setattr(limits, "MAX_SAMPLE_RATE", tmp_path / "rate")
    lowered, note = limits.at_the_kernels_rate(RecordRequest(("true",), frequency=999))
    assert lowered.frequency == 800
    assert "perf_event_max_sample_rate=999" in note
    assert limits.at_the_kernels_rate(lowered) == (lowered, "")


def test_a_user_who_may_sample_nothing_hears_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "paranoid", lambda: 3)
    monkeypatch.setattr(permission, "sampling_errno", lambda **_: errno.EACCES)
    monkeypatch.setattr(permission, "filtered", lambda: False)
    monkeypatch.setattr(permission, "here", Whereabouts)
    with pytest.raises(CollectError, match=r"sample programs: .*_paranoid is 3.*kernel.perf_event_paranoid=1"):
        native.samples_kernel(RecordRequest(("true",)))


def test_rings_of_many_cpus_stay_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert attached.ring_bytes() == 4 << 20
    monkeypatch.setattr(os, "cpu_count", lambda: 384)
    assert attached.ring_bytes() * 384 <= 512 << 20
    monkeypatch.setenv(attached.RING_VARIABLE, "9000")
    assert attached.ring_bytes() == 8192


def test_the_environment_of_the_collector_cannot_change_its_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somebody/elses")
    monkeypatch.setenv("PYTHONSTARTUP", "/somebody/elses.py")
    environment = own_processes.collector_environment()
    assert {name for name in environment if name.startswith("PYTHON")} == {"PYTHONPATH"}
    assert (Path(environment["PYTHONPATH"]) / "pinprof/collect/native/sampler.py").is_file()


def test_what_an_event_lost_is_known_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = events.event("switches", perf.TYPE_SOFTWARE, perf_event.SW_CONTEXT_SWITCHES, 1, kernel=False)
    program = subprocess.Popen(["sleep", "600"])  # whose threads no other test starts or ends
    try:
        held = opened.open_all([events.mappings(), spec], program.pid, opened.online_cpus(), 1 << 16, copies=False)
    except opened.EventRefused as error:
        pytest.skip(str(error))
    finally:
        program.kill()
        program.wait()
    try:
        assert len(held.files[1]) == len(held.cpus)
        monkeypatch.setattr(perf_event, "lost_records", lambda file, _: file)
        lost = list(held.files[1])
        held.let_go([1])
        assert held.files[1] == []
        assert held.lost_records(1) == lost
    finally:
        held.close()


def test_what_calls_cost_is_looked_at_before_records_are_written() -> None:
    """Writing them takes as long as some hundred more calls."""
    happened: list[object] = []
    recording: Any = object.__new__(sampler.Sampler)
    stopped: list[int] = []
    recording._probes = SimpleNamespace(look=happened.append)
    recording._wakeups = recording._switching = None
    recording._ended, recording._interval_ms = False, 500
    recording._opened = SimpleNamespace(rings=[SimpleNamespace(waiting_bytes=size) for size in (3, 4)])
    recording._poll = SimpleNamespace(register=lambda *_: None, poll=lambda _: [])
    recording._drain = lambda: (happened.append("written"), stopped.append(2))
    recording.run(0, stopped)
    assert happened == [7, "written"]


@dataclass
class Changes:
    """A recording's events on two CPUs, and what was on together after each change."""

    recording: Any
    on: set[int]
    seen: list[set[str]]


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Changes:
    standard = events.standard(frequency=999, fault_period=64, off_cpu=True, kernel=True)
    specs = [*standard, *events.versions(standard, pausable=True)]
    names = [f"{spec.name} {'deep' * spec.deep}{'bare' * spec.bare}".strip() for spec in specs]
    recording: Any = object.__new__(sampler.Sampler)
    recording._opened = SimpleNamespace(specs=specs, files=[[2 * place, 2 * place + 1] for place in range(len(specs))])
    recording._depth, recording._switching = SimpleNamespace(deep=True), SimpleNamespace(paused=False)
    recording._on, recording._running = True, set()
    found = Changes(recording, set(), [])

    def switched(file: int, on: bool) -> None:
        (found.on.add if on else found.on.remove)(file)
        found.seen.append({names[file // 2] for file in found.on})

    monkeypatch.setattr(perf_event, "enable", lambda file: switched(file, True))
    monkeypatch.setattr(perf_event, "disable", lambda file: switched(file, False))
    recording._change_events()
    found.seen.clear()
    return found


CLOCK, DEEP = "cpu-clock/freq=999/", "cpu-clock/freq=999/ deep"
WAITS, BARE = "context-switches/period=1/", "context-switches/period=1/ bare"


def test_no_moment_is_sampled_by_both_events_of_time(changes: Changes) -> None:
    changes.recording._depth.deep = False
    changes.recording._change_events()
    assert not any({CLOCK, DEEP} <= on for on in changes.seen)
    assert CLOCK in changes.seen[-1]


def test_in_a_pause_faults_and_switches_go_on_and_no_switch_is_missed(changes: Changes) -> None:
    recording = changes.recording
    for paused in (True, False):
        recording._switching.paused = paused
        recording._change_events()
        assert all({WAITS, BARE} & on for on in changes.seen)
        assert changes.seen[-1] == {"page-faults/period=64/", *((BARE,) if paused else (DEEP, WAITS))}
        changes.seen.clear()


def test_a_recording_that_is_interrupted_in_a_pause_goes_on_with_sampling(changes: Changes) -> None:
    recording, noted = changes.recording, list[bool]()

    def begin(*_: int) -> None:
        recording._switching.paused = False

    recording._wakeups, recording._switched_so_far = None, lambda: (0, 0, 0)
    recording._note_pause = lambda _: noted.append(recording._switching.paused)
    recording._switching.begin = begin
    recording._switching.paused = True
    recording._change_events()
    recording._switch(on=False)
    assert changes.on == set()
    recording._switch(on=True)
    assert changes.seen[-1] == {"page-faults/period=64/", DEEP, WAITS}
    assert noted == [False]
