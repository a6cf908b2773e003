"""CPU profiles of V8, as files (`cpuprofile`) and as events of a trace hold them.

A profile is a call tree, the node that ran at each sample, and the times between samples in microseconds. A sample
stands for the time until the next one, whether the thread ran or waited: V8 looks by a wall clock. Time that it calls
`(idle)` is left out. Profiles without times count samples.

Source: the Chrome DevTools Protocol, type Profiler.Profile; before 2016 the tree was nested (`head`) and times were
`timestamps`. In traces: `Profile` begins one, `ProfileChunk` goes on with it, `CpuProfile` has a whole one.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns
from pinprof.data.model import LONGEST_NAME, NO_NODE, USER, Dso, Event, Int64
from pinprof.read.assembly import MAX_DEPTH, UNRECORDED, SampleColumns, StackBuilder
from pinprof.read.formats.json_source import items

EVENTS = ("Profile", "ProfileChunk", "CpuProfile")
"""The names of a trace's events that hold profiles."""
TIMED = Event("JavaScript", "ns", None, None, elsewhere=True)
ANY_TIMED = Event("time", "ns", None, None, elsewhere=True)
"""Of other samples of a trace."""
COUNTED = Event("samples", "samples", None, None, merged=True)

_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{0,20})?")
_MAX_US = (1 << 61) // 1000
_NOT_FUNCTIONS = frozenset({"(root)", "(idle)"})
_ANOTHER = 1 << 61
"""From here on, numbers of nodes whose own another node has."""
_NAME = 4 * LONGEST_NAME


@dataclass
class Profile:
    """One profile of a thread, as far as it was given."""

    pid: int = 0
    tid: int = 0
    start_us: int = 0
    end_us: int = 0
    function: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By node: the function's name, with the file and line where it begins, and its script."""
    callers: dict[int, int] = field(default_factory=dict)
    samples: array[int] = field(default_factory=lambda: array("q"))
    deltas: array[int] = field(default_factory=lambda: array("q"))
    hits: dict[int, int] = field(default_factory=dict)
    broken: int = 0

    def add(self, profile: Mapping[str, Any], deltas: object) -> None:
        """Go on with a tree's further nodes, samples, and the times between them."""
        for node in items(profile.get("nodes")):
            self._node(node)
        self.samples.extend(map(_whole, items(profile.get("samples"))))
        self.deltas.extend(map(whole_us, items(deltas)))
        self.start_us = self.start_us or whole_us(profile.get("startTime"))
        self.end_us = whole_us(profile.get("endTime")) or self.end_us

    def _node(self, node: object) -> int:
        """Take in a node, and whom it calls; its number, -1 where it has none."""
        number = _whole(node.get("id")) if isinstance(node, dict) else -1
        if not isinstance(node, dict) or number < 0:
            self.broken += 1
            return -1
        frame = node.get("callFrame")
        frame = frame if isinstance(frame, dict) else node
        self.function[number] = _named(frame)
        self.hits[number] = max(_whole(node.get("hitCount")), 0)
        if "parent" in node:
            self.callers[number] = _whole(node["parent"])
        self.callers.update((called, number) for called in map(_whole, items(node.get("children"))) if called >= 0)
        return number

    def nest(self, head: object) -> None:
        """Take in the tree of an old profile, whose nodes hold those they call; their own numbers may repeat."""
        waiting: list[tuple[object, int]] = [(head, -1)]
        while waiting:
            node, caller = waiting.pop()
            if not isinstance(node, dict):
                self.broken += 1
                continue
            children = items(node.get("children"))
            if _whole(node.get("id")) in self.function:
                node = {**node, "id": _ANOTHER + len(self.function)}
            number = self._node({**node, "children": []})
            if number >= 0 and caller >= 0:
                self.callers[number] = caller
            waiting.extend((child, number) for child in children)

    def stacks(self, builder: StackBuilder) -> dict[int, int]:
        """By node its stack, where its callers lead to a root; the tree is walked a level at a time."""
        below = defaultdict(list)
        for number in self.function:
            below[self._caller(number)].append(number)
        place: dict[int, int] = {-1: NO_NODE}
        level, depth = below.pop(-1, []), 0
        while level:
            frames = [self._frame(number, builder) for number in level]
            parents = [place[self._caller(number)] for number in level]
            made = builder.children(np.array(parents, np.int32), np.array(frames, np.uint64)).tolist()
            for number, node, parent in zip(level, made, parents, strict=True):
                # The root of a tree is no function; calls beyond the depth that is kept stay with their caller.
                place[number] = parent if self.function[number][0] == "(root)" or depth > MAX_DEPTH else node
            builder.cut_chains += len(level) if depth > MAX_DEPTH else 0
            level = [called for number in level for called in below.pop(number, ())]
            depth += 1
        del place[-1]
        return place

    def _caller(self, number: int) -> int:
        """Who calls a node; -1 for a root."""
        caller = self.callers.get(number, -1)
        return caller if caller in self.function else -1

    def _frame(self, number: int, builder: StackBuilder) -> int:
        name, url = self.function[number]
        return builder.frame(name, Dso(url, "", "file") if url else UNRECORDED, USER)

    def times_us(self) -> Int64:
        """When the samples were taken, as far as both are given."""
        count = min(len(self.samples), len(self.deltas))
        deltas = np.array(self.deltas[:count], np.int64)
        reach = np.abs(self.start_us + np.cumsum(deltas.astype(np.float64))).max(initial=0)
        # Times beyond all bounds are forged.
        return self.start_us + np.cumsum(deltas) if reach < _MAX_US else np.zeros(0, np.int64)


_V8 = "V8 samples JavaScript by a wall clock: a function's time may include waits, and nothing shows the kernel."
_TRACE = "A sample of the trace stands for the time until its thread's next one, which may include waits."


@dataclass
class Profiles:
    """The profiles of one recording."""

    by_id: dict[object, Profile] = field(default_factory=dict)
    """Those of a trace by process and id."""
    event: Event = TIMED
    meaning: str = _V8
    """A sentence about what is sampled."""

    @classmethod
    def of_samples(cls, samples: object, frames: object) -> Self:
        """The `samples` of a trace, and its `stackFrames`, each of which names its caller.

        Source: "Trace Event Format" (Google, 2016), Global Samples.
        """
        named = {str(name): frame for name, frame in frames.items()} if isinstance(frames, dict) else {}
        numbers = {name: number for number, name in enumerate(named)}
        tree = Profile()
        for name, frame in named.items():
            given = frame if isinstance(frame, dict) else {}
            tree.function[numbers[name]] = (str(given.get("name") or "(anonymous)")[:_NAME], "")
            tree.callers[numbers[name]] = numbers.get(str(given.get("parent")), -1)
        taken: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for sample in filter(lambda one: isinstance(one, dict), items(samples)):
            taken[thread_of(sample)].append((_decimal_us(sample.get("ts")), numbers.get(str(sample.get("sf")), -1)))
        profiles = cls({}, ANY_TIMED, _TRACE)
        for (pid, tid), rows in taken.items():
            rows.sort()
            times = [time for time, _ in rows]
            profile = replace(tree, pid=pid, tid=tid, start_us=times[0])
            profile.samples, profile.deltas = array("q", [number for _, number in rows]), array("q")
            profile.deltas.extend(at - before for before, at in pairwise([times[0], *times]))
            profiles.by_id[pid, tid] = profile
        return profiles

    def __bool__(self) -> bool:
        return bool(self.by_id)

    def take(self, event: Mapping[str, Any], pid: int, tid: int) -> None:
        """One of a trace's `EVENTS`."""
        arguments = event.get("args")
        data = arguments.get("data") if isinstance(arguments, dict) else None
        if not isinstance(data, dict):
            return
        whole = event.get("name") == "CpuProfile"
        key = (pid, tid if whole else str(event.get("id")))
        known = key in self.by_id
        profile = self.by_id.setdefault(key, Profile(pid, tid))
        if event.get("name") == "Profile" and not known:
            profile.start_us = whole_us(data.get("startTime"))
            return
        # Chunks come from the thread that samples; only the beginning names the thread that it looks at.
        part = data.get("cpuProfile")
        part = part if isinstance(part, dict) else {}
        profile.end_us = whole_us(data.get("endTime")) or profile.end_us
        profile.add(part, data.get("timeDeltas", part.get("timeDeltas")))

    def threads(self) -> set[tuple[int, int]]:
        """(pid, tid) of those that were sampled."""
        return {(profile.pid, profile.tid) for profile in self.by_id.values()}

    def fill(self, columns: SampleColumns, builder: StackBuilder, base_ns: int = 0) -> tuple[str, ...]:
        """Append samples with their times; what to say of them."""
        idle = broken = 0
        for profile in self.by_id.values():
            place = profile.stacks(builder)
            times = profile.times_us() * 1000
            order = np.argsort(times, kind="stable")
            ordered = times[order]
            lengths = _lengths(ordered, profile.end_us * 1000)
            broken += profile.broken + abs(len(profile.samples) - len(times))
            for row, at, length in zip(order.tolist(), ordered.tolist(), lengths.tolist(), strict=True):
                number = profile.samples[row]
                if profile.function.get(number, ("",))[0] in _NOT_FUNCTIONS:
                    idle += length
                elif number not in place:
                    broken += 1
                else:
                    _append(columns, place[number], length, profile, base_ns + at)
        return (self.meaning, *_notes(idle, broken))

    def counted(self, columns: SampleColumns, builder: StackBuilder) -> tuple[str, ...]:
        """Append how many samples each function has, for there are no times; what to say of them."""
        broken = 0
        for profile in self.by_id.values():
            place, hits = profile.stacks(builder), dict(profile.hits)
            broken += profile.broken
            if not any(hits.values()):
                for number in profile.samples:
                    hits[number] = hits.get(number, 0) + 1
            for number, count in hits.items():
                if number in place and count and profile.function[number][0] not in _NOT_FUNCTIONS:
                    _append(columns, place[number], count, profile, 0)
        return (self.meaning, *_notes(0, broken))


def _lengths(times: Int64, end: int) -> Int64:
    """Until the next sample, and of the last one until the end, but no longer than another one's."""
    between = np.diff(times)
    last = min(max(end - int(times[-1]), 0), int(between.max(initial=0))) if len(times) else 0
    return np.append(between, last)[: len(times)]


def _append(columns: SampleColumns, node: int, weight: int, profile: Profile, time_ns: int) -> None:
    columns.stack.append(node)
    columns.weight.append(weight)
    columns.event.append(0)
    columns.pid.append(profile.pid)
    columns.tid.append(profile.tid)
    columns.time_ns.append(time_ns)


def _notes(idle_ns: int, broken: int) -> Iterator[str]:
    if idle_ns:
        yield f"The JavaScript threads were idle for {format_ns(idle_ns)}, which is left out."
    if broken:
        yield f"{broken} nodes or samples of profiles are damaged or refer to nothing; left out."


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else -1


def small(value: Any) -> int:
    """A process, thread, device or stream number, also from `"456"` and `"stream 7"`; -1 for anything else."""
    if isinstance(value, str):
        text = value.removeprefix("stream ").strip()
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    return value if isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 31 else -1


def thread_of(event: Mapping[str, Any]) -> tuple[int, int]:
    """The process and thread of an event of a trace."""
    return small(event.get("pid")), small(event.get("tid"))


def _decimal_us(value: object) -> int:
    """`whole_us`, also of a time that is written as text."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = float(value)
    return whole_us(value)


def whole_us(value: object) -> int:
    """Whole microseconds; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_MAX_US <= value <= _MAX_US:
        return 0
    return round(value)


def _named(frame: Mapping[str, Any]) -> tuple[str, str]:
    """A function's name, as `step (app.js:12)`, and its script; V8 counts lines from 0, and has -1 for none."""
    name, url = str(frame.get("functionName") or "(anonymous)")[:_NAME], frame.get("url")
    if not isinstance(url, str) or not url:
        return name, ""
    url, line = url[:_NAME], _whole(frame.get("lineNumber"))
    file = url.rpartition("/")[2] or url
    return f"{name} ({file}:{line + 1})" if line >= 0 else f"{name} ({file})", url
