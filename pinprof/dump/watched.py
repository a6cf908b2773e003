"""One process while it is looked at."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import field

from pinprof.base.errors import ToolMissing
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.redaction import redacted
from pinprof.collect.proc import contents, parent, threads
from pinprof.collect.python_frames import layout
from pinprof.collect.python_frames.interpreter import Interpreter, SegmentTables
from pinprof.collect.python_frames.memory import Gone
from pinprof.dump import system
from pinprof.dump.seen import SeenStack
from pinprof.dump.system import ENDED, MappedPlace, ThreadLook
from pinprof.read.python.stacks import NO_STACK

MOST_THREADS = 2000
_BESIDE_NS = 2_000_000
"""Between a sample and a look at Python that go together."""


@dataclass
class WatchedProcess:
    """What is known of it so far."""

    pid: int
    parent: int
    command: tuple[str, ...]
    places: list[MappedPlace]
    interpreter: Interpreter | None
    first: dict[int, ThreadLook]
    """Its threads when it was looked at first, and …"""
    first_ns: int
    last: dict[int, ThreadLook] = field(default_factory=dict)
    """… last."""
    last_ns: int = 0
    standing: dict[int, SeenStack] = field(default_factory=dict)
    """Stacks of threads that have not run since then."""
    moments: dict[int, list[SeenStack]] = field(default_factory=dict)
    """Stacks while threads waited that may have run since."""
    python: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By thread (time, stack), ascending."""
    problems: tuple[str, ...] = ()
    """What of it is not seen, in sentences."""
    python_names: dict[int, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[int, str]:
        """The names of its threads."""
        return {tid: self.python_names.get(tid) or look.name for tid, look in (self.last or self.first).items()}

    def unsettled(self) -> list[int]:
        """The threads that are there now, without those that have not run since the first look."""
        return [tid for tid in threads(self.pid)[:MOST_THREADS] if tid not in self.standing]

    def stood(self, look: ThreadLook, stack: SeenStack) -> None:
        """A thread was seen to wait."""
        if look.tid in self.first and look.stands_as(self.first[look.tid]):
            self.standing[look.tid] = stack
        else:
            self.moments.setdefault(look.tid, []).append(stack)

    def end(self) -> None:
        """A last look; those stand that have not run since they were seen to wait."""
        now = ((tid, system.look(self.pid, tid)) for tid in threads(self.pid)[:MOST_THREADS])
        self.last = {tid: look for tid, look in now if look}
        self.last_ns = time.monotonic_ns()
        for tid, stack in self.standing.items():
            self.moments.setdefault(tid, []).append(stack)
        seen = {tid: self.moments[tid][-1] for tid in self.last if tid in self.moments}
        self.standing = {
            tid: stack for tid, stack in seen.items() if stack.look and self.last[tid].stands_as(stack.look)
        }

    def look_at_python(self, tables: SegmentTables) -> None:
        """Note the Python stack of each thread that has one now."""
        if self.interpreter is None:
            return
        try:
            look = self.interpreter.look(tables)
            self.python_names |= self.interpreter.names()
        except Gone:
            self.interpreter = None
            return
        for tid, stack in look.stacks:
            if stack >= 0:
                self.python.setdefault(tid, []).append((look.seen_ns, stack))

    def python_at(self, tid: int, time_ns: int) -> tuple[int, int]:
        """The Python stacks that a thread was seen in before a time and after it; twice that of a look just then."""
        looks = self.python.get(tid, [])
        place = bisect_left(looks, (time_ns, 0))
        beside = [*looks[max(place - 1, 0) : place], *looks[place : place + 1]]
        near = [stack for seen_ns, stack in beside if abs(seen_ns - time_ns) < _BESIDE_NS]
        if near or len(beside) < 2:
            return (near[0], near[0]) if near else (NO_STACK, NO_STACK)
        return beside[0][1], beside[1][1]

    def per_s(self, tid: int, count: str) -> float:
        """How much a count of a thread grew in a second of the time that it was watched; 0 of a new thread."""
        before, now = self.first.get(tid), self.last[tid]
        grown = getattr(now, count) - getattr(before, count) if before else 0
        return float(grown / max(self.last_ns - self.first_ns, 1) * 1e9)


def begin(pid: int) -> WatchedProcess | None:
    """A first look at a process; None where it has ended."""
    present = threads(pid)
    first = {tid: look for tid in present[:MOST_THREADS] if (look := system.look(pid, tid))}
    if not first or all(look.state in ENDED for look in first.values()):
        return None
    problems = []
    if len(present) > MOST_THREADS:
        problems.append(f"{len(present) - MOST_THREADS} of {len(present)} threads of process {pid} are left out.")
    interpreter = None
    try:
        found = layout.of_process(pid)
        interpreter = Interpreter(pid, *found) if found else None
        if not found and (name := layout.interpreter_name(pid)):
            problems.append(f"There are no Python lines for {name}: pinprof reads CPython 3.11 to 3.15.")
    except Gone:
        pass  # the memory may not be read, which is said once of all
    except ToolMissing as error:
        problems.append(str(error))
    words = contents(f"/proc/{pid}/cmdline").decode("utf-8", "replace").split("\0")[:-1]
    return WatchedProcess(
        pid,
        max(parent(pid), 0),
        redacted(words),
        system.mapped(pid),
        interpreter,
        first,
        time.monotonic_ns(),
        problems=tuple(problems),
    )
