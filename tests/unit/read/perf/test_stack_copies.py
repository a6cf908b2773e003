"""Copied stacks in a recording are overwritten, whatever stands before them; what is laid out otherwise is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pinprof.base.errors import FormatError
from pinprof.data import perf_format as perf
from pinprof.read.perf import records as rec
from pinprof.read.perf import stack_copies
from pinprof.read.perf.header import EventSource, Features, Header

SECRET = b"PASSWORD=hunter2" * 4
REGISTERS, HELD = 0b1011, (b"hunter2a", b"hunter2b", b"hunter2c")
COMMON = (
    perf.SAMPLE_IDENTIFIER
    | perf.SAMPLE_IP
    | perf.SAMPLE_TID
    | perf.SAMPLE_TIME
    | perf.SAMPLE_CALLCHAIN
    | 1 << 12
    | perf.SAMPLE_STACK_USER
)


def attr(sample_type: int) -> rec.Attr:
    return rec.Attr(1, 0, 1, sample_type, 0, 0, 0, 0, 0, REGISTERS)


def sample(number: int, plain: int, stack: bytes, *, registers: bool = True) -> bytes:
    """A sample's record with `plain` fields of 8 bytes, the id first, then chain, registers and stack."""
    body = struct.pack(f"<{plain}Q", number, *range(plain - 1)) + struct.pack("<3Q", 2, 7, 8)
    body += struct.pack("<Q", 2) + b"".join(HELD) if registers else struct.pack("<Q", 0)
    body += struct.pack("<Q", len(stack)) + stack + (struct.pack("<Q", len(stack)) if stack else b"")
    return struct.pack("<IHH", 9, 2, 8 + len(body)) + body


def header(*sources: EventSource, size: int | None = None) -> Header:
    return Header(list(sources), Features(), 16, size, [])


SOURCES = (EventSource(attr(COMMON), (5,)), EventSource(attr(COMMON | perf.SAMPLE_PERIOD), (6, 7)))
OTHER = struct.pack("<IHH", 3, 0, 16) + b"a.out\0\0\0"


def test_only_the_copies_are_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    records = [sample(5, 4, SECRET), OTHER, sample(7, 5, SECRET), sample(6, 5, b"", registers=False)]
    path.write_bytes(bytes(16) + b"".join(records) + SECRET)
    stack_copies.blank(path, header(*SOURCES, size=sum(map(len, records))))
    blanked = b"".join(record.replace(SECRET, bytes(len(SECRET))) for record in records)
    blanked = blanked.replace(b"".join(HELD), bytes(24))
    assert path.read_bytes() == bytes(16) + blanked + SECRET, "what follows the records is left alone"


def test_a_record_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(bytes(16) + sample(5, 4, SECRET) + sample(5, 4, SECRET)[:40])
    stack_copies.blank(path, header(*SOURCES))
    assert SECRET not in path.read_bytes()


@pytest.mark.parametrize(
    ("records", "found"),
    [
        (sample(99, 4, SECRET), "do not fit"),
        (struct.pack("<IHH5Q", 9, 2, 48, 5, 0, 0, 0, 1 << 60), "do not fit"),
        (struct.pack("<IHH", 81, 0, 16) + bytes(8), "compressed"),
        (struct.pack("<IHH", 9, 0, 0), "record of 0 bytes"),
    ],
)
def test_what_is_laid_out_otherwise_is_refused(records: bytes, found: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(bytes(16) + records)
    with pytest.raises(FormatError, match=found):
        stack_copies.blank(path, header(*SOURCES))


def test_recordings_without_copies_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(before := bytes(16) + sample(5, 4, SECRET))
    stack_copies.blank(path, header(EventSource(attr(COMMON & ~perf.SAMPLE_STACK_USER), (5,))))
    assert path.read_bytes() == before
    with pytest.raises(FormatError, match="another layout"):
        stack_copies.blank(path, header(EventSource(attr(COMMON | perf.SAMPLE_RAW), (5,))))
