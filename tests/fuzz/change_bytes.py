"""Damage to bytes: blind, in words of binary records, in the records of perf, in the fields of protobuf."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import zlib
from random import Random
from typing import Any

from tests.fuzz.hostile import WIDTHS, number, rearrange, text


def blind(random: Random, data: bytes) -> bytes:
    """Bytes changed, removed, repeated or cut, without a thought of what they mean."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        if not changed:
            break
        place, length = random.randrange(len(changed)), random.choice((1, 1, 2, 4, 16, 256))
        kind = random.randrange(6)
        if kind == 0:
            changed[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            changed[place : place + length] = random.randbytes(length)
        elif kind == 2:
            del changed[place : place + length]
        elif kind == 3:
            changed[place:place] = changed[place : place + length] * random.choice((1, 2, 50))
        elif kind == 4:
            changed[place:place] = random.randbytes(length)
        else:
            del changed[place:]
    return bytes(changed)


def words(random: Random, data: bytes) -> bytes:
    """Little-endian words of a binary file become numbers that are hard to bear, or words of another place."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        width = random.choice(WIDTHS)
        if len(changed) < 2 * width:
            break
        at = random.randrange(len(changed) // width) * width
        if random.random() < 0.2:
            other = random.randrange(len(changed) // width) * width
            changed[at : at + width] = changed[other : other + width].ljust(width, b"\0")
        else:
            value = number(random, int.from_bytes(changed[at : at + width], "little"))
            changed[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(changed)


def perf(random: Random, data: bytes) -> bytes:
    """Records of a perf.data file rearranged, or a word in one of them, in its header or in an attribute."""
    if random.random() < 0.4 or len(data) < 104:
        return words(random, data)
    head, records, tail = perf_parts(data)
    if not records:
        return words(random, data)
    if random.random() < 0.35:
        rearrange(random, records, 3000)
    else:
        for _ in range(random.choice((1, 1, 3))):
            place = random.randrange(len(records))
            record = bytearray(records[place])
            if random.random() < 0.25:
                struct.pack_into("<IHH", record, 0, *_record_header(random, record))
                records[place] = bytes(record)
            else:
                records[place] = bytes(record[:8]) + words(random, bytes(record[8:]))
    return perf_whole(head, records, tail)


def _record_header(random: Random, record: bytes | bytearray) -> tuple[int, int, int]:
    """The header of a record with another type, misc or size."""
    kind, misc, size = struct.unpack_from("<IHH", record)
    which = random.randrange(3)
    if which == 0:
        kind = random.choice((*range(25), *range(64, 90), 2**31, 2**32 - 1))
    elif which == 1:
        misc = random.getrandbits(16)
    else:
        size = random.choice((0, 1, 7, 8, 16, size + 8, size - 8, 65535)) % 65536
    return kind, misc, size


def perf_parts(data: bytes) -> tuple[bytes, list[bytes], bytes]:
    """What comes before the records of a perf.data file, the records, and what comes behind; pipes have no end."""
    (head_size,) = struct.unpack_from("<Q", data, 8)
    start, size = struct.unpack_from("<QQ", data, 40) if head_size == 104 else (16, len(data) - 16)
    records, at, end = [], start, min(start + size, len(data)) if size else len(data)
    while at + 8 <= end:
        (length,) = struct.unpack_from("<H", data, at + 6)
        if length < 8 or at + length > end:
            break
        records.append(data[at : at + length])
        at += length
    return data[:start], records, data[at:]


def perf_whole(head: bytes, records: list[bytes], tail: bytes) -> bytes:
    """A perf.data file of its parts, with the offsets of its features moved."""
    body = b"".join(records)
    if len(head) < 104:
        return head + body + tail
    old, data_size = struct.unpack_from("<Q", head, 40)[0], struct.unpack_from("<Q", head, 48)[0]
    features = sum(bits.bit_count() for bits in struct.unpack_from("<4Q", head, 72))
    moved = len(body) - data_size
    table = bytearray(tail)
    for number_ in range(features if data_size else 0):
        if 16 * number_ + 8 <= len(table):
            (offset,) = struct.unpack_from("<Q", table, 16 * number_)
            struct.pack_into("<Q", table, 16 * number_, (offset + moved) % 2**64 if offset >= old else offset)
    changed = bytearray(head)
    struct.pack_into("<Q", changed, 48, len(body) if data_size else 0)
    return bytes(changed) + body + bytes(table)


def protobuf(random: Random, data: bytes) -> bytes:
    """Fields of a pprof profile, plain or compressed, and those of messages inside it."""
    packed = data.startswith(b"\x1f\x8b")
    try:
        plain = gzip.decompress(data) if packed else data
        changed = _message(random, plain, 0)
    except (ValueError, IndexError, EOFError, OSError, zlib.error):
        return blind(random, data)
    return gzip.compress(changed, 1, mtime=0) if packed and random.random() < 0.5 else changed


def _message(random: Random, data: bytes, depth: int) -> bytes:
    fields = _fields(data)
    if not fields:
        return data
    if random.random() < 0.25:
        rearrange(random, fields, 3000)
        return _joined(fields)
    place = random.randrange(len(fields))
    tag, wire, value = fields[place]
    if wire == 0:
        fields[place] = (tag, 0, number(random, value) % 2**64)
    elif wire == 2:
        fields[place] = (tag, 2, _inner(random, value, depth))
    if random.random() < 0.1:
        fields[place] = (random.randrange(16), *fields[place][1:])
    return _joined(fields)


def _inner(random: Random, value: bytes, depth: int) -> bytes:
    if random.random() < 0.2:
        return text(random).encode("utf-8", "surrogatepass")
    if depth < 2 and value and random.random() < 0.8:
        try:
            return _message(random, value, depth + 1)
        except (ValueError, IndexError):
            pass
    return words(random, value)


def _fields(data: bytes) -> list[tuple[int, int, Any]]:
    """(field, wire type, value) of a message; ValueError or IndexError where it is none."""
    fields, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        tag, wire = key >> 3, key & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        else:
            if wire == 2:
                length, at = _varint(data, at)
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise ValueError("no message")
            if at + length > len(data):
                raise ValueError("no message")
            value, at = data[at : at + length], at + length
        fields.append((tag, wire, value))
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _joined(fields: list[tuple[int, int, Any]]) -> bytes:
    out = io.BytesIO()
    for tag, wire, value in fields:
        out.write(_as_varint(tag << 3 | wire))
        if wire == 0:
            out.write(_as_varint(value))
        else:
            out.write((_as_varint(len(value)) if wire == 2 else b"") + value)
    return out.getvalue()


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def compressed(random: Random, data: bytes) -> bytes:
    """The bytes compressed, some of them damaged afterwards."""
    packed = random.choice((lambda: gzip.compress(data, 1, mtime=0), lambda: lzma.compress(data, preset=0)))()
    return blind(random, packed) if random.random() < 0.5 else packed
