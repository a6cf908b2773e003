"""The collector's own process: opens the events on every CPU, carries records from the rings to the file, and ends.

It takes its orders from a JSON file and commands from a FIFO (`ping`, `enable`, `disable`; control.py), answered on
another. It ends when it is sent a signal or when its standard input, which pinprof holds, is closed; then
it switches all events off, empties the rings and finishes the file. What it has to say goes to standard error, one
JSON object a line behind `pinprof-native: `.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from pinprof.base.files import written
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.native import existing, perf_event, unwinding
from pinprof.collect.native.batches import Batches
from pinprof.collect.native.bounded import Bounded
from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.opened import online_cpus, open_all
from pinprof.collect.native.perf_file import PerfFile, features, lost_samples, paused, trailer
from pinprof.collect.native.probing import Probes
from pinprof.collect.native.standing import LINGERS_NS, Standing
from pinprof.collect.native.switching import Switching
from pinprof.collect.native.tracefs import ProbeSite
from pinprof.collect.native.wakeups import Wakeups
from pinprof.collect.pace import NO_LIMITS, SizeLimits
from pinprof.streams.records import HEAD

SAID = "pinprof-native: "
_POLL_MS = 500
"""The longest that records stay in a ring: what a killed collector loses."""
_POLL_BLIND_MS = 50
"""The same once a ring's event has ended, which wakes nobody any more while others still write into the ring."""
_NICE = -10
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Orders:
    """What to record."""

    output: str
    events: tuple[EventSpec, ...]
    pid: int | None
    """The process to follow, with all it starts; None for every CPU."""
    ring_bytes: int
    control: tuple[str, str]
    """The FIFOs for commands and answers."""
    command: tuple[str, ...]
    """For the file: how this recording was asked for."""
    version: str
    probes: tuple[ProbeSite, ...] = ()
    """Functions whose calls are recorded."""
    probe_budget: float = 3.0
    """What tracing these calls may cost the program, in percent of its time."""
    children: bool = False
    """Record the processes as well that `pid` has started by now."""
    wakeups: bool = False
    """Record who wakes the program's threads, where the kernel allows."""
    unwinding: str = ""
    """The library that completes stacks; empty to leave them as the kernel gives them."""
    limits: SizeLimits = NO_LIMITS
    """How large the file may become."""

    def save(self, path: Path) -> None:
        """Write them where the collector will look."""
        written(path, json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Orders:
        """What `save` wrote."""
        raw: dict[str, Any] = json.loads(path.read_text("utf-8"))
        raw["events"] = tuple(EventSpec.from_json(entry) for entry in raw["events"])
        raw["probes"] = tuple(ProbeSite(**{**entry, "arguments": tuple(entry["arguments"])}) for entry in raw["probes"])
        for name in ("control", "command"):
            raw[name] = tuple(raw[name])
        raw["limits"] = SizeLimits(**raw["limits"])
        return cls(**raw)


class Sampler:
    """One recording, from opened events to the finished file."""

    def __init__(self, orders: Orders, wakeups: Wakeups | None = None) -> None:
        """`wakeups`: what governs the event of wake-ups, where there is one."""
        self._orders = orders
        self._wakeups = wakeups
        self._cpus = online_cpus()
        self._opened = open_all(
            orders.events,
            orders.pid,
            self._cpus,
            orders.ring_bytes,
            copies=bool(orders.unwinding),
            children=orders.children,
        )
        try:
            self._begin(orders)
        except BaseException:
            self._opened.close()
            raise

    def _begin(self, orders: Orders) -> None:
        """Everything behind the opened events; OSError when the file cannot be written."""
        events = [
            (spec, [perf_event.event_id(file) for file in files])
            for spec, files in zip(self._opened.specs, self._opened.files, strict=True)
        ]
        self._described = [(unwinding.as_written(spec), list(numbers)) for spec, numbers in events if spec.first]
        of_name = {spec.name: numbers for spec, numbers in self._described}
        for spec, numbers in events:
            if not spec.first:
                of_name[spec.name].extend(numbers)
        copied = any(spec.attr.sample_stack_user for spec in self._opened.specs)
        self._unwinder = unwinding.Unwinder(orders.unwinding, events) if copied else None
        deep, bare = (any(getattr(spec, kind) for spec in self._opened.specs) for kind in ("deep", "bare"))
        self._depth = unwinding.Depth(self._unwinder) if self._unwinder and deep else None
        self._switching = Switching(events[0][0].attr.period_or_freq) if self._unwinder and bare else None
        waits = next(((spec, ids[0]) for spec, ids in events if spec.attr.flags & perf_event.CONTEXT_SWITCH), None)
        self._standing: Standing | None = None
        if self._switching and waits and orders.pid is not None:
            self._standing = Standing(*waits, orders.pid)
        self._turned_ns = -LINGERS_NS
        """When sampling was paused, or went on."""
        self._stood = b""
        """Samples of copied stacks that are still to be written."""
        self._on = False
        self._running: set[int] = set()
        """Places of the events that are on, but for those that always are."""
        self._file = PerfFile(Path(orders.output), self._described)
        self._batches = Batches(self._described)
        self._bounded = Bounded(orders.limits, self._described)
        self._list_existing()
        self._probes = Probes(self._opened, orders.probe_budget) if orders.probes else None
        if self._wakeups:
            self._wakeups.govern(self._opened)
        self._poll = select.poll()
        for ring in self._opened.rings:
            self._poll.register(ring.file, select.POLLIN)
        self._ctl, self._ack = (os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for path in orders.control)
        self._poll.register(self._ctl, select.POLLIN)
        self._poll.register(0, 0)
        self._interval_ms = _POLL_MS
        self._first_ns = self._last_ns = time.monotonic_ns()
        self._rounds = 0
        self._ended = False
        self._start_cpu_ns = _cpu_ns()
        with contextlib.suppress(OSError):  # a privilege: rings that wait for a busy processor overrun
            os.nice(_NICE)

    def run(self, wake: int, stopped: Sequence[int]) -> None:
        """Carry records until a signal is noted in `stopped` (`wake` becomes readable) or pinprof hangs up."""
        self._poll.register(wake, select.POLLIN)
        while not stopped and not self._ended:
            wait = self._interval_ms
            wait = self._wakeups.wait_ms(wait) if self._wakeups else wait
            wait = self._switching.wait_ms(wait) if self._switching else wait
            for file, happened in self._poll.poll(wait):
                if file == self._ctl:
                    self._obey(os.read(self._ctl, 4096))
                elif file == 0:
                    self._ended = True
                elif file != wake and happened & (select.POLLHUP | select.POLLERR):
                    # Its task has ended, which poll would tell repeatedly.
                    self._poll.unregister(file)
                    self._interval_ms = _POLL_BLIND_MS
            # Before the records are written, which takes as long as some hundred more calls.
            if self._probes:
                self._probes.look(sum(ring.waiting_bytes for ring in self._opened.rings))
            self._drain()
            if self._wakeups:
                self._wakeups.look()
            self._look_at_switches()

    def finish(self) -> dict[str, Any]:
        """Switch the events off, write what is left and the end of the file; what there is to say about it all."""
        for file in chain.from_iterable(self._opened.files):
            perf_event.disable(file)
        self._last_ns = time.monotonic_ns()
        self._drain()
        self._file.write(self._bounded.rest())
        finished = {
            **(self._probes.finish() if self._probes else {}),
            **(self._wakeups.finish() if self._wakeups else {}),
        }
        lost = self._losses()
        self._file.finish(self._features())
        notes = self._opened.notes
        if online_cpus() != self._cpus:
            notes.append("CPUs were added or removed during the recording. Samples from added CPUs are missing.")
        return {
            "lost_records": lost,
            "recording_cpu_ns": _cpu_ns() - self._start_cpu_ns,
            "rounds": self._rounds,
            "ring_bytes": self._opened.rings[0].data_bytes,
            "cpus": len(self._opened.cpus),
            "notes": notes,
            **({"left_out": self._opened.left_out} if self._opened.left_out else {}),
            **finished,
            **({"stacks": self._unwinder.counts()} if self._unwinder else {}),
            **self._bounded.facts(),
        }

    def close(self) -> None:
        """Let go of the rings and the events."""
        self._opened.close()

    def save_what_is_written(self) -> None:
        """After a write failed: try to make a whole file of the records before that."""
        with contextlib.suppress(OSError):
            self._file.finish(self._features())

    def _features(self) -> dict[int, bytes]:
        return features(
            self._described,
            version=self._orders.version,
            command=self._orders.command,
            kernel_build_id=existing.kernel_build_id(),
            times_ns=(self._first_ns, self._last_ns),
        )

    def _drain(self) -> None:
        """Write what all rings hold, in one go."""
        rings, now = self._opened.rings, time.monotonic_ns()
        pieces: list[bytes | memoryview] = [self._stood] if self._stood else []
        self._stood = b""
        for ring in rings:
            pieces += ring.pending()
        if pieces:
            self._take(pieces, now)
            for ring in rings:
                ring.release()
            self._rounds += 1
            if self._depth and self._on and self._depth.changes():
                self._change_events()

    def _take(self, pieces: list[bytes | memoryview], horizon_ns: int) -> None:
        """Write whole records; two pieces may share one. All older than the horizon are there."""
        if self._unwinder:
            pieces = [self._unwinder.rewrite(*pieces)]
        pieces = self._batches.cleaned(pieces)
        self._file.write(self._bounded.chosen(pieces, self._file.data_bytes, horizon_ns))

    def _look_at_switches(self) -> None:
        """Pause what costs at each switch of a thread, or go on with it."""
        switching = self._switching
        if switching and self._on and switching.changes(*self._switched_so_far()):
            begun = time.monotonic_ns()
            self._change_events()
            ended = time.monotonic_ns()
            switching.turned(begun, ended)
            self._turned_ns = (begun + ended) // 2
            self._note_pause(self._turned_ns)
        now = time.monotonic_ns()
        if switching and self._standing and (switching.paused or now - self._turned_ns < LINGERS_NS):
            # Younger than what the rings held: with what they hold next.
            self._stood += self._standing.look()

    def _switched_so_far(self) -> tuple[int, int, int]:
        """Now, with how many switches and samples of time there were."""
        assert self._unwinder
        counts = self._unwinder.counts()
        return time.monotonic_ns(), counts["switches"], counts["copied"]

    def _note_pause(self, when_ns: int) -> None:
        """Write that sampling is paused, or goes on."""
        spec, numbers = self._described[0]
        on = self._switching is not None and self._switching.paused
        self._file.write([paused(spec, numbers[0], when_ns, on=on)])

    def _change_events(self) -> None:
        """Switch off the events that are on and no longer wanted, and on those that are.

        What runs in between is lost: no moment is sampled twice. Switches are noted twice rather than not at all.
        """
        specs = self._opened.specs
        wanted = {place for place, spec in enumerate(specs) if not spec.always_on and self._is_wanted(spec)}
        bare = {place for place, spec in enumerate(specs) if spec.bare}
        old, new = self._running - wanted, wanted - self._running
        for change, places in (
            (perf_event.enable, new & bare),
            (perf_event.disable, old - bare),
            (perf_event.enable, new - bare),
            (perf_event.disable, old & bare),
        ):
            for file in chain.from_iterable(self._opened.files[place] for place in sorted(places)):
                change(file)
        self._running = wanted

    def _is_wanted(self, spec: EventSpec) -> bool:
        """Whether it is on while recording: not in a pause, but for bare switches; of two depths the right one."""
        pause = self._switching is not None and self._switching.paused
        if spec.name == self._opened.specs[0].name:
            return self._on and not pause and spec.deep == (self._depth is not None and self._depth.deep)
        if spec.attr.flags & perf_event.CONTEXT_SWITCH:
            return self._on and spec.bare == pause
        return self._on

    def _obey(self, commands: bytes) -> None:
        for command in commands.split(b"\n"):
            if command == b"enable":
                self._first_ns = min(self._first_ns, time.monotonic_ns())
                self._switch(on=True)
            elif command == b"disable":
                self._switch(on=False)
            elif command == b"describe":
                with contextlib.suppress(OSError):  # windows have no names of events then
                    self._describe()
            if command:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._ack, b"ack\n")

    def _describe(self) -> None:
        """Write what a file of these events has without records, once: for windows of this recording."""
        head = Path(self._orders.output + HEAD)
        if not head.exists():
            made = Path(f"{head}.new")
            made.unlink(missing_ok=True)
            file = PerfFile(made, self._described)
            try:
                file.finish(self._features())
            finally:
                file.close()
            made.replace(head)

    def _switch(self, *, on: bool) -> None:
        self._on = on
        if on and self._switching:
            was_paused = self._switching.paused
            self._switching.begin(*self._switched_so_far())
            if was_paused:
                self._note_pause(time.monotonic_ns())
        self._change_events()
        if self._wakeups:
            self._wakeups.switched(on=on)

    def _list_existing(self) -> None:
        listing = existing.Listing(trailer(self._opened.specs[0]))
        self._file.write([listing.kernel()])
        processes = self._opened.processes
        for piece in listing.everything() if self._orders.pid is None else map(listing.process, processes):
            self._file.write([self._unwinder.rewrite(piece) if self._unwinder else piece])

    def _losses(self) -> int:
        """Note in the file how many records of each event found no room; their sum."""
        total = 0
        for spec, numbers in self._described:
            same = [place for place, other in enumerate(self._opened.specs) if other.name == spec.name]
            losses = list(chain.from_iterable(map(self._opened.lost_records, same)))
            for number, lost in zip(numbers, losses, strict=True):
                if lost:
                    self._file.write([lost_samples(spec, number, lost)])
            total += sum(losses)
        return total


def _cpu_ns() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * 1e9)
