"""The collector's own process: opens the events on every CPU, carries records from the rings to the file, and ends.

It takes its orders from a JSON file and commands from a FIFO (`ping`, `enable`, `disable`; control.py), answered on
another. It ends when it is sent a signal or when its standard input, which pinprof holds, is closed; then it switches
all events off, empties the rings and finishes the file. What it has to say goes to standard error, one JSON object a
line behind `pinprof-native: `.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pinprof.collect.native import events as ev
from pinprof.collect.native import existing, perf_event, unwinding
from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.perf_file import FINISHED_ROUND, PerfFile, features, lost_samples, trailer
from pinprof.collect.native.ring import Ring, map_rings, share
from pinprof.collect.native.tracefs import Site
from pinprof.files import written

SAID = "pinprof-native: "
LEAST_RING_BYTES = 32 << 10
"""Room for ninety call chains between two readings."""

_POLL_MS = 500
"""The longest that records stay in a ring: what a killed collector loses."""
_POLL_BLIND_MS = 50
"""The same once a ring's event has ended, which wakes nobody any more while others still write into the ring."""
_NICE = -10
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_ONLINE = Path("/sys/devices/system/cpu/online")


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
    probes: tuple[Site, ...] = ()
    """Functions whose calls are recorded."""
    unwinding: str = ""
    """The library that completes stacks; empty to leave them as the kernel gives them."""

    def save(self, path: Path) -> None:
        """Write them where the collector will look."""
        written(path, json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Orders:
        """What `save` wrote."""
        raw: dict[str, Any] = json.loads(path.read_text("utf-8"))
        raw["events"] = tuple(EventSpec.from_json(entry) for entry in raw["events"])
        raw["probes"] = tuple(Site(**entry) for entry in raw["probes"])
        return cls(**{**raw, "control": tuple(raw["control"]), "command": tuple(raw["command"])})


class Refused(Exception):
    """The kernel does not let an event be opened, or its ring be mapped; `what` names the step."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"{what}: {error.strerror}")
        self.what = what
        self.number = error.errno or 0


@dataclass
class Opened:
    """The events, instance by instance."""

    specs: list[EventSpec]
    files: list[list[int]]
    """Per event its file descriptors, one per CPU and target."""
    rings: list[Ring]
    notes: list[str]


def open_all(orders: Orders, cpus: Sequence[int]) -> Opened:
    """Open every event on every CPU, with as much of it as this kernel knows; Refused when that cannot be."""
    _raise_file_limit()
    targets = [-1] if orders.pid is None else existing.threads(orders.pid)
    if not targets:
        raise Refused("the program", ProcessLookupError(errno.ESRCH, "it has ended before it began"))
    wanted = ev.for_target(orders.events, inherit=orders.pid is not None)
    attempts = ev.for_older_kernels(wanted)
    if orders.unwinding:
        attempts = [*(unwinding.with_copies(specs) for specs in attempts), *attempts]
    for specs in attempts:
        try:
            return _open(specs, targets, cpus, orders.ring_bytes)
        except Refused as error:
            if error.number != errno.EINVAL:
                raise
            refusal = error
    raise refusal


def _open(specs: Sequence[EventSpec], targets: Sequence[int], cpus: Sequence[int], ring_bytes: int) -> Opened:
    opened = Opened([], [], [], [])
    on_cpu: dict[int, list[int]] = {cpu: [] for cpu in cpus}
    try:
        for spec in specs:
            try:
                files = list(_instances(spec, targets, on_cpu))
            except OSError as error:
                if not spec.optional:
                    raise Refused(spec.name, error) from error
                opened.notes.append(f"{spec.name} was not recorded: {error.strerror}.")
                continue
            opened.specs.append(spec)
            opened.files.append(files)
        present = [files for files in on_cpu.values() if files]
        opened.rings = map_rings([files[0] for files in present], ring_bytes, LEAST_RING_BYTES)
        for files, ring in zip(present, opened.rings, strict=True):
            share(files, ring)
    except (OSError, Refused) as error:
        for file in chain.from_iterable(on_cpu.values()):
            os.close(file)
        if isinstance(error, Refused):
            raise
        raise Refused("the ring", error) from error
    return opened


def _instances(spec: EventSpec, targets: Sequence[int], on_cpu: Mapping[int, list[int]]) -> Iterator[int]:
    """Open one event for every target on every CPU that is there, noting it in `on_cpu`."""
    mine: list[tuple[int, int]] = []
    attr, keep = spec.kernel_attr()
    try:
        for cpu in on_cpu:
            for target in targets:
                try:
                    mine.append((cpu, perf_event.open_event(attr, target, cpu)))
                except OSError as error:
                    # ENODEV: the CPU went offline just now. ESRCH: one of several threads ended just now.
                    if error.errno != errno.ENODEV and not (error.errno == errno.ESRCH and len(targets) > 1):
                        raise
    except OSError:
        for _, file in mine:
            os.close(file)
        raise
    del keep
    for cpu, file in mine:
        on_cpu[cpu].append(file)
        yield file


class Sampler:
    """One recording, from opened events to the finished file."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._cpus = online_cpus()
        self._opened = open_all(orders, self._cpus)
        events = [
            (spec, [perf_event.event_id(file) for file in files])
            for spec, files in zip(self._opened.specs, self._opened.files, strict=True)
        ]
        self._described = [(unwinding.as_written(spec), numbers) for spec, numbers in events]
        copied = any(spec.attr.sample_stack_user for spec in self._opened.specs)
        self._unwinder = unwinding.Unwinder(orders.unwinding, events) if copied else None
        self._file = PerfFile(Path(orders.output), self._described)
        self._list_existing()
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
            for file, happened in self._poll.poll(self._interval_ms):
                if file == self._ctl:
                    self._obey(os.read(self._ctl, 4096))
                elif file == 0:
                    self._ended = True
                elif file != wake and happened & (select.POLLHUP | select.POLLERR):
                    # Its task has ended, which poll would tell again and again.
                    self._poll.unregister(file)
                    self._interval_ms = _POLL_BLIND_MS
            self._drain()

    def finish(self) -> dict[str, Any]:
        """Switch the events off, write what is left and the end of the file; what there is to say about it all."""
        for file in chain.from_iterable(self._opened.files):
            perf_event.disable(file)
        self._last_ns = time.monotonic_ns()
        self._drain()
        lost = self._losses()
        self._file.finish(self._features())
        notes = self._opened.notes
        if online_cpus() != self._cpus:
            notes.append("CPUs came or went while recording; what ran on those that came is missing.")
        return {
            "lost_records": lost,
            "recording_cpu_ns": _cpu_ns() - self._start_cpu_ns,
            "rounds": self._rounds,
            "ring_bytes": self._opened.rings[0].data_bytes,
            "cpus": len(self._opened.rings),
            "notes": notes,
            **({"stacks": self._unwinder.counts()} if self._unwinder else {}),
        }

    def spec(self, name: str) -> EventSpec:
        """An event as this kernel knows it; LookupError for one that was not opened."""
        return next(spec for spec in self._opened.specs if spec.name == name)

    def happened(self, name: str) -> bool:
        """Whether an event did, be it recorded or lost."""
        for spec, files in zip(self._opened.specs, self._opened.files, strict=True):
            if spec.name == name and any(perf_event.count(file) for file in files):
                return True
        return False

    def close(self) -> None:
        """Let go of the rings and the events."""
        for ring in self._opened.rings:
            ring.close()
        for file in chain.from_iterable(self._opened.files):
            os.close(file)

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
        rings = self._opened.rings
        pieces: list[bytes | memoryview] = []
        for ring in rings:
            pieces += ring.pending()
        if pieces:
            if self._unwinder:
                pieces = [self._unwinder.rewrite(*pieces)]
            self._file.write([*pieces, FINISHED_ROUND])
            for ring in rings:
                ring.release()
            self._rounds += 1

    def _obey(self, commands: bytes) -> None:
        for command in commands.split(b"\n"):
            if command == b"enable":
                self._first_ns = min(self._first_ns, time.monotonic_ns())
                self._switch(perf_event.enable)
            elif command == b"disable":
                self._switch(perf_event.disable)
            if command:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._ack, b"ack\n")

    def _switch(self, change: Any) -> None:
        for spec, files in zip(self._opened.specs, self._opened.files, strict=True):
            if not spec.always_on:
                for file in files:
                    change(file)

    def _list_existing(self) -> None:
        listing = existing.Listing(trailer(self._opened.specs[0]))
        self._file.write([listing.kernel()])
        for piece in listing.everything() if self._orders.pid is None else [listing.process(self._orders.pid)]:
            self._file.write([self._unwinder.rewrite(piece) if self._unwinder else piece])

    def _losses(self) -> int:
        """Note in the file how many records of each event found no room; their sum."""
        total = 0
        for (spec, numbers), files in zip(self._described, self._opened.files, strict=True):
            for number, file in zip(numbers, files, strict=True):
                lost = perf_event.lost_records(file, spec.attr.read_format)
                if lost:
                    self._file.write([lost_samples(spec, number, lost)])
                total += lost
        return total


def online_cpus() -> list[int]:
    """The CPUs that are online, by number."""
    try:
        text = _ONLINE.read_text()
    except OSError:
        return list(range(os.cpu_count() or 1))
    return parse_cpus(text)


def parse_cpus(text: str) -> list[int]:
    """`0-3,8` → 0, 1, 2, 3, 8 (Documentation/admin-guide/cputopology.rst)."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def _cpu_ns() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def _raise_file_limit() -> None:
    """As many open files as the system allows: each event is one on each CPU."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
