"""`symbols.json.gz`: every address seen in a capture with its symbol, so that the capture reads anywhere.

One gzip-compressed JSON object:

    schema    1
    names     [function names], sorted
    kernel    {hidden, dsos: [path], ips: [address], dso: [index into dsos], name: [index into names]}
    user      [{path, build_id, kind, pid, offsets: [file offset], name: [index into names]}]
    lines     {paths: [source file], runs: [[name, path, line, name, path, line, …]], left: count,
               user: [{path, build_id, kind, pid, offsets: [file offset], run: [index into runs]}]}

`ips` and `offsets` ascend; a name of -1 says that the address has no symbol. `hidden` says that kptr_restrict kept
kernel addresses secret. `pid` is 0 except for code made at run time (kinds `jit` and `anon`), whose `offsets` are
absolute addresses of that process. Equal symbols make equal bytes.

`lines` is absent where no source line is known. A run is what stands at an address: functions innermost first, the
inlined ones of their own, as indices into `names` and `paths`. Return addresses have the offset of the byte before,
which belongs to the call. `left` counts addresses for which there was no time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Self

import numpy as np

from pinprof.base import files
from pinprof.base.errors import unreadable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.shapes import COUNT, TEXT, ColumnShape, Each, OneOf, Record, Whole, parsed
from pinprof.data.model import Dso, Int32, UInt64
from pinprof.read.packed import PackedError, unpacked

SCHEMA_VERSION = 1

MAX_BYTES = 128 << 20
"""Bytes of text: some eight million addresses. They become Python objects, which take several times the room."""

MOST_INLINED = 24
"""Functions at one address, as many as `dwarf.c` tells; a forged run of millions would be repeated for each sample."""

_INDICES, _ADDRESSES = ColumnShape(-1, (1 << 31) - 1, 1 << 62), ColumnShape(0, (1 << 64) - 1, 1 << 96)


def _user(column: str) -> Each:
    """Addresses of DSOs and a column beside them."""
    texts = {"path": TEXT, "build_id": TEXT, "kind": TEXT}
    return Each(Record({**texts, "pid": Whole(0, (1 << 31) - 1), "offsets": _ADDRESSES, column: _INDICES}))


_SHAPE = Record(
    {
        "schema": COUNT,
        "names": Each(TEXT),
        "kernel": Record(
            {
                "hidden": OneOf((True, False)),
                "dsos": Each(TEXT),
                "ips": _ADDRESSES,
                "dso": _INDICES,
                "name": _INDICES,
            }
        ),
        "user": _user("name"),
    },
    optional={
        "lines": Record({"paths": Each(TEXT), "runs": Each(_INDICES), "left": COUNT, "user": _user("run")}),
    },
)
"""What the file holds; how its parts refer to each other is checked as they are taken."""

UserKey = tuple[str, str, str, int]
"""(path, build id, kind, pid) of a DSO; pid is 0 unless addresses are the process's own."""


def user_key(dso: Dso, pid: int) -> UserKey:
    """What identifies the addresses of a DSO."""
    return dso.path, dso.build_id, dso.kind, pid if dso.kind in ("jit", "anon") else 0


Run = tuple[tuple[int, int, int], ...]
"""What stands at an address, innermost first: (name, source file, line), the first two as indices."""


@dataclass(frozen=True)
class SealedAddresses:
    """Addresses in ascending order and, per address, the index of its name (-1: it has no symbol)."""

    addresses: UInt64
    names: Int32

    def find(self, wanted: UInt64) -> Int32:
        """Per wanted address its row, -1 if it was not seen when sealing."""
        if not len(self.addresses):
            return np.full(len(wanted), -1, np.int32)
        rows = np.minimum(np.searchsorted(self.addresses, wanted), len(self.addresses) - 1)
        return np.where(self.addresses[rows] == wanted, rows, -1).astype(np.int32)


_NOTHING = SealedAddresses(np.zeros(0, np.uint64), np.zeros(0, np.int32))


@dataclass(frozen=True)
class SealedLines:
    """Source lines and inlined functions."""

    paths: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    left: int = 0
    """Addresses for which there was no time."""
    user: Mapping[UserKey, SealedAddresses] = field(default_factory=dict)
    """Here `names` are indices into `runs`."""

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        runs = [[number for frame in run for number in frame] for run in self.runs]
        return {"paths": list(self.paths), "runs": runs, "left": self.left, "user": _entries(self.user, "run")}

    @classmethod
    def from_json(cls, raw: Any, name_count: int) -> Self:
        """The lines in an object of that shape; ValueError where its parts do not fit together."""
        paths = tuple(raw["paths"])
        runs = [np.array(run, np.int64).reshape(-1, 3) for run in raw["runs"]]
        if max(map(len, runs), default=0) > MOST_INLINED:
            raise ValueError("too many functions at one address")
        flat = np.concatenate([np.zeros((0, 3), np.int64), *runs])
        for column, end in enumerate((name_count, len(paths), 2**31)):
            _indices(flat[:, column], len(flat), 0, end)
        user = {_user_key(entry): _addresses(entry["offsets"], entry["run"], len(runs)) for entry in raw["user"]}
        made = tuple(tuple((name, path, line) for name, path, line in run.tolist()) for run in runs)
        return cls(paths, made, raw["left"], user)


@dataclass(frozen=True)
class SealedSymbols:
    """The symbols of one capture, as resolved on the machine that recorded it."""

    names: tuple[str, ...] = ()
    kernel: SealedAddresses = _NOTHING
    kernel_dso: Int32 = field(default_factory=lambda: np.zeros(0, np.int32))
    """Per kernel address, index into `kernel_dsos`."""
    kernel_dsos: tuple[str, ...] = ()
    kernel_hidden: bool = False
    user: Mapping[UserKey, SealedAddresses] = field(default_factory=dict)
    lines: SealedLines = field(default_factory=SealedLines)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Symbols of a capture; CaptureError if the file cannot be read or is not what this version writes."""
        try:
            return cls._from_json(_SHAPE.fit(parsed(unpacked(path.read_bytes(), MAX_BYTES))))
        except (OSError, PackedError, ValueError) as error:
            remedy = "Delete the file to resolve addresses on this machine again, if the programs are installed here."
            raise unreadable(f"The symbols {path}", error, remedy, "symbols") from error

    def save(self, path: Path) -> None:
        """Write the symbols; the same symbols always give the same bytes."""
        kernel = {
            "hidden": self.kernel_hidden,
            "dsos": list(self.kernel_dsos),
            "ips": self.kernel.addresses.tolist(),
            "dso": self.kernel_dso.tolist(),
            "name": self.kernel.names.tolist(),
        }
        user = _entries(self.user, "name")
        content = {"schema": SCHEMA_VERSION, "names": list(self.names), "kernel": kernel, "user": user}
        if self.lines.user or self.lines.left:
            content["lines"] = self.lines.to_json()
        text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
        files.written(path, gzip.compress(text.encode("ascii"), mtime=0))

    @classmethod
    def _from_json(cls, raw: Any) -> Self:
        """Symbols of an object of that shape; ValueError where its parts do not fit together."""
        if raw["schema"] != SCHEMA_VERSION:
            raise ValueError(f"it has schema version {raw['schema']!r}, this version reads {SCHEMA_VERSION}")
        names = tuple(raw["names"])
        kernel = raw["kernel"]
        dsos = tuple(kernel["dsos"])
        addresses = _addresses(kernel["ips"], kernel["name"], len(names))
        return cls(
            names=names,
            kernel=addresses,
            kernel_dso=_indices(kernel["dso"], len(addresses.addresses), 0, len(dsos)),
            kernel_dsos=dsos,
            kernel_hidden=kernel["hidden"],
            user={_user_key(entry): _addresses(entry["offsets"], entry["name"], len(names)) for entry in raw["user"]},
            lines=SealedLines.from_json(raw["lines"], len(names)) if "lines" in raw else SealedLines(),
        )


def _entries(user: Mapping[UserKey, SealedAddresses], column: str) -> list[dict[str, Any]]:
    """One object for each DSO, in the order of their keys."""
    return [
        dict(zip(("path", "build_id", "kind", "pid"), key, strict=True))
        | {"offsets": sealed.addresses.tolist(), column: sealed.names.tolist()}
        for key, sealed in sorted(user.items())
    ]


def _user_key(entry: Any) -> UserKey:
    return entry["path"], entry["build_id"], entry["kind"], entry["pid"]


def _addresses(raw: Any, names: Any, name_count: int) -> SealedAddresses:
    addresses = np.array(raw, np.uint64)
    if addresses.ndim != 1 or (addresses[1:] <= addresses[:-1]).any():
        raise ValueError("addresses do not ascend")
    return SealedAddresses(addresses, _indices(names, len(addresses), -1, name_count))


def _indices(raw: Any, length: int, lowest: int, end: int) -> Int32:
    """A column of `length` indices from `lowest` up to, not including, `end`."""
    indices = np.array(raw, np.int32)
    if indices.shape != (length,) or (length and not lowest <= int(indices.min()) <= int(indices.max()) < end):
        raise ValueError("indices do not match their tables")
    return indices
