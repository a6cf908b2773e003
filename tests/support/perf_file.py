"""perf.data files written byte by byte, for layouts that a recording on one machine does not show."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from pinprof.data import perf_format as perf
from pinprof.data.model import Capture
from pinprof.read.perf import records as rec

Reader = Callable[[bytes], Capture]
"""What reads the bytes of a perf.data."""

SOFTWARE = 1
SAMPLE_ID_ALL, FREQ, USE_CLOCKID = 1 << 18, 1 << 10, 1 << 25
BASIC = perf.SAMPLE_IP | perf.SAMPLE_TID | perf.SAMPLE_TIME | perf.SAMPLE_CALLCHAIN | perf.SAMPLE_PERIOD
KERNEL_IP, USER_IP = 0xFFFFFFFF81000000, 0x401000
MAPPED = (0x400000, 0x10000, "/opt/app")


@dataclass
class Spec:
    """One event: what goes into its perf_event_attr."""

    sample_type: int = BASIC
    config: int = 0
    type: int = SOFTWARE
    period: int = 1000
    flags: int = SAMPLE_ID_ALL | USE_CLOCKID
    read_format: int = 0
    ids: tuple[int, ...] = ()
    size: int = 128
    branch_sample_type: int = 0
    clockid: int = 1
    max_stack: int = 0

    def attr(self) -> bytes:
        raw = bytearray(128)
        struct.pack_into(
            "<IIQQQQQ",
            raw,
            0,
            self.type,
            self.size,
            self.config,
            self.period,
            self.sample_type,
            self.read_format,
            self.flags,
        )
        struct.pack_into("<Q", raw, 72, self.branch_sample_type)
        struct.pack_into("<i", raw, 92, self.clockid)
        struct.pack_into("<H", raw, 108, self.max_stack)
        return bytes(raw).ljust(self.size, b"\xee")[: self.size]


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def text(value: str | bytes) -> bytes:
    """NUL-terminated and padded to 8 bytes, as the kernel writes names."""
    raw = value.encode() if isinstance(value, str) else value
    return raw + bytes(8 - len(raw) % 8)


def trailer(spec: Spec, *, time: int, pid: int = 7, tid: int = 7, event_id: int = 0) -> bytes:
    parts = [
        (perf.SAMPLE_TID, struct.pack("<ii", pid, tid)),
        (perf.SAMPLE_TIME, struct.pack("<Q", time)),
        (perf.SAMPLE_ID, struct.pack("<Q", event_id)),
        (perf.SAMPLE_STREAM_ID, struct.pack("<Q", 99)),
        (perf.SAMPLE_CPU, struct.pack("<II", 3, 0)),
        (perf.SAMPLE_IDENTIFIER, struct.pack("<Q", event_id)),
    ]
    return b"".join(raw for bit, raw in parts if spec.sample_type & bit) if spec.flags & SAMPLE_ID_ALL else b""


def comm(spec: Spec, name: str | bytes, *, time: int = 0, pid: int = 7, tid: int = 7, exec_: bool = False) -> bytes:
    body = struct.pack("<ii", pid, tid) + text(name) + trailer(spec, time=time, pid=pid, tid=tid)
    return record(perf.RECORD_COMM, body, perf.MISC_COMM_EXEC if exec_ else 0)


def fork(spec: Spec, pid: int, parent: int, *, time: int, tid: int | None = None, clones: bool = True) -> bytes:
    body = struct.pack("<iiiiQ", pid, parent, tid or pid, parent, time) + trailer(spec, time=time)
    return record(perf.RECORD_FORK, body, 0 if clones else perf.MISC_FORK_EXEC)


def mmap2(
    spec: Spec,
    start: int,
    length: int,
    path: str,
    *,
    time: int = 0,
    pid: int = 7,
    pgoff: int = 0,
    build_id: bytes = b"",
    protection: int = 5,
    misc: int = perf.MISC_USER,
) -> bytes:
    identity = struct.pack("<BBH20s", len(build_id), 0, 0, build_id) if build_id else struct.pack("<IIQQ", 8, 1, 5, 6)
    body = struct.pack("<iiQQQ", pid, pid, start, length, pgoff) + identity + struct.pack("<II", protection, 2)
    misc |= perf.MISC_MMAP_BUILD_ID if build_id else 0
    return record(perf.RECORD_MMAP2, body + text(path) + trailer(spec, time=time, pid=pid), misc)


def mmap(spec: Spec, start: int, length: int, path: str, *, time: int = 0, pid: int = 7, pgoff: int = 0) -> bytes:
    body = struct.pack("<iiQQQ", pid, pid, start, length, pgoff) + text(path) + trailer(spec, time=time, pid=pid)
    return record(perf.RECORD_MMAP, body, perf.MISC_USER)


def sample(
    spec: Spec,
    chain: tuple[int, ...] = (rec.CONTEXT_USER, USER_IP),
    *,
    time: int = 100,
    pid: int = 7,
    tid: int = 7,
    event_id: int = 0,
    period: int = 1000,
    read: bytes = b"",
    behind: bytes = b"",
    addr: int = 0xADD0,
    cpu: int = 3,
    ip: int | None = None,
    misc: int = perf.MISC_USER,
) -> bytes:
    """A SAMPLE, taken at the innermost address of its chain unless `ip` is given.

    `read` is the READ field and `behind` everything after the callchain, both as raw bytes.
    """
    parts = [
        (perf.SAMPLE_IDENTIFIER, struct.pack("<Q", event_id)),
        (
            perf.SAMPLE_IP,
            struct.pack("<Q", next((at for at in chain if at < rec.CONTEXT_LOWEST), 0) if ip is None else ip),
        ),
        (perf.SAMPLE_TID, struct.pack("<ii", pid, tid)),
        (perf.SAMPLE_TIME, struct.pack("<Q", time)),
        (perf.SAMPLE_ADDR, struct.pack("<Q", addr)),
        (perf.SAMPLE_ID, struct.pack("<Q", event_id)),
        (perf.SAMPLE_STREAM_ID, struct.pack("<Q", 99)),
        (perf.SAMPLE_CPU, struct.pack("<II", cpu, 0)),
        (perf.SAMPLE_PERIOD, struct.pack("<Q", period)),
        (perf.SAMPLE_READ, read),
        (perf.SAMPLE_CALLCHAIN, struct.pack(f"<{1 + len(chain)}Q", len(chain), *chain)),
    ]
    body = b"".join(raw for bit, raw in parts if spec.sample_type & bit) + behind
    return record(perf.RECORD_SAMPLE, body, misc)


def string(value: str) -> bytes:
    raw = value.encode() + b"\0"
    raw += bytes(-len(raw) % 64)
    return struct.pack("<I", len(raw)) + raw


@dataclass
class Features:
    """Feature sections, by their bit."""

    sections: dict[int, bytes] = field(default_factory=dict)

    def command(self, *words: str) -> Features:
        self.sections[11] = struct.pack("<I", len(words)) + b"".join(map(string, words))
        return self

    def kernel(self, release: str) -> Features:
        self.sections[4] = string(release)
        return self

    def names(self, *events: tuple[str, tuple[int, ...]]) -> Features:
        body = struct.pack("<II", len(events), 128)
        for name, ids in events:
            body += bytes(128) + struct.pack("<I", len(ids)) + string(name) + struct.pack(f"<{len(ids)}Q", *ids)
        self.sections[12] = body
        return self

    def build_id(self, path: str, raw: bytes, *, sized: bool = False) -> Features:
        body = struct.pack("<i", -1) + raw.ljust(20, b"\0") + struct.pack("<I", len(raw) if sized else 0) + text(path)
        misc = perf.MISC_USER | (perf.MISC_BUILD_ID_SIZE if sized else 0)
        self.sections[2] = self.sections.get(2, b"") + record(0, body, misc)
        return self


def file_mode(
    specs: list[Spec], records: bytes, features: Features | None = None, data_size: int | None = None
) -> bytes:
    """A perf.data file; a `data_size` of 0 is what a killed perf leaves behind."""
    features = features or Features()
    ids = b"".join(struct.pack(f"<{len(spec.ids)}Q", *spec.ids) for spec in specs)
    attr_size = specs[0].size + 16
    table_at = 104 + len(ids)
    data_at = table_at + attr_size * len(specs)
    entries, ids_at = b"", 104
    for spec in specs:
        entries += spec.attr() + struct.pack("<QQ", ids_at, 8 * len(spec.ids))
        ids_at += 8 * len(spec.ids)
    bits = sum(1 << bit for bit in features.sections)
    size = len(records) if data_size is None else data_size
    head = struct.pack(
        "<8s12Q",
        b"PERFILE2",
        104,
        attr_size,
        table_at,
        attr_size * len(specs),
        data_at,
        size,
        0,
        0,
        *(bits >> 64 * word & (1 << 64) - 1 for word in range(4)),
    )
    at = data_at + len(records) + 16 * len(features.sections)
    table, bodies = b"", b""
    for bit in sorted(features.sections):
        table += struct.pack("<QQ", at + len(bodies), len(features.sections[bit]))
        bodies += features.sections[bit]
    return head + ids + entries + records + (table + bodies if data_size is None else b"")


def pipe_mode(specs: list[Spec], records: bytes, features: Features | None = None) -> bytes:
    """What `perf record -o -` writes: attributes and features as records."""
    stream = struct.pack("<8sQ", b"PERFILE2", 16)
    for spec in specs:
        stream += record(perf.RECORD_HEADER_ATTR, spec.attr() + struct.pack(f"<{len(spec.ids)}Q", *spec.ids))
    for bit, body in (features or Features()).sections.items():
        stream += record(perf.RECORD_HEADER_FEATURE, struct.pack("<Q", bit) + body)
    return stream + records


def frames(capture: Capture, row: int) -> list[str]:
    """Symbols of one sample's stack, root first; `[k]` behind those of the kernel."""
    table = capture.stacks.frames
    numbers = [int(capture.stacks.frame[node]) for node in capture.stacks.chain(int(capture.samples.stack[row]))]
    return [table.symbol[number] + ("[k]" if table.mode[number] else "") for number in reversed(numbers)]
