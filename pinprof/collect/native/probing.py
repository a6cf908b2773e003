"""The probes of a recording while it runs: their anchors, what they cost, and what becomes of a kind over budget.

A probed function traps wherever an event on it is open in a process, enabled or not: two to four microseconds a call
that nothing records. So a kind that is given up is closed. The last event on a tracepoint takes the kernel a tenth of a
second to close; an anchor, an event of this process that is never switched on, keeps the tracepoints registered, and
the program's events come and go in milliseconds. Everything is closed here, before the definitions are removed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.native import events as ev
from pinprof.collect.native import existing, perf_event
from pinprof.collect.native.budget import Prices, TracingBudget, TracingLevel, untraced_rate
from pinprof.collect.native.call_cost import EmptyFunction
from pinprof.collect.native.opened import Opened
from pinprof.collect.native.opening import Opening
from pinprof.collect.native.tasks import Tasks
from pinprof.collect.native.tracefs import Tracepoints
from pinprof.data import perf_format as perf

_OFTEN_NS, _SELDOM_NS = 2_000_000, 400_000_000
"""Between two looks at the rates: while records come fast, and at most."""
_FAST_BYTES = 32 << 10
"""Records come fast when this many have come since the last look."""
_LOOK_SHARE = 5
"""A look may take a fifth of the time between two: a rarer one lets the program pay for traced calls for longer."""
_WINDOW_S = 0.001
"""In which calls are counted that are not traced; the kernel takes ten times as long to open and to close it."""
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 250_000_000, 1_000_000_000
"""Between two windows in which the calls of a kind that is given up are counted: each twice as long, up to this."""
_ANCHORED_AFTER_NS = 50_000_000
"""Programs that end sooner have no anchors: these take the kernel time again when they are closed."""
_NEVER_NS = 1 << 62
_MOST_THREADS = 1024
"""Threads that are counted in a window, one event each."""
_MOST_REOPENED = 16384
"""Events that are opened for a kind to come back; a program of more threads on more CPUs does without."""


@dataclass
class Episode:
    """A time in which a kind was recorded with less."""

    kind: str
    level: TracingLevel
    from_ns: int
    to_ns: int = 0
    calls: int = 0
    """Recorded without a stack; nobody counts those that are not recorded."""

    def facts(self) -> dict[str, Any]:
        """For the manifest."""
        times = {"from_ns": self.from_ns, "to_ns": self.to_ns}
        if self.level == TracingLevel.BARE:
            return {"kind": self.kind, "without": "stacks", **times, "calls": self.calls}
        return {"kind": self.kind, "without": "calls", **times}


@dataclass
class _Kind:
    """One kind of functions: the places of its three events, and what is noted of it."""

    enter: int
    bare: int
    leave: int
    point: int
    episode: Episode | None = None
    counted: int = 0
    """The count of the event that shows the calls, at the last look."""
    window_ns: int = 0
    """When to count next."""
    pause_ns: int = _FIRST_PAUSE_NS

    @property
    def events(self) -> tuple[int, int, int]:
        """All of them."""
        return self.enter, self.bare, self.leave


class Probes:
    """What governs the events of calls."""

    def __init__(
        self,
        points: Mapping[str, Tracepoints],
        pid: int,
        percent: float,
        empty: EmptyFunction | None,
        beside: tuple[str, str] = ("", ""),
        files: Sequence[str] = (),
    ) -> None:
        """`empty`: what a call's price is measured with. OSError when the kernel lets no event be opened.

        `files`: those with the functions, where calls are to be traced once one of them is opened; else from `govern`.
        `beside`: the folder in which another recorder writes, once it sees the calls of a kind as well, and that kind.
        """
        self._points, self._pid, self._percent, self._empty = points, pid, percent, empty
        self._beside = beside
        self._anchors: list[int] = []
        self._kinds: dict[str, _Kind] = {}
        self._episodes: list[Episode] = []
        self._overhead: dict[str, int] | None = None
        self._pending = 0
        self._calls = dict.fromkeys(TracingLevel, 0)
        """By level, those counted in windows included."""
        self._looked_ns, self._least_ns = 0, _OFTEN_NS
        self._prices, self._priced = Prices(), False
        self.files = files
        """Those with the functions, where calls are traced once one of them is opened."""
        self.opening: Opening | None = None
        """Holds whoever opens these files."""
        self._anchor_at_ns = 0
        """When anchors are due, while the files are watched."""
        self.begun = not files
        """Events on the functions are open, or were."""
        if self.begun:
            self._anchor()

    @property
    def later(self) -> Collection[str]:
        """The names of events that are opened by `begin`, or for a kind that loses its stacks: each is one on every
        processor, for which a thread that the program starts takes the kernel ten microseconds more.
        """
        return frozenset(spec.name for spec in ev.call_events(self._points) if self.files or spec.held_back)

    def _anchor(self) -> None:
        if self._anchors:
            return
        try:
            for point in self._tracepoints():
                spec = ev.counter(point)
                attr = spec.having(flags=spec.attr.flags | perf_event.DISABLED).attr
                self._anchors.append(perf_event.open_event(attr, os.getpid(), -1))
        except OSError:
            self._let_anchors_go()
            raise

    def govern(self, opened: Opened, recognise: Callable[[int, Sequence[int]], None]) -> None:
        """Take charge of the opened events; `recognise` gets each that is opened again, and its new ids."""
        self._opened, self._recognise = opened, recognise
        places = {spec.name: place for place, spec in enumerate(opened.specs)}
        for kind, points in self._points.items():
            enter, bare, leave = (
                places[f"{name}/{kind}"] for name in (ev.CALL_ENTER, ev.CALL_ENTER_BARE, ev.CALL_LEAVE)
            )
            self._kinds[kind] = _Kind(enter, bare, leave, points.enter)
        if self.begun:
            self._start()

    def watch(self) -> Opening | None:
        """From now on whoever opens one of the files waits for `begin`; None where that cannot be, or need not."""
        if self.files and not self.begun:
            with contextlib.suppress(OSError):
                self.opening = Opening(self.files)
                self._anchor_at_ns = time.monotonic_ns() + _ANCHORED_AFTER_NS
        return self.opening

    def begin(self, tasks: Tasks) -> str:
        """Open the events for all that the program consists of; why not, if not.

        Who opens a file waits until its own are open. The other threads' come right after that: they are many where a
        library has a pool, two events for each kind and processor, and CUDA is not initialised so soon.
        """
        self.begun = True
        try:
            self._anchor()
            events = [event for kind in self._kinds.values() for event in (kind.enter, kind.leave)]
            begun = _Begun(self._opened, self._recognise, events)
            waiting = self.opening.waiting() if self.opening else ()
            threads = tasks.alive()
            ahead = [thread for thread in threads if thread in waiting]
            with self._unmapped(ahead):
                begun.trace(ahead or threads)
            self._start()
            self.let_open()
            if ahead and len(threads) > len(ahead):
                begun.trace([thread for thread in threads if thread not in waiting])
            begun.complete(tasks.since())
        except (OSError, MemoryError) as error:
            self._opened.let_go([event for kind in self._kinds.values() for event in kind.events])
            self._kinds.clear()
            # The program has ended, and somebody else opened a file.
            ended = isinstance(error, ProcessLookupError)
            return "" if ended else str(getattr(error, "strerror", None) or error)
        finally:
            self.let_open()
        return ""

    @contextlib.contextmanager
    def _unmapped(self, threads: Sequence[int]) -> Iterator[None]:
        """While events are opened for threads whose processes have none of the files mapped.

        When a process gets its first event, the kernel looks for the functions in its memory, and waits for all
        processors to do so; not if that event is one that an exec switches on (trace_uprobe_filter_add,
        kernel/trace/trace_uprobe.c).
        """
        with contextlib.ExitStack() as opened:
            for point in self._tracepoints() if threads else ():
                spec = ev.counter(point)
                flags = spec.attr.flags | perf_event.DISABLED | perf_event.ENABLE_ON_EXEC
                for thread in threads:
                    opened.callback(os.close, perf_event.open_event(spec.having(flags=flags).attr, thread, -1))
            yield

    def let_open(self) -> None:
        """Nobody waits to open the files any more."""
        if self.opening:
            self.opening.close()

    def _start(self) -> None:
        self._looked_ns = time.monotonic_ns()
        self._budget = TracingBudget(self._percent, self._prices, dict.fromkeys(self._kinds, False), self._looked_ns)

    def look(self, written: int) -> None:
        """While these bytes of records wait: see what calls cost, and give up or take back what the budget says."""
        if not self._working:
            if self.opening and not self.begun and time.monotonic_ns() >= self._anchor_at_ns:
                self._anchor_at_ns = _NEVER_NS
                with contextlib.suppress(OSError):  # `begin` tries again, and says why not
                    self._anchor()
            return
        self._pending += written
        now = time.monotonic_ns()
        passed = now - self._looked_ns
        fast = self._pending >= _FAST_BYTES and passed >= self._least_ns
        if fast or passed >= _SELDOM_NS:
            self._look(now)
        given_up = {
            name: kind for name, kind in self._kinds.items() if self._budget.level(name) == TracingLevel.COUNTED
        }
        for name, kind in given_up.items():
            if now >= kind.window_ns:
                self._window(name, kind)

    def wait_ms(self, longest: int) -> int:
        """How long nothing has to be done here, in milliseconds, `longest` at most."""
        if self.opening and not (self.begun or self._anchors):
            return min(max((self._anchor_at_ns - time.monotonic_ns()) // 1_000_000 + 1, 0), longest)
        if not self._working:
            return longest
        given_up = [kind for name, kind in self._kinds.items() if self._budget.level(name) == TracingLevel.COUNTED]
        if not given_up:
            return longest
        due = min(kind.window_ns for kind in given_up) - time.monotonic_ns()
        return min(max(due // 1_000_000 + 1, 0), longest)

    def finish(self) -> dict[str, Any]:
        """What there is to say, once the events are off."""
        now = time.monotonic_ns()
        if self._working:
            self._look(now, change=False)
            self._measure()
        for kind in self._kinds.values():
            self._end_episode(kind, now)
        said: dict[str, Any] = {
            "probes": {
                "budget_percent": self._percent,
                "cost_ns": sum(calls * self._price(level) for level, calls in self._calls.items()),
                "price_ns": {"full": self._prices.full, "bare": self._prices.bare},
                "given_up": [episode.facts() for episode in self._episodes],
            }
        }
        if self._overhead and self._calls[TracingLevel.FULL] + self._calls[TracingLevel.BARE]:
            said["call_overhead_ns"] = self._overhead
        return said

    @property
    def _working(self) -> bool:
        """Events are governed by now."""
        return self.begun and bool(self._kinds)

    def close(self) -> None:
        """Let go of the anchors, last of all events."""
        self.let_open()
        self._let_anchors_go()

    def _tracepoints(self) -> list[int]:
        return [each for pair in self._points.values() for each in (pair.enter, pair.leave)]

    def _let_anchors_go(self) -> None:
        while self._anchors:
            os.close(self._anchors.pop())

    def _measure(self) -> None:
        """Once: what a call costs here; the usual price stays where that cannot be measured.

        Meanwhile the program can start no thread and no process, for a twentieth of a second unless the kernel has just
        waited for all processors: so it is done when a kind has been given up, or when the program has ended.
        """
        if self._priced or self._empty is None or self._empty.site.kind not in self._kinds:
            return
        self._priced = True
        kind, specs = self._kinds[self._empty.site.kind], self._opened.specs
        try:
            full, bare = (self._empty.overhead([specs[enter], specs[kind.leave]]) for enter in (kind.enter, kind.bare))
        except OSError:
            return
        if full and bare:
            self._overhead = full
            self._prices = Prices(max(full["around"], 1), max(min(bare["around"], full["around"]), 1))
            self._budget.prices = self._prices

    def _price(self, level: TracingLevel) -> int:
        # Counted, a call is entered through one trap instead of two, and nothing is written.
        return self._prices.bare // 2 if level == TracingLevel.COUNTED else self._prices.of(level)

    def _look(self, now: int, *, change: bool = True) -> None:
        self._looked_ns, self._pending = now, 0
        calls = {}
        for name, kind in self._kinds.items():
            level = self._budget.level(name)
            if level == TracingLevel.COUNTED:
                continue
            total = self._total(kind, level)
            calls[name], kind.counted = total - kind.counted, total
            self._calls[level] += calls[name]
            if kind.episode:
                kind.episode.calls += calls[name]
        if change:
            folder, kind_beside = self._beside
            if kind_beside in self._kinds and _holds_something(folder):
                self._budget.seen_twice(kind_beside)
            for name, level in self._budget.looked(now, calls).items():
                self._set(name, level)
        self._least_ns = max(_OFTEN_NS, _LOOK_SHARE * (time.monotonic_ns() - now))

    def _total(self, kind: _Kind, level: TracingLevel) -> int:
        event = kind.enter if level == TracingLevel.FULL else kind.bare
        return sum(perf_event.count(file) for file in self._opened.files[event])

    def _set(self, name: str, level: TracingLevel) -> None:
        """Record a kind so from now on."""
        kind, opened, now = self._kinds[name], self._opened, time.monotonic_ns()
        if level == TracingLevel.COUNTED:
            self._end_episode(kind, now)
            for file in (file for event in kind.events for file in opened.files[event]):
                perf_event.disable(file)
            opened.let_go(kind.events)
            self._measure()
            kind.pause_ns, kind.window_ns = _FIRST_PAUSE_NS, now + _FIRST_PAUSE_NS
            self._begin_episode(name, kind, level, now)
            return
        on, off = (kind.enter, kind.bare) if level == TracingLevel.FULL else (kind.bare, kind.enter)
        wanted = (on, kind.leave)
        if not self._reopen([event for event in wanted if not opened.files[event]]):
            self._budget.stays_given_up(name)
            if opened.files[off]:
                self._set(name, TracingLevel.COUNTED)
            return
        for change, events in ((perf_event.disable, (off,)), (perf_event.enable, wanted)):
            for file in (file for event in events for file in opened.files[event]):
                change(file)
        now = time.monotonic_ns()
        self._end_episode(kind, now)
        kind.counted = self._total(kind, level)
        if level == TracingLevel.BARE:
            self._begin_episode(name, kind, level, now)

    def _reopen(self, events: Sequence[int]) -> bool:
        """Open events for all threads that the program has by now; whether that could be."""
        targets = existing.family(self._pid)
        if not targets or len(targets) * len(self._opened.cpus) * len(events) > _MOST_REOPENED:
            return not events
        try:
            for event in events:
                self._recognise(event, self._opened.reopen(event, targets))
        except (OSError, MemoryError):
            self._opened.let_go(events)
            return False
        return True

    def _begin_episode(self, name: str, kind: _Kind, level: TracingLevel, now: int) -> None:
        kind.episode = Episode(name, level, now)
        self._episodes.append(kind.episode)

    def _end_episode(self, kind: _Kind, now: int) -> None:
        if kind.episode:
            kind.episode.to_ns, kind.episode = now, None

    def _window(self, name: str, kind: _Kind) -> None:
        """Count a kind's calls for a moment, without records."""
        spec = ev.counter(kind.point)
        attr = spec.having(flags=spec.attr.flags | perf_event.DISABLED, read_format=perf.FORMAT_RUNNING).attr
        with contextlib.ExitStack() as opened:
            files: list[int] = []
            for thread in existing.family(self._pid)[:_MOST_THREADS]:
                with contextlib.suppress(OSError):  # it has ended just now
                    files.append(perf_event.open_event(attr, thread, -1))
                    opened.callback(os.close, files[-1])
            begun = time.monotonic_ns()
            for file in files:
                perf_event.enable(file)
            if files:
                time.sleep(_WINDOW_S)
            counts = [perf_event.count_and_time(file) for file in files]
        now = time.monotonic_ns()
        count, ran_ns = (sum(values) for values in zip((0, 0), *counts, strict=True))
        self._calls[TracingLevel.COUNTED] += count
        # Of the program's CPU time; a program that waits calls less in a second.
        rate = untraced_rate(count, ran_ns, self._price(TracingLevel.COUNTED)) * ran_ns / max(now - begun, 1)
        kind.window_ns = now + kind.pause_ns
        kind.pause_ns = min(2 * kind.pause_ns, _LONGEST_PAUSE_NS)
        self._budget.counted(name, rate)


class _Begun:
    """The events of the program's threads while they are opened, one event after another."""

    def __init__(self, opened: Opened, recognise: Callable[[int, Sequence[int]], None], events: Sequence[int]) -> None:
        self._opened, self._recognise = opened, recognise
        self._since: dict[int, dict[int, int]] = {event: {} for event in events}
        """Event → thread → when it had it."""

    def trace(self, threads: Sequence[int]) -> None:
        """Open all of them for these."""
        for event, since in self._since.items():
            self._recognise(event, self._opened.also(event, threads))
            since.update(dict.fromkeys(threads, time.monotonic_ns()))

    def complete(self, started: Iterable[tuple[int, int, int]]) -> None:
        """Threads that were started meanwhile, by whom and when: they have inherited what that one had by then."""
        for thread, parent, started_ns in started:
            for event, since in self._since.items():
                since[thread] = started_ns
                if since.get(parent, started_ns) >= started_ns:
                    with contextlib.suppress(ProcessLookupError):
                        self._recognise(event, self._opened.also(event, [thread]))
                    since[thread] = time.monotonic_ns()


def _holds_something(folder: str) -> bool:
    """Whether a file in it has been written to."""
    with contextlib.suppress(OSError):
        return any(entry.stat().st_size > 0 for entry in os.scandir(folder))
    return False
