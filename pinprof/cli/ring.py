"""`pinprof record --ring 60s`: a flight recorder, which keeps the last seconds and captures them when it is time."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click
from click.core import ParameterSource

from pinprof.base.errors import PinprofError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import say
from pinprof.base.units import format_ns, parse_duration_ns
from pinprof.cli import naming, ranks
from pinprof.cli.metrics import MetricsFile
from pinprof.cli.recording import labels_of
from pinprof.collect.trouble import described
from pinprof.portions.flight import FlightRecorder
from pinprof.portions.triggers import Fired, Sent, Trigger, chosen
from pinprof.streams.store import numbered_name

if TYPE_CHECKING:
    from pinprof.collect.run import CollectorRun
    from pinprof.portions.following import Following

SHORTEST_S, LONGEST_S = 5.0, 600.0
_OF_A_WHOLE = (
    "force", "no_report", "calibrate", "calibrate_anew", "small", "max_size", "probe_budget", "keep_report",
)  # fmt: skip
"""Options of a recording that is one capture."""
_PYTHON_RATE, _MEMORY_PAUSE_S = 100, 0.5
"""Looks at Python's frames a second, and seconds between looks at memory: they cost most of what a recorder does, which
is always on."""


@dataclass(frozen=True)
class RingOptions:
    """What the options of a flight recorder ask for."""

    length_s: float
    triggers: Sequence[Trigger]
    most_an_hour: int
    metrics: Path | None = None
    """A file for Prometheus."""

    @classmethod
    def of(
        cls, length: str, triggers: Sequence[str], most_an_hour: int, metrics: Path | None, *, running: bool
    ) -> Self:
        """UsageError for what cannot be; `running`: of a program that runs already."""
        length_s = parse_duration_ns(length) / 1e9
        if not SHORTEST_S <= length_s <= LONGEST_S:
            raise UsageError(f"--ring {length} is not possible.", "Give a time from 5s to 10min.", "duration")
        return cls(length_s, chosen(triggers, running=running), most_an_hour, metrics)


def record_ring(
    ring: RingOptions,
    collectors: str,
    command: Sequence[str],
    name: str,
    options: Mapping[str, Any],
    pid: int,
    delay_s: float,
    duration_s: float,
) -> int:
    """Record a program into a ring, make captures of it, and return the program's own exit status.

    `options` are those of `recording_options`; the others as of `recording.record`.
    """
    from pinprof import collect, recording
    from pinprof.collect import run
    from pinprof.collect.run import RecordingHooks
    from pinprof.collect.trouble import UNRECORDED, Trouble
    from pinprof.portions.following import Following
    from pinprof.streams import store

    about_request = dict(options) | {"python_rate": options["python_rate"] or _PYTHON_RATE}
    about_request["memory_pause_s"] = _MEMORY_PAUSE_S
    labels = labels_of(about_request.pop("labels"))
    quiet, strict, output = (about_request.pop(one) for one in ("quiet", "strict", "output"))
    if output:
        naming.refuse_page(output)
    source_of = click.get_current_context().get_parameter_source
    for one in _OF_A_WHOLE:
        about_request.pop(one)
        if source_of(one) is ParameterSource.COMMANDLINE:
            option = f"--{one.replace('_', '-')}"
            raise UsageError(f"{option} does not go with --ring.", f"Leave out {option}, or --ring.", "ring")
    if source_of("gpu") is not ParameterSource.COMMANDLINE:
        about_request["gpu"] = "off"  # CUPTI costs a program that launches often several percent
    if about_request["gpu"] == "uvm":
        raise UsageError(
            "Managed memory can't be recorded by the driver in a ring.", "Give another --gpu, or leave it out.", "gpu"
        )
    request = collect.RecordRequest(
        tuple(command), collect.parse_names(collectors), pid=pid, delay_s=delay_s, duration_s=duration_s,
        **about_request,
    )  # fmt: skip
    request = collect.resolve(request)
    trouble = Trouble(strict=strict or bool(pid), raises=bool(pid))
    if request.collectors != ("native",):
        chosen_here = not pid and collectors == collect.AUTO
        only_native = UsageError(
            f"--ring does not record with {', '.join(request.collectors)}.",
            ("" if chosen_here else "Leave out --with; ") + "`pinprof doctor` checks what the native collector needs.",
            "ring",
        )
        if not chosen_here:
            raise only_native
        # The choice was this machine's, and a service is not kept from its work by it.
        trouble.met(only_native, UNRECORDED)
        return trouble.status(run.record(request, None, trouble).exit_status)
    rank = None if pid else ranks.this_rank(os.environ)
    named = output or store.default_name(f"{name}-rank{rank.number}" if rank else name)
    recorder: _Captures | None = None
    say_it = (lambda _: None) if quiet else _say
    with ExitStack() as places, _arriving(ring.triggers) as signals:

        def hooks(folder: Path) -> RecordingHooks:
            nonlocal recorder
            following = Following(folder, command, ring.length_s, labels)
            recorder = _Captures(following, folder, ring, signals, named, say_it)
            how = "Ctrl-C ends it, not the program" if pid else "it ends with the program"
            begins = f"keeping the last {format_ns(ring.length_s * 1e9)}; {how}."
            return RecordingHooks(watch=recorder.watch, meanwhile=lambda: say_it(begins))

        outcome = recording.follow(request, trouble, hooks, places)
        if recorder is not None:
            with trouble.kept():
                recorder.end(0 if outcome.state == "interrupted" else max(outcome.exit_status - 128, 0))
        if outcome.failure is not None:
            trouble.met(outcome.failure)
    return trouble.status(outcome.exit_status)


class _Captures(FlightRecorder):
    """The captures of one recording, numbered."""

    def __init__(
        self,
        following: Following,
        folder: Path,
        ring: RingOptions,
        signals: set[int],
        named: Path,
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(following, folder, ring.triggers, signals, ring.most_an_hour)
        self._ring, self._folder, self._named, self._tell, self._number = ring, folder, named, tell, 0
        self._metrics = MetricsFile(ring.metrics, folder.parent, ring.length_s) if ring.metrics else None
        self._captures = 0

    def watch(self, run: CollectorRun) -> float:
        """Look if it is time, for the counters as well."""
        pause_s = super().watch(run)
        if self._metrics:
            self._metrics.look(self, self._captures)
        return pause_s

    def end(self, ended_by: int) -> None:
        """The same at the end."""
        super().end(ended_by)
        if self._metrics:
            self._metrics.end(self, self._captures)

    def capture(self, fired: Fired) -> Callable[[], object]:
        """Cut one; what is given makes it whole, and says where it is."""
        said = fired.said[0].upper() + fired.said[1:]
        more = {"trigger": {"said": fired.said, "moment_ns": list(fired.moment_ns), "pid": fired.pid}}
        self._number += 1
        while (target := numbered_name(self._named, self._number)).exists():
            self._number += 1
        try:
            finish = self.following.save(target, self._ring.length_s, self._folder.parent, more)
        except (OSError, PinprofError) as error:
            self._tell(f"{said}, but it is not captured: {described(error)}")
            return lambda: None
        self._captures += 1

        def told() -> None:
            try:
                self._tell(f"{said}. Capture: {finish()}")
            except (OSError, PinprofError) as error:
                self._tell(f"{said}, but it is not captured: {described(error)}")

        return told

    def refuse(self, fired: Fired) -> None:
        """Say once that there would be too many."""
        limit = f"--captures-per-hour {self._ring.most_an_hour}"
        self._tell(f"{fired.said[0].upper()}{fired.said[1:]}, but it is not captured, by {limit}.")

    def ended_early(self) -> None:
        """Say so at once: a day may pass until the program ends."""
        self._tell("The recorder has ended, so nothing more is captured.")


def _say(text: str) -> None:
    say(f"pinprof: {text}", error=True)


@contextlib.contextmanager
def _arriving(triggers: Sequence[Trigger]) -> Iterator[set[int]]:
    """Signals that triggers wait for and that arrive in the block."""
    arrived: set[int] = set()
    numbers = {one.number for one in triggers if isinstance(one, Sent)}
    before = {number: signal.signal(number, lambda caught, _: arrived.add(caught)) for number in numbers}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
