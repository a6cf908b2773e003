"""What a recording that goes on has told since the last look, read from what its files have gained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pinprof.portions.agent_files import AgentFiles
from pinprof.portions.inside_kept import InsideKept
from pinprof.portions.nvtx_kept import NvtxKept
from pinprof.portions.triggers import LookedAt, Timed
from pinprof.read.nvtx import file as nvtx_file
from pinprof.read.nvtx import injection
from pinprof.streams.records import between
from pinprof.streams.store import MEMORY, RANGES
from pinprof.streams.window import Mark

_PRESSURE = Path("/proc/pressure")
_TOTAL = re.compile(r"^(some|full) .*total=(\d+)$", re.MULTILINE)


class Watching:
    """The files of a recording into `directory`, as far as they are read."""

    def __init__(self, directory: Path, agent: AgentFiles, *, nvtx: bool) -> None:
        """`agent`: its files there, which somebody else looks at first; `nvtx`: whether their ranges are wanted."""
        self._directory, self._agent, self._nvtx = directory, agent, nvtx
        self._begun: dict[str, bytes] = {}
        """The line that is not whole yet, by file."""
        self._read: dict[str, int] = {}
        """How many bytes of each file were read."""
        self._since_ns = 0
        self._stalled: Mapping[str, int] | None = None
        self._pinned = 0

    def look(self, mark: Mark, signals: frozenset[int] = frozenset(), ended_by: int = 0) -> LookedAt:
        """What is new up to a mark, ranges in the order of their lines; `ended_by`: the signal that ended it."""
        ranges = [
            Timed(str(line["name"]), int(line["start_ns"]), int(line["end_ns"]), int(line["pid"]))
            for line in self._lines(RANGES, mark)
        ]
        for line in self._lines(MEMORY, mark):
            self._pinned = sum(int(process.get("pinned", 0)) for process in line["processes"])
        stalled, before = _pressure(), self._stalled
        since, self._since_ns, self._stalled = self._since_ns or mark.time_ns, mark.time_ns, stalled
        return LookedAt(
            since_ns=since,
            until_ns=mark.time_ns,
            ranges=[*ranges, *self._said_by_nvtx(since, mark.time_ns)],
            calls=[file.called for file in self._agent.of(InsideKept)],
            pinned_bytes=self._pinned + sum(file.pinned_bytes for file in self._agent.of(InsideKept)),
            stalled_ns=None if before is None else {name: total - before[name] for name, total in stalled.items()},
            signals=signals,
            ended_by=ended_by,
        )

    def _said_by_nvtx(self, since_ns: int, until_ns: int) -> Iterator[Timed]:
        """Ranges that have ended between two times, by end."""
        files = [nvtx_file.parse(file.cut(since_ns)) for file in self._agent.of(NvtxKept)] if self._nvtx else []
        if not files:
            return
        table = injection.combine([file for file in files if file is not None]).ranges
        for row in np.argsort(table.end_ns, kind="stable").tolist():
            if (table.ended is None or table.ended[row]) and table.end_ns[row] < until_ns:
                yield Timed(table.name[row], int(table.start_ns[row]), int(table.end_ns[row]), int(table.pid[row]))

    def _lines(self, name: str, mark: Mark) -> Iterator[dict[str, Any]]:
        last = mark.after.get(name, 0)
        first = self._read.get(name, 0)
        if last <= first:
            return
        self._read[name] = last
        *whole, begun = (self._begun.get(name, b"") + between(self._directory / name, first, last)).split(b"\n")
        self._begun[name] = begun
        yield from map(json.loads, whole)


def _pressure() -> dict[str, int]:
    """Per resource and kind, ns that threads have waited; empty where the kernel does not count it (PSI)."""
    found: dict[str, int] = {}
    for resource in ("memory", "io", "cpu"):
        try:
            text = (_PRESSURE / resource).read_text()
        except OSError:
            continue
        found |= {f"{resource} {kind}": int(total) * 1000 for kind, total in _TOTAL.findall(text)}
    return found
