"""Copied stacks do not travel: above a program's first function lie its arguments and its whole environment.

`--call-graph dwarf` copies the top of each thread's stack into every sample, and registers, which may hold anything.
Once perf has made call chains of them (perf-script.txt.gz), the copies are overwritten with zeros in place; everything
else of the file stays as it is.

Source: perf_event_open(2), the order of a sample's fields; `kernel/events/core.c` (perf_output_sample).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pinprof.base import files
from pinprof.base.errors import FormatError
from pinprof.data import perf_format as perf
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import Header

_REGS_USER = 1 << 12
_WITHIN = perf.FIXED_FIELDS | perf.SAMPLE_CALLCHAIN | _REGS_USER
"""What may stand before the copy where perf records nothing but call chains."""
_BEFORE = (perf.SAMPLE_STACK_USER << 1) - 1 | perf.SAMPLE_IDENTIFIER
_U64 = struct.Struct("<Q")


def blank(path: Path, header: Header) -> None:
    """Overwrite the copies in a recording; FormatError when its samples are laid out in a way that is not perf's."""
    attrs = [source.attr for source in header.sources]
    if not any(attr.sample_type & perf.SAMPLE_STACK_USER for attr in attrs):
        return
    # Samples of several events may differ in layout, and begin with the event's id then.
    layouts = {number: source.attr for source in header.sources for number in source.ids}
    kinds = {(attr.sample_type, attr.sample_regs_user) for attr in attrs}
    told_apart = len(kinds) == 1 or all(attr.sample_type & perf.SAMPLE_IDENTIFIER for attr in attrs)
    if not told_apart or any(attr.sample_type & _BEFORE & ~(_WITHIN | perf.SAMPLE_STACK_USER) for attr in attrs):
        raise _odd(path, header.data_offset, "samples of another layout")
    with files.change(path) as file:
        end = file.seek(0, 2)
        if header.data_size is not None:
            end = min(end, header.data_offset + header.data_size)
        for place, size in _samples(path, file, header.data_offset, end):
            file.seek(place)
            record = file.read(size)
            attr = attrs[0] if len(kinds) == 1 else layouts.get(int.from_bytes(record[8:16], "little"))
            copied = _copies_in(record, attr) if attr else None
            if copied is None:
                raise _odd(path, place, "a sample whose fields do not fit into it")
            for begin, length in copied:
                file.seek(place + begin)
                file.write(bytes(length))


def _samples(path: Path, file: BinaryIO, place: int, end: int) -> Iterator[tuple[int, int]]:
    """(place, bytes) of each sample's record."""
    while place + 8 <= end:
        file.seek(place)
        kind, _, size = perf.RECORD_HEADER.unpack(file.read(8))
        if kind in (perf.RECORD_COMPRESSED, perf.RECORD_COMPRESSED2):
            raise _odd(path, place, "compressed records")
        if size < 8:
            raise _odd(path, place, f"a record of {size} bytes")
        if kind == perf.RECORD_SAMPLE and place + size <= end:
            yield place, size
        place += size


def _copies_in(record: bytes, attr: rec.Attr) -> list[tuple[int, int]] | None:
    """Where in a sample's record copied bytes begin, and how many there are; None when they do not fit."""
    place = 8 + 8 * (attr.sample_type & perf.FIXED_FIELDS).bit_count()
    copies = []
    try:
        if attr.sample_type & perf.SAMPLE_CALLCHAIN:
            place += 8 + 8 * int(_U64.unpack_from(record, place)[0])
        if attr.sample_type & _REGS_USER:
            length = 8 * attr.sample_regs_user.bit_count() * bool(_U64.unpack_from(record, place)[0])
            copies.append((place + 8, length))
            place += 8 + length
        if attr.sample_type & perf.SAMPLE_STACK_USER:
            copies.append((place + 8, int(_U64.unpack_from(record, place)[0])))
    except (struct.error, OverflowError):
        return None
    return copies if all(begin + length <= len(record) for begin, length in copies) else None


def _odd(path: Path, offset: int, found: str) -> FormatError:
    return FormatError(
        str(path),
        expected="samples with copied stacks as `perf record --call-graph dwarf` writes them",
        found=f"{found}; the copies of the program's stack, with its environment, are still in the file",
        offset=offset,
        remedy="Do not share this capture.",
        slug="stack-copies",
    )
