"""Every layout that perf.data may have, from files written byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.base.errors import CaptureError, FormatError, PinprofError
from pinprof.data import perf_format as perf
from pinprof.data.model import NO_NODE
from pinprof.read.perf import data as perf_data
from pinprof.read.perf import records as rec
from tests.support import perf_file as pf
from tests.support.perf_file import MAPPED, Reader, frames


def test_columns_of_a_plain_recording(capture_of: Reader) -> None:
    spec = pf.Spec(sample_type=pf.BASIC | perf.SAMPLE_ADDR | perf.SAMPLE_CPU)
    records = pf.mmap2(spec, *MAPPED) + pf.comm(spec, "worker", tid=8) + pf.sample(spec, tid=8, time=123, period=77)
    capture = capture_of(pf.file_mode([spec], records))
    samples = capture.samples
    assert (samples.time_ns[0], samples.pid[0], samples.tid[0], samples.cpu[0]) == (123, 7, 8, 3)
    assert (samples.weight[0], samples.ip[0], samples.address[0]) == (77, pf.USER_IP, 0xADD0)
    assert frames(capture, 0) == ["[app]"]
    assert capture.threads == {(7, 8): "worker"}
    assert capture.events[0].name == "cpu-clock"
    assert capture.clock.source == "monotonic"


def test_fields_before_and_behind_the_callchain_are_skipped(capture_of: Reader) -> None:
    everything = (1 << 25) - 1 & ~perf.SAMPLE_STACK_USER & ~perf.SAMPLE_BRANCH_STACK & ~perf.SAMPLE_READ
    spec = pf.Spec(sample_type=everything, ids=(5,))
    behind = struct.pack("<I12s", 12, b"raw") + struct.pack("<11Q", 0, *range(10))
    records = pf.mmap2(spec, *MAPPED) + pf.sample(spec, event_id=5, behind=behind) * 2
    capture = capture_of(pf.file_mode([spec], records))
    assert [frames(capture, row) for row in range(2)] == [["[app]"]] * 2
    assert capture.losses.corrupt_bytes == 0


@pytest.mark.parametrize(
    ("read_format", "raw"),
    [
        (0, struct.pack("<Q", 1)),
        (perf.FORMAT_ID | perf.FORMAT_LOST, struct.pack("<3Q", 1, 5, 0)),
        (perf.FORMAT_ENABLED | perf.FORMAT_RUNNING, struct.pack("<3Q", 1, 2, 3)),
        (perf.FORMAT_GROUP | perf.FORMAT_ID, struct.pack("<5Q", 2, 11, 5, 22, 6)),
        (31, struct.pack("<9Q", 2, 8, 9, 11, 5, 0, 22, 6, 0)),
    ],
)
def test_read_fields_of_every_format_are_skipped(capture_of: Reader, read_format: int, raw: bytes) -> None:
    spec = pf.Spec(sample_type=pf.BASIC | perf.SAMPLE_READ, read_format=read_format)
    capture = capture_of(pf.file_mode([spec], pf.mmap2(spec, *MAPPED) + pf.sample(spec, read=raw)))
    assert frames(capture, 0) == ["[app]"]


@pytest.mark.parametrize("which", [perf.SAMPLE_IDENTIFIER, perf.SAMPLE_ID])
def test_samples_find_their_event_by_id(capture_of: Reader, which: int) -> None:
    time = pf.Spec(sample_type=pf.BASIC | which, ids=(10, 11))
    faults = pf.Spec(
        sample_type=(pf.BASIC | which | perf.SAMPLE_ADDR) & ~perf.SAMPLE_PERIOD, config=2, period=64, ids=(20,)
    )
    if which == perf.SAMPLE_ID:
        # Without IDENTIFIER perf gives all events the same layout.
        faults.sample_type = time.sample_type
    records = pf.sample(time, event_id=11, time=3) + pf.sample(faults, event_id=20, time=1, period=64)
    records += pf.sample(time, event_id=99, time=2)
    features = pf.Features().names(("cpu-clock/freq=9/", (10, 11)), ("page-faults/period=64/", (20,)))
    capture = capture_of(pf.file_mode([time, faults], records, features))
    assert [(event.name, event.unit) for event in capture.events] == [
        ("cpu-clock/freq=9/", "ns"),
        ("page-faults/period=64/", "faults"),
    ]
    assert capture.samples.event.tolist() == [1, 0]
    assert capture.samples.weight.tolist() == [64, 1000]
    assert capture.losses.unknown_records == 1


def test_weights_are_never_mixed(capture_of: Reader) -> None:
    kind = pf.BASIC & ~perf.SAMPLE_PERIOD | perf.SAMPLE_IDENTIFIER
    specs = [
        pf.Spec(kind, config=0, period=999, flags=pf.FREQ, ids=(1,)),
        pf.Spec(kind, config=1, period=250_000, ids=(2,)),
        pf.Spec(kind, config=6, period=8, ids=(3,)),
        pf.Spec(kind, type=0, config=0, period=100_000, ids=(4,)),
        pf.Spec(kind, config=rec.DUMMY, ids=(5,)),
    ]
    records = b"".join(pf.sample(spec, event_id=spec.ids[0]) for spec in specs[:4])
    capture = capture_of(pf.file_mode(specs, records))
    assert [(event.name, event.unit, event.period, event.freq_hz) for event in capture.events] == [
        ("cpu-clock", "ns", None, 999),
        ("task-clock", "ns", 250_000, None),
        ("major-faults", "faults", 8, None),
        ("cycles", "events", 100_000, None),
    ]
    assert capture.samples.weight.tolist() == [1_001_001, 250_000, 8, 100_000]


def test_hardware_events_weigh_the_periods_of_their_samples(capture_of: Reader) -> None:
    spec = pf.Spec(type=0, config=0, period=4000, flags=pf.SAMPLE_ID_ALL | pf.FREQ)
    records = b"".join(pf.sample(spec, time=time, period=period) for time, period in enumerate([1, 40, 6000]))
    capture = capture_of(pf.file_mode([spec], records))
    assert [(event.name, event.unit, event.freq_hz) for event in capture.events] == [("cycles", "events", 4000)]
    assert capture.samples.weight.tolist() == [1, 40, 6000]


def test_without_periods_a_frequency_says_nothing_of_what_a_sample_weighs(capture_of: Reader) -> None:
    spec = pf.Spec(pf.BASIC & ~perf.SAMPLE_PERIOD, type=0, config=0, period=4000, flags=pf.SAMPLE_ID_ALL | pf.FREQ)
    capture = capture_of(pf.file_mode([spec], pf.sample(spec, period=7)))
    assert (capture.events[0].unit, capture.samples.weight.tolist()) == ("samples", [1])


def test_samples_are_ordered_by_time_and_equal_times_keep_their_order(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = b"".join(pf.sample(spec, time=time, tid=tid) for tid, time in enumerate([30, 10, 20, 10]))
    samples = capture_of(pf.file_mode([spec], records)).samples
    assert samples.time_ns.tolist() == [10, 10, 20, 30]
    assert samples.tid.tolist() == [1, 3, 2, 0]


def test_mapping_in_force_at_the_time_of_a_sample_counts_whatever_the_order_in_the_file(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = pf.sample(spec, time=15) + pf.sample(spec, time=25)
    records += pf.mmap2(spec, 0x400000, 0x10000, "/new", time=20) + pf.mmap2(spec, 0x400000, 0x10000, "/old", time=10)
    capture = capture_of(pf.file_mode([spec], records))
    assert [frames(capture, row) for row in range(2)] == [["[old]"], ["[new]"]]


def test_forked_process_keeps_the_mappings_of_its_parent_until_it_executes(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = pf.mmap2(spec, *MAPPED) + pf.fork(spec, 8, 7, time=10) + pf.sample(spec, pid=8, time=15)
    records += pf.comm(spec, "other", pid=8, time=20, exec_=True) + pf.sample(spec, pid=8, time=25)
    records += pf.fork(spec, 9, 7, time=30, clones=False) + pf.sample(spec, pid=9, time=35)
    capture = capture_of(pf.file_mode([spec], records))
    assert [frames(capture, row) for row in range(3)] == [["[app]"], ["[unknown]"], ["[unknown]"]]


def test_data_mappings_take_no_addresses_from_code(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = pf.mmap2(spec, *MAPPED)
    records += pf.mmap2(spec, *MAPPED[:2], "/data", time=1, protection=3, misc=perf.MISC_USER | perf.MISC_MMAP_DATA)
    capture = capture_of(pf.file_mode([spec], records + pf.sample(spec)))
    assert frames(capture, 0) == ["[app]"]


def test_build_ids_come_from_the_mapping_or_from_the_feature_section(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = pf.mmap2(spec, 0x400000, 0x1000, "/a", build_id=bytes(range(20)))
    records += pf.mmap2(spec, 0x401000, 0x1000, "/b") + pf.mmap(spec, 0x402000, 0x1000, "/c")
    records += pf.sample(spec, (rec.CONTEXT_USER, 0x400000, 0x401000, 0x402000))
    features = pf.Features().build_id("/b", bytes(16), sized=True).build_id("/c", b"\xab" * 20)
    capture = capture_of(pf.file_mode([spec], records, features))
    ids = {dso.path: dso.build_id for dso in capture.stacks.frames.dsos}
    assert ids["/a"] == bytes(range(20)).hex()
    assert ids["/b"] == "00" * 16
    assert ids["/c"] == "ab" * 20


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ((rec.CONTEXT_KERNEL, pf.KERNEL_IP, rec.CONTEXT_USER, pf.USER_IP), ["[app]", "[unknown kernel][k]"]),
        ((pf.KERNEL_IP, pf.USER_IP), ["[app]", "[unknown kernel][k]"]),
        ((rec.CONTEXT_USER, pf.USER_IP, pf.KERNEL_IP), ["[unknown]", "[app]"]),
        ((rec.CONTEXT_KERNEL, pf.USER_IP), ["[unknown kernel][k]"]),
        ((2**64 - 2048, rec.CONTEXT_USER, pf.USER_IP), ["[app]"]),
        ((2**64 - 2176, pf.KERNEL_IP, 2**64 - 2560, pf.USER_IP), ["[guest]", "[guest]"]),
        ((rec.CONTEXT_USER, 0, 1, 2, pf.USER_IP), ["[app]", "[unknown]", "[unknown]", "[unknown]"]),
        ((rec.CONTEXT_KERNEL, rec.CONTEXT_USER), None),
        ((), None),
    ],
)
def test_context_markers_say_what_addresses_are(
    capture_of: Reader, chain: tuple[int, ...], expected: list[str] | None
) -> None:
    spec = pf.Spec()
    plain = pf.sample(spec, time=50)
    records = pf.mmap2(spec, *MAPPED) + pf.sample(spec, chain, time=10) + plain
    capture = capture_of(pf.file_mode([spec], records))
    if expected is None:
        assert capture.samples.stack[0] == NO_NODE
        assert capture.losses.missing_stacks == 1
    else:
        assert frames(capture, 0) == expected
    assert frames(capture, 1) == ["[app]"]


def test_chain_at_the_depth_limit_is_counted_as_truncated(capture_of: Reader) -> None:
    spec = pf.Spec(max_stack=3)
    records = pf.sample(spec, (rec.CONTEXT_USER, *range(1, 4))) + pf.sample(spec, (rec.CONTEXT_USER, 1, 2))
    assert capture_of(pf.file_mode([spec], records)).losses.truncated_chains == 1
    default = pf.Spec()
    records = pf.sample(default, tuple(range(1, 128))) + pf.sample(default, tuple(range(1, 127)))
    assert capture_of(pf.file_mode([default], records)).losses.truncated_chains == 1


def test_chains_of_other_processes_are_not_counted_as_truncated(capture_of: Reader) -> None:
    spec = pf.Spec(max_stack=2)
    chain = (rec.CONTEXT_USER, pf.USER_IP, pf.USER_IP)
    records = pf.mmap2(spec, *MAPPED) + pf.mmap2(spec, *MAPPED, pid=99) + pf.comm(spec, "app", exec_=True, time=1)
    records += pf.sample(spec, chain, pid=99) + pf.sample(spec, chain) + pf.sample(spec)
    features = pf.Features().command("perf", "record", "-a", "-g", "/opt/app")
    losses = capture_of(pf.file_mode([spec], records, features)).losses
    assert (losses.other_processes, losses.truncated_chains) == (1, 1)


def test_lost_and_unknown_records_are_counted(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = pf.record(perf.RECORD_LOST, struct.pack("<QQ", 1, 40) + pf.trailer(spec, time=1))
    records += pf.record(perf.RECORD_LOST_SAMPLES, struct.pack("<Q", 7) + pf.trailer(spec, time=1))
    records += pf.record(perf.RECORD_LOST_SAMPLES, struct.pack("<Q", 500), perf.MISC_LOST_SAMPLES_BPF)
    records += pf.record(250, bytes(16)) + pf.record(17, bytes(32)) + pf.sample(spec)
    losses = capture_of(pf.file_mode([spec], records)).losses
    assert (losses.lost_samples, losses.unknown_records, losses.corrupt_bytes) == (40, 1, 0)


def test_a_loss_is_that_of_an_event_on_a_processor_at_a_time(tmp_path: Path) -> None:
    kind = pf.BASIC | perf.SAMPLE_IDENTIFIER | perf.SAMPLE_CPU
    specs = [pf.Spec(kind, ids=(11,)), pf.Spec(kind, ids=(21, 22))]
    end = pf.trailer(specs[1], time=70, event_id=21)
    records = pf.record(perf.RECORD_LOST, struct.pack("<QQ", 22, 40) + end)
    records += pf.record(perf.RECORD_LOST_SAMPLES, struct.pack("<Q", 7) + end)
    (tmp_path / "made").write_bytes(pf.file_mode(specs, records))
    raw = perf_data.load(tmp_path / "made").raw
    assert raw.losses == (rec.Loss(clock=70, cpu=3, source=1, lost=40),)
    assert raw.lost_by_source == {1: 7}


def test_pipe_mode_reads_attributes_names_and_features_from_records(capture_of: Reader) -> None:
    spec = pf.Spec(sample_type=pf.BASIC | perf.SAMPLE_IDENTIFIER, ids=(10,))
    faults = pf.Spec(sample_type=pf.BASIC | perf.SAMPLE_IDENTIFIER, ids=(20,), config=2)
    features = pf.Features().kernel("6.1.0").command("perf", "record", "-o", "-", "--", "/opt/app", "x")
    update = pf.record(perf.RECORD_EVENT_UPDATE, struct.pack("<QQ", 2, 20) + pf.text("faults!"))
    update += pf.record(66, struct.pack("<I", 5)) + b"trace\0\0\0"  # TRACING_DATA with its payload
    records = update + pf.mmap2(spec, *MAPPED) + pf.sample(faults, event_id=20) + pf.sample(spec, event_id=10)
    capture = capture_of(pf.pipe_mode([spec, faults], records, features))
    assert [event.name for event in capture.events] == ["cpu-clock", "faults!"]
    assert capture.samples.event.tolist() == [1, 0]
    assert capture.manifest.command == ("/opt/app", "x")
    assert capture.manifest.host["kernel"] == "6.1.0"
    assert capture.losses.corrupt_bytes == capture.losses.unknown_records == 0


@pytest.mark.parametrize("size", [64, 72, 96, 104, 112, 136, 512])
def test_attributes_of_every_size_are_read(capture_of: Reader, size: int) -> None:
    spec = pf.Spec(size=size, sample_type=pf.BASIC)
    for raw in (pf.file_mode([spec], pf.sample(spec)), pf.pipe_mode([spec], pf.sample(spec))):
        assert capture_of(raw).samples.weight.tolist() == [1000]


def test_payload_behind_auxtrace_is_not_read_as_records(capture_of: Reader) -> None:
    spec = pf.Spec()
    payload = pf.sample(spec) * 3
    records = pf.record(perf.RECORD_AUXTRACE, struct.pack("<QQQIIII", len(payload), 0, 0, 0, 0, 0, 0)) + payload
    capture = capture_of(pf.file_mode([spec], records * 2 + pf.sample(spec)))
    assert len(capture.samples) == 1
    assert capture.losses.corrupt_bytes == 0


def test_file_of_a_killed_perf_is_read_to_its_end(capture_of: Reader) -> None:
    spec = pf.Spec()
    raw = pf.file_mode([spec], pf.sample(spec) * 3, data_size=0)
    capture = capture_of(raw[:-8])
    assert len(capture.samples) == 2
    assert capture.losses.corrupt_bytes == len(pf.sample(spec)) - 8
    assert any("killed" in note for note in capture.losses.notes)
    assert capture.manifest.outcome["state"] == "interrupted"


def test_recording_without_times_keeps_the_order_of_the_file(capture_of: Reader) -> None:
    spec = pf.Spec(sample_type=pf.BASIC & ~perf.SAMPLE_TIME)
    records = pf.mmap2(spec, 0x400000, 0x1000, "/old") + pf.mmap2(spec, *MAPPED) + pf.sample(spec, tid=2)
    records += pf.mmap2(spec, *MAPPED[:2], "/later") + pf.sample(spec, tid=1)
    capture = capture_of(pf.file_mode([spec], records))
    assert capture.samples.tid.tolist() == [2, 1]
    assert capture.samples.time_ns.tolist() == [0, 0]
    assert [frames(capture, row) for row in range(2)] == [["[app]"], ["[later]"]]


def test_an_address_of_a_32_bit_kernel_is_the_kernels_because_the_sample_says_so(capture_of: Reader) -> None:
    spec = pf.Spec(sample_type=pf.BASIC & ~perf.SAMPLE_CALLCHAIN)
    modes = (perf.MISC_KERNEL, perf.MISC_USER)
    low = [pf.sample(spec, (), time=100 + mode, ip=0xC0173B60, misc=mode) for mode in modes]
    capture = capture_of(pf.file_mode([spec], b"".join(low)))
    assert [frames(capture, row) for row in range(2)] == [["[unknown kernel][k]"], ["[unknown]"]]


def test_recording_without_callchains_says_so(capture_of: Reader) -> None:
    spec = pf.Spec(sample_type=pf.BASIC & ~perf.SAMPLE_CALLCHAIN)
    capture = capture_of(pf.file_mode([spec], pf.sample(spec)))
    assert capture.losses.missing_stacks == 1
    assert any("no call chains" in note for note in capture.losses.notes)


@pytest.mark.parametrize("chained", [True, False])
def test_without_a_call_chain_a_sample_keeps_its_own_address(capture_of: Reader, chained: bool) -> None:
    spec = pf.Spec(sample_type=pf.BASIC if chained else pf.BASIC & ~perf.SAMPLE_CALLCHAIN)
    own = [pf.USER_IP, pf.KERNEL_IP, 0, pf.KERNEL_IP + 8]
    records = pf.mmap2(spec, *MAPPED) + pf.sample(spec, (rec.CONTEXT_USER, pf.USER_IP, pf.USER_IP + 4), time=50)
    records += b"".join(pf.sample(spec, (), time=100 + time, ip=ip) for time, ip in enumerate(own))
    capture = capture_of(pf.file_mode([spec], records))
    assert [frames(capture, row) for row in range(1, 5)] == [
        ["[app]"],
        ["[unknown kernel][k]"],
        [],
        ["[unknown kernel][k]"],
    ]
    assert frames(capture, 0) == (["[app]", "[app]"] if chained else ["[app]"])
    assert capture.losses.missing_stacks == (4 if chained else 5)


def test_addresses_of_guests_mean_nothing_to_the_symbols_of_the_host(capture_of: Reader) -> None:
    spec = pf.Spec(sample_type=pf.BASIC & ~perf.SAMPLE_CALLCHAIN)
    capture = capture_of(pf.file_mode([spec], pf.sample(spec, misc=perf.MISC_GUEST[0])))
    assert frames(capture, 0) == ["[guest]"]


@pytest.mark.parametrize(("flags", "clockid", "source"), [(0, 0, "perf"), (pf.USE_CLOCKID, 4, "monotonic-raw")])
def test_other_clocks_are_named_and_noted(capture_of: Reader, flags: int, clockid: int, source: str) -> None:
    spec = pf.Spec(flags=flags, clockid=clockid)
    capture = capture_of(pf.file_mode([spec], pf.sample(spec)))
    assert capture.clock.source == source
    assert any("can't be aligned" in note for note in capture.losses.notes)


def test_a_recording_in_several_files_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(pf.file_mode([pf.Spec()], b""))
    with pytest.raises(CaptureError, match="Record without --threads"):
        read.read(tmp_path)
    (tmp_path / "data").write_bytes(b"something else")
    with pytest.raises(CaptureError, match=r"has no manifest\.json"):
        read.read(tmp_path)


def test_foreign_byte_order_is_a_clear_error(capture_of: Reader) -> None:
    with pytest.raises(FormatError, match="byte order"):
        capture_of(b"2ELIFREP" + struct.pack(">Q", 104) + bytes(200))


@pytest.mark.parametrize(
    "raw", [b"PERFILE2", b"PERFILE2" + bytes(50), b"PERFFILE" + bytes(200), b"PERFILE2" + bytes(96)]
)
def test_headers_that_hold_nothing_are_clear_errors(capture_of: Reader, raw: bytes) -> None:
    with pytest.raises(PinprofError):
        capture_of(raw)


def test_sample_that_leaves_its_record_is_counted_as_corrupt(capture_of: Reader) -> None:
    spec = pf.Spec()
    good = pf.sample(spec)
    bad = bytearray(good)
    struct.pack_into("<Q", bad, 8 + 32, 1 << 40)  # the callchain's length
    late = pf.sample(spec, time=2**63)
    heavy = pf.sample(spec, period=2**63)
    capture = capture_of(pf.file_mode([spec], good + bytes(bad) + late + heavy + good))
    assert len(capture.samples) == 2
    assert capture.losses.corrupt_bytes == 3 * len(good)


def test_record_without_size_ends_the_reading_and_is_counted(capture_of: Reader) -> None:
    spec = pf.Spec()
    capture = capture_of(pf.file_mode([spec], pf.sample(spec) + bytes(800)))
    assert len(capture.samples) == 1
    assert capture.losses.corrupt_bytes == 800
    assert any("damaged" in note for note in capture.losses.notes)


def test_system_wide_recording_keeps_the_program_its_children_and_the_kernel(capture_of: Reader) -> None:
    spec = pf.Spec()
    app, child, other, kthread = 20, 21, 30, 40
    records = b"".join(pf.mmap2(spec, 0x400000, 0x10000, f"/bin/{pid}", pid=pid) for pid in (app, other))
    records += pf.comm(spec, "app", pid=app, tid=app, time=5, exec_=True)
    records += pf.mmap2(spec, 0x400000, 0x10000, "/opt/app", pid=app, time=6) + pf.fork(spec, child, app, time=7)
    for pid in (0, app, child, other, kthread, -1):
        records += pf.sample(spec, pid=pid, tid=pid)
    alone = pf.Features().command("perf", "record", "-F", "9", "-g", "/opt/app", "-a")
    wide = pf.Features().command("perf", "record", "-ag", "-F99", "-e", "cpu-clock", "--", "/opt/app", "x")
    capture = capture_of(pf.file_mode([spec], records, wide))
    assert capture.samples.pid.tolist() == [0, app, child, kthread]
    assert capture.losses.other_processes == 2
    assert len(capture_of(pf.file_mode([spec], records, alone)).samples) == 6


def test_system_wide_recording_of_no_known_program_keeps_everything_and_says_so(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = pf.mmap2(spec, *MAPPED) + pf.sample(spec) + pf.sample(spec, pid=0, tid=0)
    capture = capture_of(pf.file_mode([spec], records, pf.Features().command("perf", "record", "-a")))
    assert len(capture.samples) == 2
    assert any("every process" in note for note in capture.losses.notes)


@pytest.mark.parametrize("options", [("-a",), ("-C", "0,1"), ("--all-cpus",)])
@pytest.mark.parametrize(
    ("command", "own", "kept"),
    [("sleep", 0, 41), ("sleep", 20, 61), ("/usr/bin/sleep", 20, 61), ("client", 2, 43), ("client", 20, 20)],
)
def test_a_command_that_only_says_how_long_is_not_what_a_whole_machine_is_recorded_for(
    capture_of: Reader, options: tuple[str, ...], command: str, own: int, kept: int
) -> None:
    spec, program, other = pf.Spec(), 20, 30
    name = command.rpartition("/")[2]
    records = pf.mmap2(spec, *MAPPED, pid=other) + pf.comm(spec, name, pid=program, tid=program, time=5, exec_=True)
    records += pf.mmap2(spec, 0x400000, 0x10000, command, pid=program, time=6)
    records += pf.sample(spec, pid=program, tid=program) * own + pf.sample(spec, pid=other, tid=other) * 41
    features = pf.Features().command("perf", "record", *options, "-g", "--", command, "1")
    capture = capture_of(pf.file_mode([spec], records, features))
    assert len(capture.samples) == kept
    assert capture.losses.other_processes == (41 if kept == own else 0)
    notes = [note for note in capture.losses.notes if "whole machine" in note]
    assert bool(notes) == (kept != own)


def test_ranges_name_the_program_of_a_system_wide_recording(tmp_path: Path) -> None:
    spec = pf.Spec()
    records = b"".join(pf.mmap2(spec, *MAPPED, pid=pid) + pf.sample(spec, pid=pid, tid=pid) for pid in (7, 30))
    (tmp_path / "perf.data").write_bytes(pf.file_mode([spec], records, pf.Features().command("perf", "record", "-a")))
    (tmp_path / "ranges").write_text('{"name": "alloc", "start_ns": 1, "end_ns": 900, "pid": 7}\n')
    capture = read.read(tmp_path / "perf.data", read.ReadOptions(ranges=tmp_path / "ranges"))
    assert capture.samples.pid.tolist() == [7]
    assert capture.losses.other_processes == 1


def test_recording_without_samples_is_an_empty_capture(capture_of: Reader) -> None:
    for raw in (pf.file_mode([pf.Spec()], b""), pf.pipe_mode([pf.Spec()], b"")):
        capture = capture_of(raw)
        assert (len(capture.samples), len(capture.stacks), len(capture.events)) == (0, 0, 1)


def test_host_name_is_not_kept(capture_of: Reader) -> None:
    spec = pf.Spec()
    features = pf.Features({3: pf.string("secret-host")})
    capture = capture_of(pf.file_mode([spec], pf.sample(spec), features))
    assert "secret-host" not in repr(capture.manifest)


@pytest.mark.slow
def test_many_samples_over_many_chunks_keep_every_row(capture_of: Reader) -> None:
    spec = pf.Spec()
    one = pf.mmap2(spec, *MAPPED)
    count = 150_000
    raw = bytearray(pf.sample(spec, (rec.CONTEXT_USER, 0, pf.USER_IP)) * count)
    words = np.frombuffer(raw, "<u8").reshape(count, -1)
    words[:, 3] = np.arange(count)
    words[:, 7] = 0x400000 + np.arange(count) % 5000
    capture = capture_of(pf.file_mode([spec], one + bytes(raw)))
    assert capture.samples.time_ns.tolist() == list(range(count))
    assert {tuple(frames(capture, row)) for row in (0, 1, 77_777, count - 1)} == {("[app]", "[app]")}
    assert len(capture.stacks) == 2
