"""What a flight recorder waits for: `--trigger 'range:step>250ms'`, in quotes, for a shell takes `>` for itself.

    range:NAME>TIME     a range of `pinprof.phase` or NVTX took longer; NAME may hold `*` and `?`
    call:NAME>TIME      a call of CUDA's driver took longer: `call:cuMemcpy*>10ms`; `call:pin` are all that page-lock
    range:NAME>p99      it took longer than 99 % of those before, once there were enough; `>2xp99`: twice as long
    psi:memory>SHARE    some thread waited for memory for that share of the last second (PSI); also `io` and `cpu`, and
                        `psi:memory.full`: all threads that could run did
    pinned>SIZE         the program has more memory pinned (VmPin, and by calls of CUDA), after it had less
    signal:USR2         pinprof was sent the signal
    crash               a signal has ended the program

Each looks at what was recorded since it looked last, once a second.
"""

from __future__ import annotations

import math
import re
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_ns, format_share, parse_bytes, parse_duration_ns, parse_share
from pinprof.data.gpu_functions import FUNCTIONS, Function
from pinprof.portions.inside_kept import PINS, Called

DEFAULTS = ("signal:USR2", "crash")
SIGNALS = {"USR1": signal.SIGUSR1, "USR2": signal.SIGUSR2}
_RESOURCES = ("memory", "io", "cpu")
_ENOUGH, _MOST_NAMES, _STEPS = 200, 1000, 16
"""Ranges of a name before its p99 is known; names that are followed; steps of lengths in each doubling."""
_QUANTILE = re.compile(r"(?:(\d{1,3}(?:\.\d{1,3})?)x)?p99")
_FORM = re.compile(r"([a-z]+)(?::([^>]+))?(?:>(.+))?")
_EXAMPLES = (
    "'range:step>250ms', 'range:step>p99', 'call:pin>10ms', 'psi:memory>10%', 'pinned>4GiB', signal:USR2 or crash"
)


@dataclass(frozen=True)
class Timed:
    """A range that has ended, on CLOCK_MONOTONIC."""

    name: str
    start_ns: int
    end_ns: int
    pid: int


@dataclass(frozen=True)
class LookedAt:
    """What a recording has told since the look before."""

    since_ns: int
    until_ns: int
    ranges: Sequence[Timed] = ()
    calls: Sequence[Called] = ()
    """Of CUDA's driver, by process."""
    pinned_bytes: int = 0
    stalled_ns: Mapping[str, int] | None = None
    """Per `memory some` and so on, how long threads have waited meanwhile; None where the kernel does not count it."""
    signals: frozenset[int] = frozenset()
    ended_by: int = 0
    """The signal that has ended the program."""


@dataclass(frozen=True)
class Fired:
    """Why a capture is made."""

    said: str
    """`step took 312 ms, above 250 ms`."""
    moment_ns: tuple[int, int] | tuple[()] = ()
    """From when to when that was, on CLOCK_MONOTONIC, where it has a time of its own."""
    pid: int = 0
    """The process that it was in, where it was in one."""


class Trigger(ABC):
    """What a capture is made at."""

    of_a_start = False
    """It needs a program that pinprof has started."""
    of_ranges = False
    """It looks at ranges."""
    text = ""
    """As it was asked for."""

    @abstractmethod
    def look(self, seen: LookedAt) -> Fired | None:
        """Whether it has happened since the look before; of several times, the longest."""


class LongRange(Trigger):
    """A range took longer than a time, or than its own p99 with a factor."""

    of_a_start = of_ranges = True

    def __init__(self, pattern: str, limit_ns: int, factor: float = 0) -> None:
        """`factor`: of the p99; 0 for the time."""
        self._pattern, self._limit_ns, self._factor = pattern, limit_ns, factor
        self._lengths: dict[str, Counter[int]] = {}

    def look(self, seen: LookedAt) -> Fired | None:
        """The longest of those since the look before."""
        return _longest(self._over(seen.ranges))

    def _over(self, ranges: Iterable[Timed]) -> Iterable[tuple[Timed, int, str]]:
        times = "" if not self._factor else "its p99, " if self._factor == 1 else f"{self._factor:g} times its p99, "
        for one in ranges:
            if fnmatchcase(one.name, self._pattern):
                limit = self._own(one) if self._factor else self._limit_ns
                if limit and one.end_ns - one.start_ns > limit:
                    yield one, limit, times

    def _own(self, one: Timed) -> int:
        """The limit by those of its name before; 0 while there are too few."""
        lengths = self._lengths.get(one.name)
        if lengths is None:
            if len(self._lengths) == _MOST_NAMES:
                return 0
            lengths = self._lengths[one.name] = Counter()
        count = lengths.total()
        limit, above = 0, 0
        for step in sorted(lengths, reverse=True) if count >= _ENOUGH else ():
            above += lengths[step]
            if above > count / 100:
                limit = round(2 ** ((step + 1) / _STEPS) * self._factor)
                break
        lengths[int(math.log2(max(one.end_ns - one.start_ns, 1)) * _STEPS)] += 1
        return limit


class LongCall(Trigger):
    """A call of CUDA's driver took longer than a time."""

    of_a_start = True

    def __init__(self, pattern: str, limit_ns: int) -> None:
        """`pattern`: of names, or `pin` for all that page-lock."""
        self._pattern, self._limit_ns = pattern, limit_ns

    def look(self, seen: LookedAt) -> Fired | None:
        """The longest of those since the look before."""
        return _longest((one, self._limit_ns, "") for calls in seen.calls for one in self._over(calls))

    def _over(self, calls: Called) -> Iterable[Timed]:
        for row in np.flatnonzero(calls.end_ns - calls.begin_ns > self._limit_ns).tolist():
            name = calls.names[int(calls.function[row])]
            pins = self._pattern == "pin" and FUNCTIONS.get(name, Function()).purpose in PINS
            if pins or fnmatchcase(name, self._pattern):
                yield Timed(f"a call of {name}", int(calls.begin_ns[row]), int(calls.end_ns[row]), calls.pid)


class Pressure(Trigger):
    """Threads waited for a resource for more than a share of the time."""

    def __init__(self, resource: str, kind: str, share: float) -> None:
        self._resource, self._kind, self._share = resource, kind, share

    def look(self, seen: LookedAt) -> Fired | None:
        """Since the look before."""
        passed = seen.until_ns - seen.since_ns
        waited = (seen.stalled_ns or {}).get(f"{self._resource} {self._kind}", 0)
        if waited <= self._share * passed:
            return None
        who = "some threads" if self._kind == "some" else "all threads"
        what = f"{who} waited for {self._resource} for {format_share(waited, passed)} of {format_ns(passed)}"
        return Fired(f"{what}, above {format_share(self._share, 1)}", (seen.since_ns, seen.until_ns))


class Pinned(Trigger):
    """The program has more memory pinned than a size."""

    def __init__(self, size: int) -> None:
        self._size, self._above = size, False

    def look(self, seen: LookedAt) -> Fired | None:
        """Once when it comes to be so."""
        before, self._above = self._above, seen.pinned_bytes > self._size
        if before or not self._above:
            return None
        return Fired(f"{format_bytes(seen.pinned_bytes)} are pinned, above {format_bytes(self._size)}")


class Sent(Trigger):
    """pinprof was sent a signal."""

    def __init__(self, number: int) -> None:
        self.number = number

    def look(self, seen: LookedAt) -> Fired | None:
        """Since the look before."""
        return Fired(f"{signal.Signals(self.number).name} arrived") if self.number in seen.signals else None


class Crash(Trigger):
    """A signal has ended the program."""

    of_a_start = True

    def look(self, seen: LookedAt) -> Fired | None:
        """At the end."""
        if not seen.ended_by:
            return None
        known = seen.ended_by in set(signal.Signals)
        name = signal.Signals(seen.ended_by).name if known else f"signal {seen.ended_by}"
        return Fired(f"the program was ended by {name}")


def chosen(texts: Sequence[str], *, running: bool) -> list[Trigger]:
    """What `--trigger` asks for, the usual where that is nothing; UsageError where it needs a program's start."""
    found = [parsed(text) for text in texts or DEFAULTS]
    for text, one in zip(texts or DEFAULTS, found, strict=True):
        one.text = text
        if running and one.of_a_start and texts:
            raise UsageError(
                f"--trigger {text} needs a program that pinprof has started: of others it knows no ranges, "
                "no calls, and not how they end.",
                "Start the program with `pinprof record --ring`, or leave out the trigger.",
                "trigger",
            )
    return [one for one in found if not (running and one.of_a_start)]


def parsed(text: str) -> Trigger:
    """What `--trigger` asks for; UsageError for what it cannot be."""
    match = _FORM.fullmatch(text.strip())
    kind, name, limit = (part or "" for part in match.groups()) if match else ("", "", "")
    if kind == "crash" and not name and not limit:
        return Crash()
    if kind == "signal" and not limit and (number := SIGNALS.get(name.upper().removeprefix("SIG"))):
        return Sent(number)
    if not limit and (kind == "pinned" or (name and kind in ("range", "call", "psi"))):
        raise UsageError(
            f"--trigger {text} has no limit.",
            f"Put one behind `>`, in quotes, because a shell takes `>` for itself: --trigger '{text}>"
            f"{'10%' if kind == 'psi' else '4GiB' if kind == 'pinned' else '250ms'}'.",
            "trigger",
        )
    quantile = _QUANTILE.fullmatch(limit)
    if kind == "range" and name:
        return LongRange(name, 0, float(quantile[1] or 1)) if quantile else LongRange(name, parse_duration_ns(limit))
    if kind == "call" and name:
        return LongCall(name, parse_duration_ns(limit))
    resource, _, which = name.partition(".")
    if kind == "psi" and resource in _RESOURCES and which in ("", "some", "full"):
        return Pressure(resource, which or "some", parse_share(limit))
    if kind == "pinned" and not name:
        return Pinned(parse_bytes(limit))
    raise UsageError(f"--trigger {text} is not valid.", f"Write {_EXAMPLES}.", "trigger")


def _longest(found: Iterable[tuple[Timed, int, str]]) -> Fired | None:
    one, limit, what = max(found, key=lambda each: each[0].end_ns - each[0].start_ns, default=(None, 0, ""))
    if one is None:
        return None
    length = format_ns(one.end_ns - one.start_ns)
    return Fired(f"{one.name} took {length}, above {what}{format_ns(limit)}", (one.start_ns, one.end_ns), one.pid)
