"""Records of what existed before the recording: the kernel, its modules, processes and what they have mapped.

The kernel only reports changes. Whoever was there already is listed from /proc in records of the same form, with time
0, as `perf record` does (tools/perf/util/synthetic-events.c). Only executable mappings count: no address is looked up
in others.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from pinprof.collect.proc import parent, threads, tree
from pinprof.data import perf_format as perf

_PROC = Path("/proc")
_NOTES = Path("/sys/kernel/notes")
_GNU_BUILD_ID = 3
_PT_NOTE = 4
_MOST_NOTES = 1 << 16
_LONGEST_PATH = 4096
_MAPPING = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) ([r-][w-]x[sp]) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)")
_PROT_EXEC, _PROT_READ, _PROT_WRITE = 4, 1, 2
_MAP_SHARED, _MAP_PRIVATE = 1, 2
_KERNEL_PID = -1
_END_OF_ADDRESSES = 2**64


class Listing:
    """Makes the records; `trailer` ends each (perf_file.trailer of the first event, all zeros)."""

    def __init__(self, trailer: bytes) -> None:
        self._trailer = trailer
        self._build_ids: dict[tuple[bytes, bytes, bytes], bytes] = {}

    def kernel(self) -> bytes:
        """The kernel's own code and its modules; empty where the kernel hides its addresses."""
        symbol, start = reference_symbol(_PROC / "kallsyms")
        if not start:
            return b""
        modules = sorted(_modules())
        end = next((address for address, _, _ in modules if address > start), _END_OF_ADDRESSES - 1)
        records = [self._kernel_map(start, end - start, start, f"[kernel.kallsyms]{symbol}".encode())]
        records += [self._kernel_map(address, size, 0, b"[%s]" % name) for address, size, name in modules]
        return b"".join(records)

    def process(self, pid: int) -> bytes:
        """A process: its threads by name, and its mappings; empty when it is gone or not ours to look at."""
        records = []
        for tid in threads(pid):
            try:
                name = (_PROC / f"{pid}/task/{tid}/comm").read_bytes().rstrip(b"\n")
            except OSError:
                continue
            if tid != pid:
                records.append(
                    self._record(perf.RECORD_FORK, perf.MISC_FORK_EXEC, struct.pack("<iiiiQ", pid, pid, tid, pid, 0))
                )
            records.append(self._record(perf.RECORD_COMM, 0, struct.pack("<ii", pid, tid) + _text(name)))
        records += self._mappings(pid)
        return b"".join(records)

    def everything(self) -> Iterator[bytes]:
        """Every process, one piece each, parents first where pids ascend."""
        for pid in sorted(int(place.name) for place in _PROC.iterdir() if place.name.isdecimal()):
            above = parent(pid)
            if above >= 0:
                body = struct.pack("<iiiiQ", pid, above, pid, above, 0)
                yield self._record(perf.RECORD_FORK, perf.MISC_FORK_EXEC, body) + self.process(pid)

    def _mappings(self, pid: int) -> Iterator[bytes]:
        try:
            lines = (_PROC / f"{pid}/maps").read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            mapping = _MAPPING.match(line)
            if not mapping:
                continue
            start, end, offset = (int(mapping[group], 16) for group in (1, 2, 4))
            path = _unescaped(mapping[8])[:_LONGEST_PATH] or b"//anon"
            protection = _PROT_EXEC | (_PROT_READ if mapping[3][:1] == b"r" else 0)
            protection |= _PROT_WRITE if mapping[3][1:2] == b"w" else 0
            flags = _MAP_SHARED if mapping[3][3:] == b"s" else _MAP_PRIVATE
            build_id = self._build_id(pid, mapping, path)
            if build_id:
                misc = perf.MISC_USER | perf.MISC_MMAP_BUILD_ID
                identity = struct.pack("<BBH20s", len(build_id), 0, 0, build_id)
            else:
                misc = perf.MISC_USER
                identity = struct.pack("<IIQQ", int(mapping[5], 16), int(mapping[6], 16), int(mapping[7]), 0)
            body = struct.pack("<iiQQQ", pid, pid, start, end - start, offset) + identity
            yield self._record(perf.RECORD_MMAP2, misc, body + struct.pack("<II", protection, flags) + _text(path))

    def _build_id(self, pid: int, mapping: re.Match[bytes], path: bytes) -> bytes:
        """The build id of a mapped file, read where the process sees it: it may live in a container."""
        if not path.startswith(b"/") or path.endswith(b" (deleted)") or mapping[7] == b"0":
            return b""
        key = (mapping[5], mapping[6], mapping[7])
        if key not in self._build_ids:
            self._build_ids[key] = _build_id_of_file(b"/proc/%d/root%s" % (pid, path))
        return self._build_ids[key]

    def _kernel_map(self, start: int, size: int, page_offset: int, name: bytes) -> bytes:
        body = struct.pack("<iIQQQ", _KERNEL_PID, 0, start, size, page_offset) + _text(name)
        return self._record(perf.RECORD_MMAP, perf.MISC_KERNEL, body)

    def _record(self, kind: int, misc: int, body: bytes) -> bytes:
        return perf.record(kind, misc, body + self._trailer)


def descendants(pid: int) -> list[int]:
    """A process and its descendants, itself first, without those that record it."""
    own = os.getpid()
    while (above := parent(own)) > 1 and above != pid:
        own = above
    ours = set(tree(own)) if above == pid else set()
    return [process for process in tree(pid) if process not in ours]


def kernel_build_id() -> bytes:
    """The running kernel's build id, from its own notes; empty where they are hidden."""
    try:
        return _build_id_in_notes(_NOTES.read_bytes())
    except OSError:
        return b""


def reference_symbol(kallsyms: Path) -> tuple[str, int]:
    """`_text` or `_stext` and its address, by which a reader tells where the kernel lay at this boot; 0 when hidden."""
    try:
        with kallsyms.open("rb") as lines:
            for line in lines:
                if line.endswith((b" _text\n", b" _stext\n")):
                    address, _, name = line.split()
                    return name.decode(), int(address, 16)
    except OSError:
        pass
    return "", 0


def _modules() -> Iterator[tuple[int, int, bytes]]:
    """(address, size, name) of loaded modules: `name size uses by state address` (kernel/module/procfs.c)."""
    try:
        lines = (_PROC / "modules").read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) >= 6 and int(fields[5], 16):
            yield int(fields[5], 16), int(fields[1]), fields[0]


def _build_id_of_file(path: bytes) -> bytes:
    """The build id in a 64-bit little-endian ELF file's notes; empty for anything else."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a path of bytes
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
                return b""
            (table,) = struct.unpack_from("<Q", head, 32)
            entry, count = struct.unpack_from("<HH", head, 54)
            return _build_id_in_segments(_reader(file.fileno()), table, entry, count)
    except (OSError, struct.error, OverflowError):
        return b""


def _reader(file: int) -> Callable[[int, int], bytes]:
    return lambda offset, size: os.pread(file, size, offset)


def _build_id_in_segments(read: Callable[[int, int], bytes], table: int, entry: int, count: int) -> bytes:
    """The first build id among the PT_NOTE segments of a program header table."""
    raw = read(table, entry * count)
    for place in range(0, len(raw) - 55, max(entry, 56)):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", raw, place)
        if kind == _PT_NOTE:
            build_id = _build_id_in_notes(read(offset, min(size, _MOST_NOTES)))
            if build_id:
                return build_id
    return b""


def _build_id_in_notes(notes: bytes) -> bytes:
    """The GNU build id among ELF notes: `u32 name, size, type`, name and contents padded to four bytes."""
    place = 0
    while place + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, place)
        name = notes[place + 12 : place + 12 + name_size]
        begin = place + 12 + (name_size + 3 & ~3)
        if kind == _GNU_BUILD_ID and name == b"GNU\0":
            return notes[begin : begin + min(size, 20)]
        place = begin + (size + 3 & ~3)
    return b""


def _unescaped(path: bytes) -> bytes:
    r"""A path of /proc/PID/maps, where only a line's end is written as `\012` (fs/proc/task_mmu.c, seq_path)."""
    return path.replace(b"\\012", b"\n")


def _text(name: bytes) -> bytes:
    """NUL-terminated and padded to 8 bytes, as the kernel writes names."""
    return name + bytes(8 - len(name) % 8)
