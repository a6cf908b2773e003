"""The protobuf wire format, decoded: fields of a message as (number, value), no schema and no generated code.

pprof's profile.proto needs two wire types and five message kinds; a hundred lines here spare every user the protobuf
runtime and its version constraints, and decide exactly what damaged bytes do.
Source: protobuf documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

Value = int | bytes


class WireError(ValueError):
    """Bytes that are no protobuf message; `offset` is where the field begins."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"no protobuf field at byte {offset}")
        self.offset = offset


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Every field in order: an unsigned 64-bit integer, or the bytes of a length-delimited or fixed-size field."""
    at, end = 0, len(message)
    while at < end:
        begin = at
        try:
            tag, at = varint(message, at)
            number, kind = tag >> 3, tag & 7
            if kind == VARINT:
                value, at = varint(message, at)
                yield number, value
                continue
            if kind == LENGTH:
                size, at = varint(message, at)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                raise WireError(begin)
        except IndexError:
            raise WireError(begin) from None
        if not number or at + size > end:
            raise WireError(begin)
        yield number, message[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer and the position after it; IndexError at the end of the data, WireError beyond 64 bits."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift, begin = byte & 0x7F, 7, at
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + 1
        shift += 7
        if shift > 63:
            raise WireError(begin)


def integers(value: Value) -> list[int]:
    """A repeated integer field's part: one number, or many packed ones; WireError when the last is cut off."""
    if isinstance(value, int):
        return [value]
    if value.isascii():
        return list(value)
    numbers, at = [], 0
    try:
        while at < len(value):
            number, at = varint(value, at)
            numbers.append(number)
    except IndexError:
        raise WireError(at) from None
    return numbers


def signed(number: int) -> int:
    """An int64 from the unsigned number that stands for it."""
    return number - (1 << 64) if number >> 63 else number
