"""Files of the agent, written as it writes them; ticks are two for a nanosecond."""

from __future__ import annotations

import struct

import numpy as np

from pinprof.read.chunked_file import CHUNK_MAGIC, VERSION
from pinprof.read.inside.layout import CHUNK, HEADER, MAGIC, NOT_KNOWN, RECORD, Kind

PAGE = 4096
BEGUN_NS, TICKS_A_NS = 1_000_000, 2
NAMES = ("cuMemAlloc", "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemHostAlloc", "MPI_Allreduce", "MPI_Recv")
TID = 77


def ticks(ns: int) -> int:
    """Of a moment of CLOCK_MONOTONIC."""
    return TICKS_A_NS * (ns - BEGUN_NS) + 5_000


def header(pid: int = 7, token: int = 1, **facts: int) -> bytes:
    """The head of a file, with the functions' names."""
    names = "".join(f"{name}\n" for name in NAMES).encode()
    head = np.zeros(1, HEADER)
    opened = {"opened_ns": BEGUN_NS + 1000, "opened_ticks": ticks(BEGUN_NS + 1000)}
    values = {"version": VERSION, "pid": pid, "token": token, "size": PAGE, "names": len(names), **opened, **facts}
    for name, value in {"begun_ns": BEGUN_NS, "begun_ticks": ticks(BEGUN_NS), **values}.items():
        head[name] = value
    head["magic"] = MAGIC
    return (head.tobytes() + names).ljust(PAGE, b"\0")


def record(kind: Kind, begin_ns: int = 0, end_ns: int = 0, name: str = "", **values: int) -> bytes:
    """One unit."""
    unit = np.zeros(1, RECORD)
    unit["kind"], unit["bytes"], unit["stream"] = kind, NOT_KNOWN, NOT_KNOWN
    if kind in (Kind.CALL, Kind.SUM, Kind.MET):
        unit["begin"], unit["end"], unit["function"] = ticks(begin_ns), ticks(end_ns), NAMES.index(name)
    for field, value in values.items():
        unit[field] = value
    return unit.tobytes()


def call(begin_ns: int, end_ns: int, name: str = "cuLaunchKernel", **values: int) -> bytes:
    return record(Kind.CALL, begin_ns, end_ns, name, **values)


def total(begin_ns: int, end_ns: int, count: int, took_ns: int, name: str = "cuLaunchKernel", **values: int) -> bytes:
    return record(Kind.SUM, begin_ns, end_ns, name, address=count, source=TICKS_A_NS * took_ns, **values)


def block(kind: Kind, begin_ns: int, end_ns: int, **values: int) -> bytes:
    """Of large memory: `source` and `stream` are in ticks, as the agent writes them."""
    return record(kind, begin=ticks(begin_ns), end=ticks(end_ns), **{"bytes": 0, "stream": 0, **values})


def site(number: int, text: str) -> bytes:
    said = text.encode()
    return record(Kind.SITE, site=number, bytes=len(said)) + said.ljust(-(-len(said) // 64) * 64, b"\0")


def chunk(*units: bytes, tid: int = TID, taking: int = 1, size: int = 4 * PAGE, counted: int | None = None) -> bytes:
    """A chunk of one thread."""
    body = record(Kind.THREAD, address=taking << 32 | tid) + b"".join(units)
    head = np.zeros(1, CHUNK)
    head["magic"], head["size"] = CHUNK_MAGIC, size
    head["records"] = len(body) // 64 if counted is None else counted
    return (head.tobytes() + body).ljust(size, b"\0")


def anchor(ns: int, real_ns: int) -> bytes:
    """What the ticks of a moment are on CLOCK_MONOTONIC by another look."""
    return struct.pack("<QQ", ticks(ns), real_ns) + record(Kind.ANCHOR)[16:]
