"""What was seen when: per thread its stacks, each from the first look that saw it to the last."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Any

from pinprof.base import files
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.python_frames.interpreter import UNKNOWN, Tables


@dataclass
class _Runs:
    """What was seen of one thread: columns of one length, times in ns of CLOCK_MONOTONIC."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)

    def saw(self, stack: int, time_ns: int) -> None:
        if self.stack and self.stack[-1] == stack:
            self.last[-1] = time_ns
        else:
            self.first.append(time_ns)
            self.last.append(time_ns)
            self.stack.append(stack)


class Timeline:
    """One segment of a recording."""

    def __init__(self, start_ns: int, period_ns: int) -> None:
        self.start_ns, self._period_ns = start_ns, period_ns
        self.tables = Tables()
        self.names: dict[tuple[int, int], str] = {}
        self._threads: dict[tuple[int, int], _Runs] = {}
        self._looks: dict[int, list[int]] = {}
        """Per process the times of looks, in µs after the start."""
        self._lags: dict[int, list[int]] = {}

    @property
    def size(self) -> int:
        """How many rows it has."""
        return sum(len(runs.stack) for runs in self._threads.values())

    def saw(self, pid: int, stacks: Iterable[tuple[int, int]], time_ns: int, due_ns: int) -> None:
        """Note a look at all threads of a process, and when this process was to wake for it."""
        look = (time_ns - self.start_ns) // 1000
        self._looks.setdefault(pid, []).append(look)
        self._lags.setdefault(pid, []).append(max(time_ns - due_ns, 0) // 1000)
        for tid, stack in stacks:
            if stack != UNKNOWN:
                runs = self._threads.get((pid, tid))
                if runs is None:
                    runs = self._threads[pid, tid] = _Runs()
                runs.saw(stack, self.start_ns + look * 1000)

    def to_json(self, end_ns: int) -> dict[str, Any]:
        """The segment as it is stored; see read/python/stacks.py."""
        apart = [(looks[-1] - looks[0]) * 1000 // (len(looks) - 1) for looks in self._looks.values() if len(looks) > 1]
        return {
            "start_ns": self.start_ns,
            "end_ns": end_ns,
            "uncertainty_ns": max([self._period_ns, *apart]) // 2,
            "frames": [list(frame) for frame in self.tables.frames],
            "stacks": [list(node) for node in self.tables.stacks],
            "threads": [
                {
                    "pid": pid,
                    "tid": tid,
                    "name": self.names.get((pid, tid), ""),
                    "times": _differences([self.start_ns, *runs.first]),
                    "lasts": [last - first for first, last in zip(runs.first, runs.last, strict=True)],
                    "stacks": runs.stack,
                }
                for (pid, tid), runs in self._threads.items()
            ],
            "looks": {str(pid): _differences([0, *looks]) for pid, looks in self._looks.items()},
            "lags": {str(pid): lags for pid, lags in self._lags.items()},
            "unnamed_threads": 0,
        }

    def save(self, path: Path, end_ns: int) -> None:
        """Add it to the file as a gzip member of its own."""
        text = json.dumps(self.to_json(end_ns), separators=(",", ":")).encode() + b"\n"
        with os.fdopen(files.append(path), "ab") as stream:
            stream.write(gzip.compress(text, 6, mtime=0))


def _differences(values: list[int]) -> list[int]:
    return [value - before for before, value in pairwise(values)]
