"""A stream is one declaration: what is declared here is written, read, cut and scrubbed like those of pinprof."""

from __future__ import annotations

import importlib.util
import json
import re
import struct
from functools import partial
from pathlib import Path

import pytest

from pinprof import collect, streams
from pinprof.base.errors import CaptureError
from pinprof.data import perf_format as perf
from pinprof.data.model import Capture
from pinprof.data.uvm_events import HEADER_BYTES, State, UvmEvent
from pinprof.read import read, uvm
from pinprof.read.perf import data as perf_data
from pinprof.streams import STREAMS, scrubs, share, store
from pinprof.streams.stream import Stream, found
from pinprof.streams.window import Growing, Window
from tests.support import uvm_layout
from tests.unit.streams.test_records import described
from tests.unit.streams.test_share import small

KERNEL = 0xFFFFFFFF_A1200123
FORMAT = Path(__file__).parents[3] / "docs" / "capture-format.md"


def with_text(capture: Capture, path: Path, _reading: object) -> Capture:
    return capture.with_notes(f"text {path.read_text().split()[::2]}")


def with_lines(capture: Capture, path: Path, _reading: object) -> Capture:
    return capture.with_notes(f"lines {[json.loads(line)['n'] for line in path.read_text().splitlines()]}")


def with_folder(capture: Capture, path: Path, _reading: object) -> Capture:
    said = {file.name: list(file.read_bytes()[HEADER_BYTES::16]) for file in sorted(path.iterdir())}
    return capture.with_notes(f"folder {said}")


def with_records(capture: Capture, path: Path, _reading: object) -> Capture:
    return capture.with_notes(f"records {[task.pid for _, task in perf_data.load(path).raw.tasks]}")


def behind_head(source: Path, target: Path, window: Window) -> None:
    first, last = window.span(source)
    content = source.read_bytes()
    target.write_bytes(content[:HEADER_BYTES] + content[max(first, HEADER_BYTES) : last])


APPENDED, WORDS = "pinprof.streams.window:appended", "pinprof.streams.scrubs:UVM_EVENTS"
TEXT, RECORDS = "pinprof.streams.scrubs:TEXT", "pinprof.streams.scrubs:PERF_RECORDS"
HERE = __name__
TOYS = (
    Stream("toy.txt", "a text", HERE, read=f"{HERE}:with_text", cut=APPENDED, scrub=TEXT),
    Stream("toy.jsonl", "lines", HERE, read=f"{HERE}:with_lines", cut=APPENDED, scrub=TEXT),
    Stream("toys", "files", HERE, read=f"{HERE}:with_folder", cut=f"{HERE}:behind_head", scrub=WORDS, folder=True),
    Stream(
        "toy.data", "perf's records", HERE,
        read=f"{HERE}:with_records", cut="pinprof.streams.window:records", scrub=RECORDS,
    ),
)  # fmt: skip
"""One of each kind."""


def fork(child: int) -> bytes:
    """A record about a process, with an address of the kernel."""
    body = struct.pack("<IIIIQ", child, 1, child, 1, 5) + bytes(24) + struct.pack("<Q", KERNEL)
    return struct.pack("<IHH", perf.RECORD_FORK, 0, 8 + len(body)) + body


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def write(directory: Path, number: int) -> None:
    """What a recorder adds to each file."""
    append(directory / "toy.txt", f"{number} {KERNEL:x}\n".encode())
    append(directory / "toy.jsonl", (json.dumps({"n": number, "at": f"{KERNEL:x}"}) + "\n").encode())
    append(directory / "toys" / "7-1.bin", struct.pack("<QQ", number, KERNEL))
    append(directory / "toy.data", fork(number))


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Growing:
    monkeypatch.setattr(streams, "STREAMS", (*STREAMS, *TOYS))
    directory = tmp_path / "recording"
    (directory / "toys").mkdir(parents=True)
    (directory / "toys" / "7-1.bin").write_bytes(bytes(HEADER_BYTES))
    described(directory / "toy.data", whole=False)
    return Growing(directory)


def test_declared_streams_of_every_kind_are_written_read_cut_and_scrubbed(recording: Growing, tmp_path: Path) -> None:
    marks = []
    for number in range(4):
        marks.append(recording.mark())
        write(recording.directory, number)
    part = small(tmp_path)
    Window(recording, marks[1], marks[3]).cut(part)
    expected = (
        "text ['1', '2']",
        "lines [1, 2]",
        "folder {'7-1.bin': [1, 2]}",
        "records [0, 1, 2]",  # a process that was there before is there still
    )
    assert read(part).losses.notes == expected
    copy = share.share(part, tmp_path / "given")
    assert read(copy).losses.notes == expected
    before, after = (b"".join(file.read_bytes() for toy in TOYS for file in toy.files(place)) for place in (part, copy))
    assert struct.pack("<Q", KERNEL) in before
    assert struct.pack("<Q", KERNEL) not in after
    assert f"{KERNEL:x}".encode() in before
    assert f"{KERNEL:x}".encode() not in after


def test_a_record_that_is_written_at_the_moment_of_a_mark_is_in_one_window(tmp_path: Path) -> None:
    path = tmp_path / "recording" / store.PERF_DATA
    path.parent.mkdir()
    head, pieces = described(path, whole=False), (fork(30) + fork(31)[:9], fork(31)[9:] + fork(32)[:9], fork(32)[9:])
    recording = Growing(path.parent)
    recording.records(path)
    marks = [recording.mark()]
    for piece in pieces:
        append(path, piece)
        marks.append(recording.mark())
    for number, expected in enumerate(([30], [30, 31], [30, 31, 32])):
        part = tmp_path / f"part-{number}"
        part.mkdir()
        Window(recording, marks[number], marks[number + 1]).cut(part)
        assert (part / store.PERF_DATA).read_bytes()[len(head) :] == b"".join(map(fork, expected))


def test_what_is_written_while_a_mark_is_made_is_in_both_windows(recording: Growing, tmp_path: Path) -> None:
    marks = []
    for number in range(3):
        write(recording.directory, 2 * number)
        marks.append(recording.mark(end=partial(write, recording.directory, 2 * number + 1)))
    for begin, lines in ((0, [1, 2, 3]), (1, [3, 4, 5])):
        part = small(tmp_path / str(begin))
        Window(recording, marks[begin], marks[begin + 1]).cut(part)
        assert f"lines {lines}" in read(part).losses.notes


def test_a_file_that_no_stream_declares_is_not_shared(tmp_path: Path) -> None:
    capture = small(tmp_path)
    (capture / "toy.txt").write_text("anything")
    with pytest.raises(CaptureError, match=r"does not know what toy\.txt says") as error:
        share.share(capture, tmp_path / "given")
    assert "Remove what pinprof did not write" in error.value.remedy
    assert not (tmp_path / "given.pinprof").exists()


def test_a_stream_without_a_scrub_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = small(tmp_path)
    (capture / "toys").mkdir()
    (capture / "toys" / "7-1.bin").write_bytes(b"anything")
    monkeypatch.setattr(streams, "STREAMS", (*STREAMS, Stream("toys", "", HERE, folder=True)))
    with pytest.raises(CaptureError, match=r"toys/7-1\.bin"):
        share.share(capture, tmp_path / "given")


@pytest.mark.parametrize("name", ["gpu/perf.data", "gpu/deeper/7-1.bin", "perf.data/7-1.bin", "perf.data.old"])
def test_a_declared_name_elsewhere_is_not_that_stream(name: str) -> None:
    assert streams.owner(name) is None


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_every_declaration_names_what_there_is(stream: Stream) -> None:
    assert importlib.util.find_spec(stream.writer)
    for place in (stream.read, stream.cut):
        assert not place or callable(found(place))
    assert isinstance(found(stream.scrub), scrubs.Scrub)
    listed = re.findall(r"^\| `([^`/]+)", FORMAT.read_text("utf-8"), re.MULTILINE)
    assert stream.name in listed or found(stream.scrub).left_out


def test_what_collectors_leave_is_declared() -> None:
    names = {name for collector in collect.COLLECTORS for name in collect.load(collector).leaves}
    assert names
    assert all(streams.owner(name) for name in names)


def test_events_of_managed_memory_are_cut_at_whole_entries(tmp_path: Path) -> None:
    recording = Growing(tmp_path / "recording")
    path = recording.directory / store.UVM / "7-1.bin"
    path.parent.mkdir(parents=True)
    entries = [uvm_layout.event(UvmEvent.CPU_FAULT, 2, address=n << 12, time=n, pc=0) for n in range(1, 5)]
    whole = uvm_layout.file(*entries, state=State.RUNNING)
    path.write_bytes(whole[: HEADER_BYTES + len(entries[0])])
    marks = [recording.mark()]
    append(path, entries[1] + entries[2][:9])
    marks.append(recording.mark())
    append(path, entries[2][9:] + entries[3])
    marks.append(recording.mark())
    for begin, end, addresses in ((0, 1, [2]), (1, 2, [3, 4]), (0, 2, [2, 3, 4])):
        target = tmp_path / f"part-{begin}-{end}"
        target.mkdir()
        Window(recording, marks[begin], marks[end]).cut(target)
        made = uvm.load(target / store.UVM / path.name)
        assert made is not None
        assert made.damaged == 0
        assert made.state == State.ENDED
        assert (made.of_kind(UvmEvent.CPU_FAULT)["address"] >> 12).tolist() == addresses
