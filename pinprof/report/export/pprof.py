"""pprof profiles: one sample type per event, values aligned, zero where an event has no weight.

Each sample carries labels, so that `pprof -tagfocus=cause=fault.anon` or `-tagroot=cause` cut the profile by cause.
Functions keep their full names; of DSO paths the last component travels, with the build id.

Source: github.com/google/pprof, proto/profile.proto. `read/formats/pprof.py` reads these files back.
"""

from __future__ import annotations

from typing import IO

import numpy as np

from pinprof import __version__
from pinprof.analyze import CATEGORIES, WORK_ATTRIBUTES, Run
from pinprof.analyze.extent import is_timed
from pinprof.data.model import NO_NODE, Capture
from pinprof.report import rows
from pinprof.report.joined_frames import as_shown

_UNITS = {"ns": "nanoseconds", "bytes": "bytes", "faults": "count", "events": "count", "samples": "count"}
_VARINT, _LENGTH = 0, 2


def write(analysis: Run, stream: IO[bytes], *, all_frames: bool = False) -> None:
    """Write a profile, not compressed."""
    capture = as_shown(analysis.capture, all_frames=all_frames)
    strings = _Strings()
    threads = list(rows.thread_names(capture).items())
    numbers = {thread: number for number, (thread, _) in enumerate(threads)}
    samples = capture.samples
    thread = [numbers[key] for key in zip(samples.pid.tolist(), samples.tid.tolist(), strict=True)]
    groups = rows.merge_samples(
        capture, samples.stack, analysis.attribution.leaf, analysis.attribution.work, np.array(thread, np.int64)
    )
    for event in capture.events:
        value_type = _number(1, strings[event.name]) + _number(2, strings[_UNITS[event.unit]])
        stream.write(_message(1, value_type))
    chains = _Chains(capture)
    columns = (column.tolist() for column in groups.keys)
    for (node, leaf, work, number), weights in zip(zip(*columns, strict=True), groups.weight.tolist(), strict=True):
        (pid, tid), name = threads[number]
        labels = [
            _number(1, strings["cause"]) + _number(2, strings[CATEGORIES[leaf].name]),
            _number(1, strings["work"]) + _number(2, strings[WORK_ATTRIBUTES[work]]),
        ]
        if (pid, tid) != (0, 0):
            labels.append(_number(1, strings["thread"]) + _number(2, strings[name]))
            labels += [_number(1, strings[key]) + _number(3, value) for key, value in (("pid", pid), ("tid", tid))]
        body = chains[node] + _message(2, b"".join(map(_varint, weights)))
        stream.write(_message(2, body + b"".join(_message(3, label) for label in labels)))
    _write_code(capture, strings, stream)
    _write_facts(capture, strings, stream)
    for text in strings.encoded:
        stream.write(_message(6, text))


def _write_code(capture: Capture, strings: _Strings, stream: IO[bytes]) -> None:
    """Mappings, locations and functions: location and function n + 1 are frame n."""
    frames = capture.stacks.frames
    names = rows.dso_names(frames)
    mappings: dict[tuple[str, str], int] = {}
    for number, (symbol, name, dso) in enumerate(zip(frames.symbol, names, frames.dso.tolist(), strict=True), start=1):
        mapping = mappings.setdefault((name, frames.dsos[dso].build_id), len(mappings) + 1)
        line = _message(4, _number(1, number))
        stream.write(_message(4, _number(1, number) + _number(2, mapping) + line))
        text = strings[symbol]
        stream.write(_message(5, _number(1, number) + _number(2, text) + _number(3, text)))
    for (name, build_id), number in mappings.items():
        # has_functions (7): the names are all there, pprof need not look for the binary.
        body = _number(1, number) + _number(5, strings[name]) + _number(6, strings[build_id]) + _number(7, 1)
        stream.write(_message(3, body))


def _write_facts(capture: Capture, strings: _Strings, stream: IO[bytes]) -> None:
    time = capture.samples.time_ns
    if len(time) and is_timed(capture):
        if capture.utc_offset_ns is not None:
            stream.write(_number(9, int(time.min()) + capture.utc_offset_ns))
        stream.write(_number(10, int(time.max() - time.min())))
    periodic = next((event for event in capture.events if event.period), None)
    if periodic is not None:
        value_type = _number(1, strings[periodic.name]) + _number(2, strings[_UNITS[periodic.unit]])
        stream.write(_message(11, value_type) + _number(12, periodic.period or 0))
    stream.write(_number(13, strings[f"written by pinprof {__version__}"]))
    if capture.events:
        stream.write(_number(14, strings[capture.events[0].name]))


class _Strings(dict[str, int]):
    r"""Text → its number in the profile's table, which begins with the empty string.

    proto3 strings are UTF-8: what a lone surrogate stands for is spelled out as `\udc80`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoded: dict[bytes, int] = {b"": 0}
        """The table: the bytes in the order of their numbers."""

    def __missing__(self, text: str) -> int:
        encoded = text.encode("utf-8", "backslashreplace")
        self[text] = number = self.encoded.setdefault(encoded, len(self.encoded))
        return number


class _Chains(dict[int, bytes]):
    """Per innermost node the packed location ids of its stack, leaf first; empty without callchain."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._stacks = capture.stacks

    def __missing__(self, node: int) -> bytes:
        locations = reversed(rows.chain(self._stacks, node)) if node != NO_NODE else ()
        self[node] = message = _message(1, b"".join(_varint(frame + 1) for frame in locations))
        return message


def _varint(number: int) -> bytes:
    """An integer on the wire; negative ones as 64-bit two's complement."""
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(body)) + body
