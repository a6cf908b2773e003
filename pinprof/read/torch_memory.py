"""PyTorch's memory snapshots, and the counts of its pinned allocator, as people save them.

A snapshot is the pickle of `torch.cuda.memory._dump_snapshot`: segments with blocks, and with `_record_memory_history`
stacks and the history of each GPU; from PyTorch 2.14 on, with `record_pinned_host_memory=True`, also the pinned pool's.
The counts are `torch.cuda.host_memory_stats()` as JSON. Nothing of a snapshot is run (`plain_pickle`).

Sources: PyTorch 2.14.1, torch/cuda/memory.py (`_snapshot`, `host_memory_stats`), ATen/core/CachingHostAllocator.h.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from pinprof.base.errors import CaptureError, FormatError, unreadable
from pinprof.data.own_code import library_part
from pinprof.data.torch_memory import TorchHostStats, TorchLine, TorchMemory, TorchPool
from pinprof.read.plain_pickle import plain

MOST_BYTES = 512 << 20
"""The size that a file may have."""
MOST_LINES = 20
"""The lines that a pool lists."""
_MOST_VISITED = 50_000_000
"""Entries and frames: a pickle can have one list at many places."""
_REMEDY = "Give what `torch.cuda.memory._dump_snapshot` wrote, or `torch.cuda.host_memory_stats()` as JSON."
_PICKLE = b"\x80"
_INACTIVE = "inactive"
PINNED = "pinned"


def load(paths: Iterable[Path]) -> TorchMemory | None:
    """What files say together; None without files. A later file replaces what an earlier one of its kind says.

    CaptureError for a file that cannot be read, FormatError for one that is neither a snapshot nor such counts.
    """
    pools: tuple[TorchPool, ...] = ()
    host: TorchHostStats | None = None
    for path in paths:
        data = _bytes_of(path)
        if data.startswith(_PICKLE):
            pools = _Snapshot(path, plain(data, path, _REMEDY, "torch-file")).pools()
        else:
            host = _counts(path, data)
    return TorchMemory(pools, host) if pools or host else None


def _bytes_of(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CaptureError(
                f"{path} is larger than {MOST_BYTES >> 20} MiB.",
                "Record a shorter history: `_record_memory_history(max_entries=100_000)`.",
                "torch-file",
            )
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, "Give a file that you may read.", "torch-file") from error


def _counts(path: Path, data: bytes) -> TorchHostStats:
    """The counts of a JSON document, flat or nested, as both functions of PyTorch return them."""
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        given = None
    flat = dict(_flattened(given)) if isinstance(given, dict) else {}

    def count(name: str, scale: int = 1) -> int:
        value = flat.get(name, 0)
        return round(value * scale) if isinstance(value, int | float) and 0 <= value < 1 << 62 else 0

    if "allocated_bytes.peak" not in flat:
        raise FormatError(
            path, expected="a snapshot or counts of PyTorch", found="something else", remedy=_REMEDY, slug="torch-file"
        )
    return TorchHostStats(
        held_bytes=count("allocated_bytes.current"),
        most_held_bytes=count("allocated_bytes.peak"),
        used_bytes=count("active_bytes.current"),
        most_used_bytes=count("active_bytes.peak"),
        allocations=count("num_host_alloc"),
        allocating_ns=count("host_alloc_time.total", 1000),
        frees=count("num_host_free"),
        freeing_ns=count("host_free_time.total", 1000),
    )


def _flattened(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", one) for part, one in value.items())
        else:
            yield name, value


class _Snapshot:
    """A snapshot: plain data that claims to have the documented form."""

    def __init__(self, path: Path, value: Any) -> None:
        self._path, self._visited = path, 0
        self._line_of: dict[int, str] = {}
        """By id, as stacks are shared; what has an id lives as long as `_value`."""
        self._value = value
        if not isinstance(value, dict) or not isinstance(value.get("segments"), list):
            raise self._broken("no list of segments")

    def pools(self) -> tuple[TorchPool, ...]:
        """Those of each GPU that has memory or a history, and of the host."""
        segments = self._rows(self._value, "segments")
        histories = self._value.get("device_traces")
        histories = histories if isinstance(histories, list) else []
        by_gpu: dict[int, list[dict[str, Any]]] = {}
        for segment in segments:
            by_gpu.setdefault(_whole(segment, "device"), []).append(segment)
        for number, history in enumerate(histories):
            if history:
                by_gpu.setdefault(number, [])
        made = [
            self._pool(
                f"cuda:{number}",
                [(_whole(one, "total_size"), self._rows(one, "blocks")) for one in of_gpu],
                self._rows_of(histories[number]) if 0 <= number < len(histories) else [],
            )
            for number, of_gpu in sorted(by_gpu.items())
        ]
        held, history = self._rows(self._value, "host_segments"), self._rows(self._value, "host_traces")
        if held or history:
            # The host's allocator does not split segments: each is a block.
            made.append(self._pool(PINNED, [(_size(one), [one]) for one in held], history))
        return tuple(made)

    def _pool(
        self, name: str, segments: Sequence[tuple[int, list[dict[str, Any]]]], history: list[dict[str, Any]]
    ) -> TorchPool:
        used = [block for _, blocks in segments for block in blocks if _is_used(block)]
        now: Counter[str] = Counter()
        count: Counter[str] = Counter()
        for block in used:
            line = self._line(block)
            now[line] += _size(block)
            count[line] += 1
        at_peak = self._at_peak(used, history) if history else None
        both = now + (at_peak or Counter())
        most = sorted(both, key=lambda line: (-max(now[line], at_peak[line] if at_peak else 0), line))[:MOST_LINES]
        return TorchPool(
            name=name,
            segments=len(segments),
            reserved_bytes=sum(size for size, _ in segments),
            used_bytes=sum(now.values()),
            requested_bytes=None if name == PINNED else sum(map(_requested, used)),
            peak_bytes=sum(at_peak.values()) if at_peak is not None else None,
            lines=tuple(
                TorchLine(line, count[line], now[line], at_peak[line] if at_peak is not None else None) for line in most
            ),
            others_bytes=sum(now.values()) - sum(now[line] for line in most),
        )

    def _at_peak(self, used: Sequence[dict[str, Any]], history: Sequence[dict[str, Any]]) -> Counter[str]:
        """What each line had when most was used, by the history, which may begin after the program.

        What is used at the end and not made in the history, and what it frees without having made it, was there before.
        Histories of GPUs have the sizes that tensors requested.
        """
        made: dict[int, tuple[int, str]] = {}
        before: Counter[str] = Counter()
        changes: list[tuple[str, int]] = []
        for entry in history:
            action, address, size = entry.get("action"), _whole(entry, "addr"), _whole(entry, "size")
            if action == "alloc":
                made[address] = size, self._line(entry)
                changes.append((made[address][1], size))
            elif action == "free_completed":
                if address in made:
                    size, line = made.pop(address)
                else:
                    line = ""
                    before[line] += size
                changes.append((line, -size))
        for block in used:
            if made.pop(_whole(block, "address"), None) is None:
                before[self._line(block)] += _requested(block)
        total, most, at = 0, 0, 0
        for number, (_, change) in enumerate(changes, 1):
            total += change
            if total > most:
                most, at = total, number
        for line, change in changes[:at]:
            before[line] += change
        return +before

    def _line(self, entry: Mapping[str, Any]) -> str:
        """The innermost frame of the program's own Python code, else of any; empty where there is no stack."""
        frames = entry.get("frames")
        if not isinstance(frames, list):
            return ""
        if id(frames) not in self._line_of:
            python = [frame for frame in self._rows_of(frames) if _file(frame).endswith(".py")]
            own = next((frame for frame in python if not library_part(_file(frame))), None)
            frame = own or next(iter(python), None)
            name = f"{frame.get('name')} ({PurePath(_file(frame)).name}:{_whole(frame, 'line')})" if frame else ""
            self._line_of[id(frames)] = name
        return self._line_of[id(frames)]

    def _rows(self, value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
        return self._rows_of(value.get(name) or [])

    def _rows_of(self, rows: Any) -> list[dict[str, Any]]:
        """Rows that are dictionaries; FormatError for others, and for a pickle that has them at too many places."""
        if not isinstance(rows, list):
            raise self._broken("something else than a list")
        self._visited += len(rows)
        if self._visited > _MOST_VISITED:
            raise self._broken(f"more than {_MOST_VISITED:,} entries")
        if not all(isinstance(row, dict) for row in rows):
            raise self._broken("a list of something else than entries")
        return rows

    def _broken(self, found: str) -> FormatError:
        return FormatError(
            self._path, expected="a memory snapshot of PyTorch", found=found, remedy=_REMEDY, slug="torch-file"
        )


def _whole(row: Mapping[str, Any], name: str) -> int:
    """A size, address or number; 0 where there is none that can be one."""
    value = row.get(name)
    return value if isinstance(value, int) and 0 <= value < 1 << 64 else 0


def _size(block: Mapping[str, Any]) -> int:
    return _whole(block, "size") or _whole(block, "total_size")


def _requested(block: Mapping[str, Any]) -> int:
    return _whole(block, "requested_size") or _size(block)


def _is_used(block: Mapping[str, Any]) -> bool:
    """Whether a tensor has it, or its free waits for a stream."""
    return block.get("state") != _INACTIVE if "state" in block else bool(block.get("active") or block.get("allocated"))


def _file(frame: Mapping[str, Any]) -> str:
    return str(frame.get("filename") or "")
