"""pprof profiles in: real ones of the Go runtime, and whatever else the bytes may be."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.base.errors import FormatError, PinprofError
from pinprof.data.model import KERNEL, NO_NODE, Capture
from pinprof.read import read
from pinprof.read.formats import pprof, protobuf
from pinprof.report.export.pprof import write
from tests.support.examples import examples
from tests.support.profiles import Sample, capture_of, samples, weights

DATA = Path(__file__).parents[3] / "data" / "profiles"
ANY_CAPTURE = examples(80)


def exported(capture: Capture) -> bytes:
    stream = io.BytesIO()
    write(analyze(capture), stream)
    return stream.getvalue()


def spelled(text: str) -> str:
    """A name as UTF-8 can hold it."""
    return text.encode("utf-8", "backslashreplace").decode()


def test_a_cpu_profile_of_go_has_two_events_with_aligned_weights() -> None:
    found = read(DATA / "go-cpu.pb.gz")
    assert [(event.name, event.unit, event.period) for event in found.events] == [
        ("samples", "samples", None),
        ("cpu", "ns", 10_000_000),
    ]
    totals = [int(found.samples.weight[found.samples.event == event].sum()) for event in (0, 1)]
    assert totals[1] == totals[0] * 10_000_000 > 0
    assert "main.fib" in found.stacks.frames.symbol
    assert found.losses.unknown_records == 0


def test_a_heap_profile_of_go_keeps_bytes_and_objects_apart() -> None:
    found = read(DATA / "go-heap.pb.gz")
    assert [(event.name, event.unit) for event in found.events] == [
        ("alloc_objects", "samples"), ("alloc_space", "bytes"), ("inuse_objects", "samples"), ("inuse_space", "bytes"),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_location_of_many_functions_named_many_times_takes_bounded_room(tmp_path: Path) -> None:
    def message(number: int, body: bytes) -> bytes:
        size, length = len(body), b""
        while size > 0x7F:
            size, length = size >> 7, length + bytes([size & 0x7F | 0x80])
        return bytes([number << 3 | 2]) + length + bytes([size]) + body

    line = message(4, b"\x08\x01")
    profile = message(1, b"\x08\x01\x10\x01") + message(6, b"") + message(6, b"hits")
    profile += message(4, b"\x08\x01" + line * 20_000) + message(5, b"\x08\x01\x10\x01")
    profile += message(2, message(1, b"\x01" * 20_000) + message(2, b"\x07"))
    (tmp_path / "a.pb").write_bytes(profile)
    found = read(tmp_path / "a.pb")
    assert (found.samples.weight.tolist(), found.losses.truncated_chains) == ([7], 1)


def test_samples_have_no_times() -> None:
    found = read(DATA / "go-cpu.pb.gz")
    assert found.clock.source == "none"
    assert not found.samples.time_ns.any()


@pytest.mark.slow
@ANY_CAPTURE
@given(samples)
def test_what_the_export_writes_reads_back_the_same(tmp_path: Path, found: list[Sample]) -> None:
    capture = capture_of(found)
    path = tmp_path / "profile.pb"
    path.write_bytes(exported(capture))
    again = pprof.read(path)
    wanted: dict[object, int] = {}
    for (event, unit, functions), weight in weights(capture).items():
        key = (event, unit, tuple((spelled(symbol), dso, mode) for symbol, dso, mode in functions))
        wanted[key] = wanted.get(key, 0) + weight
    assert weights(again) == wanted
    assert [(event.name, event.unit) for event in again.events] == [(e.name, e.unit) for e in capture.events]
    assert dict(again.threads).items() <= dict(capture.threads).items()
    assert again.losses.unknown_records == 0
    assert pprof.sniff(path.read_bytes())


def test_kernel_functions_are_known_by_their_addresses(tmp_path: Path) -> None:
    def number(field: int, value: int) -> bytes:
        encoded = bytearray()
        value = field << 3 if field < 0 else value
        while value > 0x7F:
            encoded.append(value & 0x7F | 0x80)
            value >>= 7
        encoded.append(value)
        return bytes([field << 3]) + bytes(encoded)

    def message(field: int, body: bytes) -> bytes:
        return bytes([field << 3 | 2, len(body)]) + body

    path = tmp_path / "kernel.pb"
    path.write_bytes(
        message(1, number(1, 1) + number(2, 2))
        + message(2, message(1, bytes([1])) + message(2, bytes([5])))
        + message(4, number(1, 1) + number(3, 0xFFFFFFFF81000000) + message(4, number(1, 1)))
        + message(5, number(1, 1) + number(2, 3))
        + b"".join(message(6, text) for text in (b"", b"cpu", b"nanoseconds", b"clear_page_erms"))
    )
    found = pprof.read(path)
    assert found.stacks.frames.symbol == ("clear_page_erms",)
    assert found.stacks.frames.mode.tolist() == [KERNEL]
    assert found.samples.ip.tolist() == [0xFFFFFFFF81000000]


@pytest.mark.parametrize("data", [b"", b"\x0a", b"just text", b"\x0a\x04\x08\x01\x10\x02", b"\xff" * 64])
def test_bytes_that_are_no_profile_are_refused_in_one_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        pprof.read(path)


@ANY_CAPTURE
@given(st.data())
def test_any_damage_gives_a_capture_or_a_clear_error(tmp_path: Path, data: st.DataObject) -> None:
    whole = gzip.decompress((DATA / "go-heap.pb.gz").read_bytes())
    damaged = bytearray(whole[: data.draw(st.integers(1, len(whole)))])
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.pb"
    path.write_bytes(damaged)
    pprof.sniff(bytes(damaged))
    try:
        found = pprof.read(path)
    except PinprofError:
        return
    assert found.samples.stack.max(initial=NO_NODE) < len(found.stacks)
    assert (found.samples.weight > 0).all()


@given(st.integers(0, 2**64 - 1))
def test_integers_survive_the_wire(value: int) -> None:
    encoded = bytearray()
    rest = value
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    assert protobuf.varint(bytes(encoded), 0) == (value, len(encoded))
    assert protobuf.signed(value) == (value if value < 2**63 else value - 2**64)


@given(st.binary(max_size=60))
def test_any_message_is_decoded_or_names_the_bad_byte(data: bytes) -> None:
    offset = 0
    try:
        numbers = [number for number, _ in protobuf.fields(data)]
    except protobuf.WireError as error:
        numbers, offset = [1], error.offset
    assert all(number > 0 for number in numbers)
    assert 0 <= offset <= max(0, len(data) - 1)


@pytest.mark.parametrize("name", ["blas_thread_server", "zygote", "java", "bash", "rustc", "9p", "B", "Rust"])
def test_folded_stacks_are_no_profile_whatever_their_first_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "stacks"
    path.write_text("".join(f"{name};{'x' * number} {number}\n" for number in range(1, 200)))
    assert not pprof.sniff(path.read_bytes())
    assert read(path).events[0].unit == "samples"


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _profile(*types: tuple[str, str], count: int = 1, weight: int = 10_000_000) -> bytes:
    """`count` stacks of a function of user code each, with the same weight of every type."""
    texts = ["", "work", *(text for pair in types for text in pair)]
    kinds = [_field(1, texts.index(name)) + _field(2, texts.index(unit)) for name, unit in types]
    parts = [_field(1, kind) for kind in kinds]
    for at in range(1, count + 1):
        parts.append(_field(5, _field(1, at) + _field(2, 1)))
        parts.append(_field(4, _field(1, at) + _field(4, _field(1, at))))
        parts.append(_field(2, _field(1, at) + _field(2, weight) * len(types)))
    return b"".join([*parts, *(_field(6, text.encode()) for text in texts)])


@pytest.mark.parametrize(
    ("types", "clocks", "time"),
    [
        ([("samples", "count"), ("cpu", "nanoseconds")], [False, True], [True, True]),
        ([("samples", "count"), ("wall", "nanoseconds")], [False, False], [False, False]),
        ([("contentions", "count"), ("delay", "nanoseconds")], [False, False], [False, False]),
        ([("alloc_objects", "count"), ("alloc_space", "bytes")], [False, False], [False, False]),
        ([("off-cpu", "nanoseconds")], [False], [False]),
        ([("goroutine", "count")], [False], [False]),
        ([("cpu-clock/freq=999/", "nanoseconds")], [True], [True]),
        ([("process_cpu", "nanoseconds")], [True], [True]),
        ([("time", "nanoseconds")], [False], [False]),
        ([("cycles", "count")], [False], [True]),
    ],
)
def test_what_is_no_time_on_processors_is_not_taken_for_it(
    tmp_path: Path, types: list[tuple[str, str]], clocks: list[bool], time: list[bool]
) -> None:
    (tmp_path / "profile").write_bytes(_profile(*types))
    made = read(tmp_path / "profile")
    assert [event.name for event in made.events] == [name for name, _ in types]
    assert [event.clocks for event in made.events] == clocks
    assert [event.shows_time for event in made.events] == time
    assert analyze(made).answer.startswith("This recording cannot show host-memory costs, because ")


def test_samples_are_counted_by_what_their_weights_are_multiples_of(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(_profile(("cpu", "nanoseconds"), weight=52_600_000))
    (tmp_path / "some").write_bytes(_profile(("cpu", "nanoseconds"), count=3))
    assert [analyze(read(tmp_path / name)).events[0].drawn for name in ("one", "some")] == [1, 3]
