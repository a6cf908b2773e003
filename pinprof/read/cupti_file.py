"""What the GPU did for one process, a file of the agent; times are CLOCK_MONOTONIC.

The layout is that of inside/cupti.c. Nothing in a file raises an error: what is no
whole record is left out and counted. The writer may have been killed at any instruction, the disk may have been full,
and the file may be of a hostile program.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import GpuWindowTable

MAGIC = b"PINPCUPT"
VERSION = 1
LARGEST_FILE = 5 << 30
"""Bytes; the writer stops at 4 GiB."""


class CuptiKind(IntEnum):
    """What a record is; the numbers are those of cupti.c."""

    COPY = 1
    SET = 2
    LAUNCH = 3
    WAIT = 4
    MIGRATION = 5
    GPU_FAULT = 6
    CPU_FAULT = 7
    ALLOCATION = 8
    TOOL = 9
    NAME = 10
    OTHER_COUNTER = 11
    WINDOW = 12


class CuptiState(IntEnum):
    """How a file's recording ended."""

    RUNNING = 0
    """The process was killed, or left by _exit."""
    ENDED = 1
    STEPPED_BACK = 2
    """Another tool began to use CUPTI."""
    NO_ROOM = 3
    LIMIT = 4


HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("pid", "<u4"),
        ("opened_ns", "<u8"),
        ("written", "<u8"),
        ("dropped", "<u8"),
        ("api", "<u4"),
        ("state", "<u4"),
        ("unified", "<u4"),
        ("unknown", "<u4"),
        ("cost_ns", "<u8"),
        ("stopped_ns", "<u8"),
        ("saved_ns", "<u8"),
        ("window_ns", "<u8"),
        ("reserved", "<u8", 5),
    ]
)
RECORD = np.dtype(
    [
        ("kind", "u1"),
        ("detail", "u1"),
        ("source", "u1"),
        ("target", "u1"),
        ("device", "<i4"),
        ("stream", "<u4"),
        ("correlation", "<u4"),
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("bytes", "<u8"),
        ("address", "<u8"),
        ("name", "<u4"),
        ("flags", "<u4"),
        ("reserved", "<u8"),
    ]
)

_CERTAIN = 1 << 32
"""A window's chance is in parts of this; the first one's is not drawn."""
LONGEST_NAME = 4096
_LATEST_NS = 2**62
MOST_BYTES = 2**60
"""Of one record."""


@dataclass(frozen=True)
class GpuFile:
    """What one process's GPU work was; records in the order in which they were written."""

    pid: int
    api: int
    """CUPTI's API version; 0 where no CUPTI could be used."""
    state: int
    unified: bool
    """Whether counters of unified memory were on."""
    opened_ns: int
    """When CUDA was initialised."""
    dropped: int
    """Records for which CUPTI had no buffer."""
    damaged: int
    """Records that make no sense, and the bytes of a part of one, left out."""
    cost_ns: int
    """CPU time of translating and writing."""
    stopped_ns: int
    """When recording ended before the process did; 0 where it did not."""
    saved_ns: int
    """When the process last wrote."""
    records: NDArray[np.void]
    """`RECORD`, without names."""
    names: tuple[str, ...]
    """Kernels, by number from 1."""

    @property
    def is_whole(self) -> bool:
        """Whether it holds the process's work to the end: sums of a part would be taken for those of the whole."""
        return bool(self.api) and self.state in (CuptiState.RUNNING, CuptiState.ENDED) and not len(self.windows)

    @property
    def windows(self) -> GpuWindowTable:
        """The windows of a recording that went over its budget; none of another."""
        rows = self.records[self.records["kind"] == CuptiKind.WINDOW]
        return GpuWindowTable.of(
            len(rows),
            start_ns=rows["start_ns"].astype(np.int64),
            end_ns=rows["end_ns"].astype(np.int64),
            pid=self.pid,
            chance=np.where((rows["bytes"] == 0) | (rows["bytes"] > _CERTAIN), _CERTAIN, rows["bytes"]) / _CERTAIN,
            lived_ns=max([self.saved_ns, *rows["end_ns"].tolist()]),
        )


def load(path: Path) -> GpuFile | None:
    """One file; None for what is none, or cannot be read."""
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:  # to open a FIFO would wait for a writer
        return None
    try:
        return parse(path.read_bytes())
    except OSError:
        return None


def parse(data: bytes) -> GpuFile | None:
    """The same of bytes."""
    if len(data) < HEADER.itemsize:
        return None
    header = np.frombuffer(data, HEADER, 1)[0]
    if header["magic"] != MAGIC or header["version"] != VERSION:
        return None
    end = HEADER.itemsize + min(int(header["written"]), len(data) - HEADER.itemsize)
    count, rest = divmod(end - HEADER.itemsize, RECORD.itemsize)
    rows = np.frombuffer(data, RECORD, count, HEADER.itemsize)
    rows, names = _without_names(rows)
    # Where recording ended early, CUPTI hands over work that the GPU had not finished.
    rows = rows[(rows["start_ns"] > 0) & (rows["end_ns"] > 0)]
    if header["window_ns"]:  # the process died in a window: how far it is recorded is not known
        rows = rows[rows["start_ns"] < header["window_ns"]]
    sound = np.isin(rows["kind"], [kind.value for kind in CuptiKind])
    sound &= (rows["start_ns"] <= rows["end_ns"]) & (rows["end_ns"] < _LATEST_NS) & (rows["bytes"] < MOST_BYTES)
    return GpuFile(
        pid=int(header["pid"]) & 0x7FFFFFFF,
        api=int(header["api"]),
        state=int(header["state"]),
        unified=bool(header["unified"]),
        opened_ns=min(int(header["opened_ns"]), _LATEST_NS),
        dropped=int(header["dropped"]),
        damaged=int(np.count_nonzero(~sound)) + (rest > 0) + int(header["unknown"]),
        cost_ns=min(int(header["cost_ns"]), _LATEST_NS),
        stopped_ns=min(int(header["stopped_ns"]), _LATEST_NS),
        saved_ns=min(int(header["saved_ns"]), _LATEST_NS),
        records=rows[sound],
        names=names,
    )


def _without_names(rows: NDArray[np.void]) -> tuple[NDArray[np.void], tuple[str, ...]]:
    """The records other than names, and the names by number; texts lie in place of records behind their name's."""
    text = np.zeros(len(rows), np.bool_)
    names: list[str] = []
    for at in np.flatnonzero(rows["kind"] == CuptiKind.NAME).tolist():
        length = int(rows["bytes"][at])
        if text[at] or length > LONGEST_NAME or int(rows["name"][at]) != len(names) + 1:
            continue  # bytes of a text, or a forgery
        size = -(-length // RECORD.itemsize)
        text[at : at + 1 + size] = True
        names.append(rows[at + 1 : at + 1 + size].tobytes()[:length].decode("utf-8", "replace"))
    return rows[~text], tuple(names)
