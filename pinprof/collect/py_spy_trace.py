"""py-spy's Chrome trace → a segment of the capture's Python stacks; standard library only.

py-spy notes a thread's stack when it differs from the one seen before: `E` (end) events for the frames that went, then
`B` (begin) events for those that came. It remembers stacks by the thread's pthread address, which forked processes
share; they then take turns at one address. So the events are replayed by address, and the frames themselves say whose
stack it is (options --subprocesses, --threads):

    process 4711:"python train.py"     dropped: it holds the command line
    thread (4713): Thread-1 (pin)      the kernel's thread id from CPython 3.11 on, before that a pthread address

Before 3.11 the main thread is known by its name, or as the only one: a program that starts none has no names either.
A change happened somewhere between two samples, and is put in the middle. Source: py-spy 0.4.3, src/chrometrace.rs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from pinprof.base.lazy_dataclass import dataclass

NO_STACK = -1
SILENT_PERIODS = 4
"""A thread whose address others use is noted with every sample; it is gone when it was not for so long."""

_THREAD = re.compile(r"thread \((?:0[xX][0-9a-fA-F]+|(\d+))\)(?:: (.*))?", re.DOTALL)
_MAIN = "MainThread"

Event = dict[str, Any]


@dataclass
class _Thread:
    """One thread's stacks: `stacks[i]` from `times[i]` on, in ns after the trace's start."""

    name: str = ""
    stale: str = ""
    """The name of the thread that had its address before: py-spy goes on to say it for a while."""
    times: list[int] = field(default_factory=list)
    stacks: list[int] = field(default_factory=list)
    left_at: int = -1
    """When another thread took its place at the address; -1 while it has it."""

    def saw(self, time_ns: int, stack: int, period_ns: int) -> None:
        if 0 <= self.left_at < time_ns - SILENT_PERIODS * period_ns:
            self._turn(self.left_at + period_ns, NO_STACK)
        self.left_at = -1
        self._turn(time_ns - period_ns // 2, stack)

    def end(self, time_ns: int, period_ns: int) -> None:
        self._turn(time_ns if self.left_at < 0 else self.left_at + period_ns, NO_STACK)

    def _turn(self, time_ns: int, stack: int) -> None:
        if not self.stacks or self.stacks[-1] != stack:
            self.times.append(max(time_ns, self.times[-1] + 1 if self.times else 0))
            self.stacks.append(stack)


@dataclass
class _Segment:
    period_ns: int
    frames: dict[tuple[str, str, int], int] = field(default_factory=dict)
    nodes: dict[tuple[int, int], int] = field(default_factory=dict)
    threads: dict[tuple[int, int], _Thread] = field(default_factory=dict)
    """(pid, tid) → thread; where the kernel's id is not known, its address with a minus."""
    named: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)
    """(process, address) → the last thread there, and what py-spy called it."""

    def node(self, frames: list[Event]) -> int:
        node = NO_STACK
        for event in frames:
            key = (event["name"], event["args"]["filename"], event["args"]["line"])
            node = self.nodes.setdefault((node, self.frames.setdefault(key, len(self.frames))), len(self.nodes))
        return node

    def note(self, stack: list[Event], time_ns: int) -> _Thread | None:
        """Take down the stack at one address; the thread that it belongs to."""
        root = next((place for place in range(len(stack) - 1, -1, -1) if _is_thread(stack[place])), None)
        if root is None:
            return None
        owner = stack[root]
        number, name = _THREAD.fullmatch(owner["name"]).groups()  # type: ignore[union-attr]  # _is_thread matched
        tid = int(number) if number is not None else owner["pid"] if name == _MAIN else -owner["tid"]
        key = (owner["pid"], tid)
        before, called = self.named.get((key[0], owner["tid"]), (tid, ""))
        thread = self.threads.setdefault(key, _Thread(stale=called if before != tid else ""))
        self.named[key[0], owner["tid"]] = tid, name or ""
        # Names are looked up by address now and then: a young thread has none at first, or that of the one before.
        if name != thread.stale:
            thread.name = name or thread.name
        thread.saw(time_ns, self.node(stack[root + 1 :]), self.period_ns)
        return thread

    def identify(self) -> int:
        """Leave out threads whose kernel id is not known, and return how many: a process's only one is the main one."""
        several = Counter(pid for pid, _ in self.threads)
        unknown = [(pid, tid) for pid, tid in self.threads if tid < 0]
        for pid, tid in unknown:
            thread = self.threads.pop((pid, tid))
            if several[pid] == 1:
                self.threads[pid, pid] = thread
        return sum(several[pid] > 1 for pid, _ in unknown)


def segment(text: str, start_ns: int, uncertainty_ns: int, period_ns: int, looks: int = 0) -> dict[str, Any]:
    """What one trace says, as a line of `python-stacks.jsonl.gz`; a text that was cut off counts as far as it goes.

    `start_ns` is where the trace's time begins on CLOCK_MONOTONIC. `looks` is how many stacks py-spy saw, if it said:
    where the machine was too busy for it, they were less than `period_ns` promises.
    """
    made = _Segment(period_ns)
    stacks: dict[int, list[Event]] = {}
    owners: dict[int, _Thread | None] = {}
    changed: dict[int, int] = {}
    begun: dict[int, bool] = {}
    last_ns = 0

    def note_change(address: int) -> None:
        time_ns, before = changed.pop(address), owners.get(address)
        owner = made.note(stacks[address], time_ns)
        if before is not None and owner is not before:
            before.left_at = time_ns
        owners[address] = owner

    for event in _events(text):
        address, last_ns = event["tid"], event["ts"] * 1000
        # A look writes its ends before its beginnings.
        if address in changed and (changed[address] != last_ns or (event["ph"] == "E" and begun.get(address))):
            note_change(address)
        begun[address] = event["ph"] == "B"
        stack = stacks.setdefault(address, [])
        if event["ph"] == "B":
            stack.append(event)
        elif stack:
            stack.pop()
        changed[address] = last_ns
    for address in list(changed):
        note_change(address)
    unnamed = made.identify()
    for thread in made.threads.values():
        thread.end(last_ns, period_ns)
    lived = sum(thread.times[-1] - thread.times[0] for thread in made.threads.values())
    return {
        "start_ns": start_ns,
        "end_ns": start_ns + last_ns,
        "uncertainty_ns": uncertainty_ns + max(period_ns, lived // looks if looks else 0) // 2,
        "frames": [list(frame) for frame in made.frames],
        "stacks": [list(node) for node in made.nodes],
        "threads": [
            {"pid": pid, "tid": tid, "name": thread.name, "times": _differences(thread.times), "stacks": thread.stacks}
            for (pid, tid), thread in made.threads.items()
        ],
        "unnamed_threads": unnamed,
    }


def _is_thread(event: Event) -> bool:
    return event["args"]["filename"] == "" and _THREAD.fullmatch(event["name"]) is not None


def _events(text: str) -> Iterator[Event]:
    """The events of the array, one at a time; stops at anything else."""
    decoder = json.JSONDecoder()
    place = text.find("{")
    while place >= 0:
        try:
            event, end = decoder.raw_decode(text, place)
        except ValueError:
            return
        if event.get("ph") in ("B", "E"):
            yield event
        place = text.find("{", end)


def _differences(values: list[int]) -> list[int]:
    return [value - before for before, value in zip([0, *values], values, strict=False)]
