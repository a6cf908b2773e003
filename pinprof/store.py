"""The capture directory `NAME.pinprof/`: the only thing that passes from collecting to reading.

    manifest.json       what was recorded, how, where and how it ended (manifest.Manifest)
    perf.data           samples
    calls.data          CUDA calls: entered, with arguments and stack, and returned
    perf-script.txt.gz  with copied stacks or branch records: what perf made of them where they were recorded
    kallsyms.gz         kernel symbols of the recording boot
    symbols.json.gz     every address seen → symbol, so that the capture reads anywhere
    memory.jsonl        memory of the program and the machine over time, one JSON object a line
    ranges.jsonl        NVTX ranges on CLOCK_MONOTONIC, one JSON object a line
    python-stacks.jsonl.gz  Python stacks with lines, by thread and time, as they were seen (read/python/stacks.py)
    nvtx/               what the program said through NVTX, one file a process (read/nvtx/file.py)
    gpu/                what the GPU did, by CUPTI, one file a process (read/cupti.py)
    nsys.sqlite         what Nsight Systems traced, its own export without what is private
    nsys.nsys-rep       its report, only when asked for: it holds the program's environment
    rates.json          what memory operations cost on this machine, by `pinprof bench` before or a calibration after
    collector.log       what the recording tools printed

It is written under `NAME.pinprof.partial` and renamed when whole. An interrupted one keeps that name, is marked in
its manifest (`outcome.state`), and still reads.

Schema history: 1 — first version.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from pinprof import __version__
from pinprof.errors import CaptureError, CollectError
from pinprof.manifest import Manifest

SCHEMA_VERSION = 1

MANIFEST = "manifest.json"
PERF_DATA = "perf.data"
PERF_SCRIPT = "perf-script.txt.gz"
KALLSYMS = "kallsyms.gz"
SYMBOLS = "symbols.json.gz"
RANGES = "ranges.jsonl"
MEMORY = "memory.jsonl"
NVTX = "nvtx"
GPU = "gpu"
PYTHON_STACKS = "python-stacks.jsonl.gz"
RATES = "rates.json"
LOG = "collector.log"
CALLS_DATA = "calls.data"
CALLS_LOG = "calls.log"
NSYS_SQLITE = "nsys.sqlite"
NSYS_REPORT = "nsys.nsys-rep"

SUFFIX = ".pinprof"
PARTIAL = ".partial"

_RESERVE = ".reserve"
_RESERVE_BYTES = 256 * 1024
"""Held while recording and given back before the manifest is written, so that a full disk cannot lose a capture."""


@dataclass(frozen=True)
class CaptureWriter:
    """A capture directory being written; `finish()` makes it whole."""

    path: Path
    """The directory to write into, `NAME.pinprof.partial`."""
    target: Path
    """Its final name."""
    manifest: Manifest
    """The first one."""

    @classmethod
    def create(cls, target: Path, manifest: Manifest, *, force: bool = False) -> Self:
        """Make the directory with a first manifest; CollectError if it cannot be, or if it exists and not `force`."""
        target = target if target.name.endswith(SUFFIX) else target.with_name(target.name + SUFFIX)
        partial = target.with_name(target.name + PARTIAL)
        for existing in (target, partial):
            if existing.exists():
                if not force:
                    remedy = "Give another name with -o, or --force to replace it."
                    raise CollectError(f"{existing} exists already.", remedy, "output")
                if not is_capture(existing):
                    problem = f"{existing} is not a pinprof capture, so --force does not replace it."
                    raise CollectError(problem, "Give another name with -o.", "output")
                shutil.rmtree(existing)
        writer = cls(partial, target, manifest)
        try:
            partial.mkdir(parents=True)
            (partial / _RESERVE).write_bytes(bytes(_RESERVE_BYTES))
            _write_manifest(partial, manifest)
        except BaseException as error:
            writer.discard()
            if not isinstance(error, OSError):  # broken off
                raise
            raise CollectError(
                f"The capture {partial} cannot be written: {error.strerror}.",
                "Choose a writable place with enough room with -o.",
                "output",
            ) from error
        return writer

    @property
    def ranges(self) -> Path:
        """Where the recorded program writes its ranges; absolute."""
        return (self.path / RANGES).resolve()

    def discard(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def release_reserve(self) -> None:
        """Give the reserved bytes back, before the last files are written."""
        (self.path / _RESERVE).unlink(missing_ok=True)

    def finish(self, manifest: Manifest) -> Path:
        """Write the final manifest, rename the directory to its final name and return that."""
        self.release_reserve()
        _write_manifest(self.path, manifest)
        self.path.rename(self.target)
        return self.target


def file_name(name: str) -> str:
    """A program's name as a part of file names."""
    return (re.sub(r"[^\w.+-]", "_", name).lstrip(".-") or "program")[:60]


def default_name(name: str) -> Path:
    """`NAME-YYYYmmdd-HHMMSS.pinprof` in the current directory."""
    return Path(f"{file_name(name)}-{datetime.now().astimezone():%Y%m%d-%H%M%S}{SUFFIX}")


def new_manifest(**facts: Any) -> Manifest:
    """A manifest of this version; fields not given are empty."""
    empty: dict[str, Any] = {"command": (), "scenario": {}, "host": {}, "collectors": (), "outcome": {}}
    return Manifest(schema_version=SCHEMA_VERSION, tool_version=__version__, **(empty | facts))


def is_capture(path: Path) -> bool:
    """Whether a path is a directory with a manifest."""
    return (path / MANIFEST).is_file()


def part(directory: Path, name: str) -> Path | None:
    """A file of a capture; None when the capture does not have it."""
    path = directory / name
    return path if path.is_file() else None


def holds_recording(directory: Path) -> bool:
    """Whether a capture holds what a report can be made of: samples, or what Nsight Systems traced."""
    return any(part(directory, name) for name in (PERF_DATA, NSYS_SQLITE))


def read_manifest(path: Path) -> Manifest:
    """The manifest of a capture directory; CaptureError if there is none, or of a schema this version cannot read."""
    try:
        raw: Any = json.loads((path / MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        raise CaptureError(
            f"{path} is a directory without a {MANIFEST}, so it is no pinprof capture.",
            "Give the directory that `pinprof record` wrote, or a perf.data file.",
            "not-a-capture",
        ) from None
    except (OSError, ValueError) as error:
        raise CaptureError(
            f"{path / MANIFEST} cannot be read: {error}.",
            f"The samples may be whole: try `pinprof report {path / PERF_DATA}`.",
            "manifest",
        ) from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise CaptureError(
            f"{path} has capture schema version {version!r}; pinprof {__version__} reads version {SCHEMA_VERSION}.",
            "Read it with the pinprof version that wrote it, or install a newer pinprof.",
            "schema-version",
        )
    return Manifest(
        schema_version=SCHEMA_VERSION,
        tool_version=str(raw.get("tool_version", "unknown")),
        command=tuple(str(word) for word in _typed(raw, "command", list)),
        scenario=_typed(raw, "scenario", dict),
        host=_typed(raw, "host", dict),
        collectors=tuple(entry for entry in _typed(raw, "collectors", list) if isinstance(entry, Mapping)),
        outcome=_typed(raw, "outcome", dict),
    )


def _typed(raw: Mapping[str, Any], key: str, kind: type) -> Any:
    """The value at `key` if it has the expected JSON type, else an empty one: a manifest may be edited by hand."""
    value = raw.get(key)
    return value if isinstance(value, kind) else kind()


def _write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step, so that a reader never sees half of one."""
    temporary = directory / (MANIFEST + ".new")
    temporary.write_text(json.dumps(asdict(manifest), indent=1, ensure_ascii=True) + "\n", "utf-8")
    temporary.replace(directory / MANIFEST)
