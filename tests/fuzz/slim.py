"""Small recordings of large ones: few records of every kind, and of what lies beside them only what they ask for."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any
from unittest import mock

import numpy as np

from pinprof.read import cupti_file
from pinprof.read.symbols.sealed import SealedAddresses
from tests.fuzz.change_bytes import perf_parts, perf_whole

MOST_RECORDS = 10
"""Records of one type that a trimmed perf.data keeps: mappings and names, too."""
FEW = 3
"""The same of a slim one, and the rows of its tables."""
_SAMPLE = 9
_FRAMES = 40
"""Bytes by which a sample with a few frames is longer than one without."""
_LOOKS = 6
"""Times at which a thread was looked at."""


def perf(data: bytes, most: int = MOST_RECORDS) -> bytes:
    """A perf.data file with so many records of each type at most; of samples, those with a short stack."""
    head, records, tail = perf_parts(data)
    samples = sorted(
        (number for number, record in enumerate(records) if record[0] == _SAMPLE), key=lambda at: len(records[at])
    )
    shortest = len(records[samples[0]]) if samples else 0
    wanted = {number for number in samples if len(records[number]) >= shortest + _FRAMES}
    wanted = set(sorted(wanted, key=lambda at: (len(records[at]), at))[:most]) | set(samples[:1])
    seen: Counter[bytes] = Counter()
    for number, record in enumerate(records):
        # Mappings at the beginning are the program's and its libraries'.
        if record[0] != _SAMPLE and seen[record[:4]] < most:
            wanted.add(number)
        seen[record[:4]] += 1
    return perf_whole(head, [records[number] for number in sorted(wanted)], tail)


def sqlite(data: bytes, most: int = FEW) -> bytes:
    """An nsys export with the first rows of each table that says something, and the texts that these rows name."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        base.deserialize(data)
        named: set[Any] = set()
        for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if table.startswith("ENUM_") and "MEM" not in table:
                base.execute(f'DROP TABLE "{table}"')
            elif table != "StringIds":
                if not table.startswith(("META_DATA", "ENUM_")):
                    keep = f'SELECT rowid FROM "{table}" LIMIT {most}'
                    base.execute(f'DELETE FROM "{table}" WHERE rowid NOT IN ({keep})')
                named.update(cell for row in base.execute(f'SELECT * FROM "{table}"') for cell in row)
        texts = [(number,) for (number,) in base.execute("SELECT id FROM StringIds") if number not in named]
        base.executemany("DELETE FROM StringIds WHERE id = ?", texts)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as small:
            small.execute("PRAGMA page_size = 512")
            small.executescript("\n".join(base.iterdump()))
            return small.serialize()


def lines(data: bytes, most: int = MOST_RECORDS) -> bytes:
    """The first lines of a text."""
    return b"".join(data.splitlines(keepends=True)[:most])


def symbols(data: bytes, read: Callable[[], object]) -> bytes:
    """The symbols of the addresses that `read` asks for."""
    asked = _asked(read)
    sealed = json.loads(gzip.decompress(data))
    kernel = sealed["kernel"]
    users = sealed["user"] + sealed.get("lines", {}).get("user", [])
    for table, column in ((kernel, "ips"), *((user, "offsets") for user in users)):
        kept = [row for row, address in enumerate(table[column]) if address in asked]
        for name in ("ips", "dso", "offsets", "name", "run"):
            if isinstance(table.get(name), list):
                table[name] = [table[name][row] for row in kept]
    for holder in (sealed, sealed.get("lines", {})):
        holder["user"] = [user for user in holder.get("user", ()) if user["offsets"]]
    if "lines" in sealed:
        _numbered_again(sealed["lines"], "runs", [(user, "run") for user in sealed["lines"]["user"]])
        _frames_numbered_again(sealed)
    else:
        _numbered_again(sealed, "names", [(kernel, "name"), *((user, "name") for user in sealed["user"])])
    return gzip.compress(json.dumps(sealed).encode(), 1, mtime=0)


def _asked(read: Callable[[], object]) -> set[int]:
    """Addresses that are looked up in sealed symbols while something is read."""
    asked: set[int] = set()
    find = SealedAddresses.find

    def heard(self: SealedAddresses, wanted: Any) -> Any:
        asked.update(np.asarray(wanted).tolist())
        return find(self, wanted)

    with mock.patch.object(SealedAddresses, "find", heard):
        read()
    return asked


def _numbered_again(holder: Any, table: str, users: Iterable[tuple[Any, str]]) -> None:
    """Leave those elements of a table out that no column refers to."""
    columns = list(users)
    used = sorted({number for user, name in columns for number in user[name] if number >= 0})
    place = {number: at for at, number in enumerate(used)} | {-1: -1}
    holder[table] = [holder[table][number] for number in used]
    for user, name in columns:
        user[name] = [place[number] for number in user[name]]


def _frames_numbered_again(sealed: Any) -> None:
    """The same of names and paths where source lines refer to them: as columns of runs."""
    found = sealed["lines"]
    names = [{"name": run[0::3]} for run in found["runs"]]
    paths = [{"path": run[1::3]} for run in found["runs"]]
    columns = [(sealed["kernel"], "name"), *((user, "name") for user in sealed["user"])]
    _numbered_again(sealed, "names", [*columns, *((column, "name") for column in names)])
    _numbered_again(found, "paths", [(column, "path") for column in paths])
    found["runs"] = [
        [number for frame in zip(name["name"], path["path"], run[2::3], strict=True) for number in frame]
        for name, path, run in zip(names, paths, found["runs"], strict=True)
    ]


def python_stacks(data: bytes) -> bytes:
    """The first looks at two threads of one segment."""
    segment = json.loads(gzip.decompress(data).splitlines()[0])
    threads = [thread for thread in segment["threads"] if thread["stacks"]]
    segment["threads"] = sorted(threads, key=lambda thread: max(thread["stacks"]))[:2]
    for thread in segment["threads"]:
        for column in ("times", "lasts", "stacks"):
            if column in thread:
                thread[column] = thread[column][:_LOOKS]
    nodes: list[int] = []
    for node in sorted({node for thread in segment["threads"] for node in thread["stacks"]}):
        while node >= 0:
            nodes.append(node)
            node = segment["stacks"][node][0]
    place = {node: at for at, node in enumerate(sorted(set(nodes)))} | {-1: -1}
    stacks = [segment["stacks"][node] for node in place if node >= 0]
    frames = {frame: at for at, frame in enumerate(sorted({frame for _, frame in stacks}))}
    for thread in segment["threads"]:
        thread["stacks"] = [place[node] for node in thread["stacks"]]
    segment["stacks"] = [[place[caller], frames[frame]] for caller, frame in stacks]
    segment["frames"] = [segment["frames"][frame] for frame in frames]
    for column in ("looks", "lags"):
        if column in segment:
            segment[column] = {pid: values[:_LOOKS] for pid, values in segment[column].items()}
    return gzip.compress(json.dumps(segment).encode() + b"\n", 1, mtime=0)


def rates(data: bytes) -> bytes:
    """One size of each operation."""
    document = json.loads(data)
    document["rates"] = list({rate["measure"]: rate for rate in document["rates"]}.values())
    return json.dumps(document).encode()


def gpu(data: bytes, most: int = FEW) -> bytes:
    """A file of what the GPU did with so many records of each kind, and the names of all kernels."""
    header = np.frombuffer(data, cupti_file.HEADER, 1).copy()
    kept, seen, at = [], Counter[int](), cupti_file.HEADER.itemsize
    end = at + int(header["written"][0])
    while at + cupti_file.RECORD.itemsize <= end:
        record = np.frombuffer(data, cupti_file.RECORD, 1, at)[0]
        kind, is_name = int(record["kind"]), record["kind"] == cupti_file.CuptiKind.NAME
        # The text of a name lies in place of the records behind it.
        texts = -(-int(record["bytes"]) // cupti_file.RECORD.itemsize) if is_name else 0
        size = (1 + texts) * cupti_file.RECORD.itemsize
        if is_name or seen[kind] < most:
            kept.append(data[at : at + size])
        seen[kind] += 1
        at += size
    body = b"".join(kept)
    header["written"] = len(body)
    return header.tobytes() + body
