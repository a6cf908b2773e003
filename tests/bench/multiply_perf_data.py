"""Make a perf.data of any size from a small one: its samples again and again, in one short child process after another.

    python tests/bench/multiply_perf_data.py IN.perf.data OUT.perf.data [--samples 7000000] [--each 500]

Every child is forked, executes the recorded program at a random address of its own, maps what that mapped, has `--each`
consecutive samples of the recording, taken at the recorded distances, and ends. FINISHED_ROUND follows every hundredth
child, as perf writes it. Both pinprof and perf read the result as a recording of `perf record`.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pinprof.data import perf_format as perf
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import Header, read_header

FIRST_CHILD = 1_000_000
PAGE_BITS = 12
ROUND = perf.RECORD_HEADER.pack(68, 0, 8)


class Template:
    """The records of a recording, apart by kind."""

    def __init__(self, header: Header, data: bytes) -> None:
        self.before: list[bytes] = []
        """What comes before the program's own records: the kernel's mappings."""
        self.tasks: list[bytes] = []
        """The program's executable mappings and the name that it executes under."""
        self.pid = 0
        starts, position = [], 0
        samples = bytearray()
        while position < len(data):
            kind, _misc, size = perf.RECORD_HEADER.unpack_from(data, position)
            record = data[position : position + size]
            if kind == perf.RECORD_SAMPLE:
                starts.append(len(samples) >> 3)
                samples += record
            elif kind == perf.RECORD_MMAP and not self.pid:
                self.before.append(record)
            elif kind in (perf.RECORD_MMAP2, perf.RECORD_COMM):
                self.pid = struct.unpack_from("<i", record, 8)[0]
                self.tasks.append(record)
            position += size
        self.layout = rec.sample_layout(header.sources[0].attr)
        # perf writes the buffers of processors one after another.
        self.tasks.sort(key=self._clock)
        self.words = np.frombuffer(bytes(samples), np.uint64)
        self.starts = np.array([*starts, len(self.words)], np.int64)
        assert self.layout.ip is not None
        assert self.layout.tid is not None
        assert self.layout.time is not None
        inside = np.arange(len(self.words)) - np.repeat(self.starts[:-1], np.diff(self.starts))
        address = (inside == self.layout.ip) | (inside > self.layout.tail)
        self.in_program = (address & (self.words > 1 << 32) & (self.words < rec.KERNEL_START)).astype(np.uint64)
        time = self.words[self.starts[:-1] + self.layout.time].astype(np.int64)
        self.step_ns = int(np.median(np.diff(time)))

    def _clock(self, record: bytes) -> int:
        return int(struct.unpack_from("<Q", record, len(record) - 8 * (self.layout.trailer_time or 0))[0])

    def child(self, out: BinaryIO, pid: int, clock: int, moved: int, first: int, count: int) -> int:
        """Write one process whose samples are `count` from `first` on; the time at which it ends."""
        trailer = self.layout.trailer_time
        assert trailer is not None
        identity = struct.pack("<iiii", pid, self.pid, pid, self.pid)
        out.write(self._task(perf.RECORD_FORK, 0, identity + struct.pack("<Q", clock), clock))
        for record in self.tasks:
            copy = bytearray(record)
            struct.pack_into("<ii", copy, 8, pid, pid)
            struct.pack_into("<Q", copy, len(copy) - 8 * trailer, clock)
            if trailer < (self.layout.trailer_tid or 0):
                struct.pack_into("<ii", copy, len(copy) - 8 * (self.layout.trailer_tid or 0), pid, pid)
            if struct.unpack_from("<I", copy)[0] == perf.RECORD_MMAP2:
                (start,) = struct.unpack_from("<Q", copy, 16)
                struct.pack_into("<Q", copy, 16, start + moved)
            out.write(copy)
        begin, end = self.starts[first], self.starts[first + count]
        words: NDArray[np.uint64] = self.words[begin:end] + self.in_program[begin:end] * np.uint64(moved)
        at = self.starts[first : first + count] - begin
        words[at + self.layout.tid] = pid | pid << 32
        words[at + self.layout.time] = clock + self.step_ns * np.arange(1, count + 1)
        out.write(words.tobytes())
        clock += self.step_ns * (count + 1)
        out.write(self._task(perf.RECORD_EXIT, 0, identity + struct.pack("<Q", clock), clock))
        return clock

    def _task(self, kind: int, misc: int, body: bytes, clock: int) -> bytes:
        """A record with the trailer of the others."""
        other = self.tasks[-1]
        behind = max(self.layout.trailer_time or 0, self.layout.trailer_tid or 0)
        trailer = bytearray(other[len(other) - 8 * behind :])
        struct.pack_into("<Q", trailer, 8 * (behind - (self.layout.trailer_time or 0)), clock)
        trailer[: 8 * (behind - (self.layout.trailer_time or 0))] = body[:4] + body[8:12]
        return perf.RECORD_HEADER.pack(kind, misc, 8 + len(body) + len(trailer)) + body + bytes(trailer)


def multiply(source: Path, out: Path, samples: int, each: int) -> None:
    """Write a recording of about `samples` samples in processes of `each`."""
    with source.open("rb") as file:
        header = read_header(file, str(source))
        assert header.data_size is not None
        file.seek(0)
        head = bytearray(file.read(header.data_offset))
        template = Template(header, file.read(header.data_size))
        rest = file.read()
    random = np.random.default_rng(7)
    recorded = len(template.starts) - 1 - each
    with out.open("wb") as target:
        target.write(head)
        target.writelines(template.before)
        clock = 10**12
        for child in range(samples // each):
            moved = int(random.integers(1 << 24)) << PAGE_BITS
            pid = FIRST_CHILD + child
            clock = template.child(target, pid, clock, moved, int(random.integers(recorded)), each)
            if child % 100 == 99:
                target.write(ROUND)
        size = target.tell() - header.data_offset
        features = bytearray(rest)
        for entry in range(sum(word.bit_count() for word in struct.unpack_from("<4Q", head, 72))):
            (place,) = struct.unpack_from("<Q", features, 16 * entry)
            struct.pack_into("<Q", features, 16 * entry, place + size - header.data_size)
        target.write(features)
        struct.pack_into("<Q", head, 48, size)
        target.seek(0)
        target.write(head)


def main() -> None:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--samples", type=int, default=7_000_000)
    parser.add_argument("--each", type=int, default=500)
    options = parser.parse_args()
    multiply(options.source, options.out, options.samples, options.each)


if __name__ == "__main__":
    main()
