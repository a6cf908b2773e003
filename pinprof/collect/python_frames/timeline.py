"""What was seen when: per thread its stacks, each from the first look that saw it to the last."""

from __future__ import annotations

import gzip
import json
import os
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinprof.base import files
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.python_frames.interpreter import SegmentTables
from pinprof.collect.python_frames.reader import NO_STACK, UNKNOWN, SeenWindow

_WINDOW_STEP_NS, _MOST_STEPS = 100, 10_000_000
_MOST_WINDOWS = 16
"""Threads of a process of which it is kept when exactly each look saw them: those that were seen in most places."""


@dataclass
class _Runs:
    """What was seen of one thread: columns of one length, times in ns of CLOCK_MONOTONIC."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)
    first_look: int = 0
    """Its number among its process's; from here on there are windows."""
    windows: tuple[array[int], ...] = field(default_factory=lambda: tuple(array("i") for _ in range(3)))
    """Steps from the look's time to `begun_ns`, from `since_ns` to that, and from that to `ended_ns`; nothing but 0 for
    a look that did not see it."""

    def within(self, look: int, *steps: int) -> None:
        """Note the window of a look; those since the last one did not see it."""
        missed = look - self.first_look - len(self.windows[0])
        for column, value in zip(self.windows, steps, strict=True):
            column.extend([0] * missed + [value])

    def saw(self, stack: int, time_ns: int) -> None:
        if self.stack and self.stack[-1] == stack:
            self.last[-1] = time_ns
        else:
            self.first.append(time_ns)
            self.last.append(time_ns)
            self.stack.append(stack)


class SegmentTimeline:
    """One segment of a recording."""

    def __init__(self, start_ns: int, period_ns: int) -> None:
        self.start_ns, self._period_ns = start_ns, period_ns
        self.tables = SegmentTables()
        self.names: dict[tuple[int, int], str] = {}
        self._threads: dict[tuple[int, int], _Runs] = {}
        self._looks: dict[int, list[int]] = {}
        """Per process the times of looks, in µs after the start."""
        self._lags: dict[int, list[int]] = {}

    @property
    def size(self) -> int:
        """How many rows it has."""
        return sum(len(runs.stack) for runs in self._threads.values())

    def saw(
        self,
        pid: int,
        stacks: Iterable[tuple[int, int]],
        time_ns: int,
        due_ns: int,
        windows: Mapping[int, SeenWindow] = MappingProxyType({}),
    ) -> None:
        """Note a look at all threads of a process, and when this process was to wake for it; `windows`: when it saw
        each thread.
        """
        look = (time_ns - self.start_ns) // 1000
        number = len(self._looks.setdefault(pid, []))
        self._looks[pid].append(look)
        self._lags.setdefault(pid, []).append(max(time_ns - due_ns, 0) // 1000)
        # Until a new thread of CPython 3.11 runs, it has the id of the thread that started it, and no frames.
        once: dict[int, int] = {}
        for tid, stack in stacks:
            if once.get(tid, NO_STACK) in (NO_STACK, UNKNOWN):
                once[tid] = stack
        for tid, stack in once.items():
            if stack != UNKNOWN:
                runs = self._threads.get((pid, tid))
                if runs is None:
                    runs = self._threads[pid, tid] = _Runs(first_look=number)
                time = self.start_ns + look * 1000
                runs.saw(stack, time)
                if tid in windows:
                    since, begun, ended = windows[tid]
                    place = begun // _WINDOW_STEP_NS
                    after, before = place - time // _WINDOW_STEP_NS, place - since // _WINDOW_STEP_NS
                    took = max(-(-ended // _WINDOW_STEP_NS) - place, 1)
                    if max(abs(after), before, took) <= _MOST_STEPS:  # a machine that stood still saw nothing
                        runs.within(number, after, before, took)

    def lacks(self, pid: int, tid: int) -> bool:
        """Whether looks at a process did not see a thread."""
        return pid in self._looks and (pid, tid) not in self._threads

    def to_json(self, end_ns: int) -> dict[str, Any]:
        """The segment as it is stored; see read/python/stacks.py."""
        timed = self._most_seen()
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
                    **({"windows": [column.tolist() for column in runs.windows]} if (pid, tid) in timed else {}),
                }
                for (pid, tid), runs in self._threads.items()
            ],
            "looks": {str(pid): _differences([0, *looks]) for pid, looks in self._looks.items()},
            "lags": {str(pid): lags for pid, lags in self._lags.items()},
            "unnamed_threads": 0,
        }

    def _most_seen(self) -> set[tuple[int, int]]:
        """The threads whose windows are kept."""
        kept: set[tuple[int, int]] = set()
        for pid in self._looks:
            mine = [thread for thread, runs in self._threads.items() if thread[0] == pid and runs.windows[0]]
            mine.sort(key=lambda thread: -len(self._threads[thread].stack))
            kept.update(mine[:_MOST_WINDOWS])
        return kept

    def save(self, path: Path, end_ns: int) -> None:
        """Add it to the file as a gzip member of its own."""
        text = json.dumps(self.to_json(end_ns), separators=(",", ":")).encode() + b"\n"
        with os.fdopen(files.append(path), "ab") as stream:
            stream.write(gzip.compress(text, 6, mtime=0))


def _differences(values: list[int]) -> list[int]:
    return [value - before for before, value in pairwise(values)]
