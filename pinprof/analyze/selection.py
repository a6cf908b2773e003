"""Which part of a recording is asked for, and what that means in this one: a time, ranges, threads, processes.

Times count from the start of the recording, as the page shows them. A thread or a process is named by its name or its
number, a range by its name or its path (`step > load`); `*` and `?` stand for any letters.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeVar

import numpy as np

from pinprof.analyze.extent import timed_span
from pinprof.analyze.intervals import Intervals, intersection, union
from pinprof.analyze.ranges.paths import range_paths
from pinprof.base.columns import Bool, Int64, ascending, pack, pairs_of
from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns
from pinprof.data.model import Capture, RangeTable
from pinprof.data.time_window import EVER_NS, TimeWindow

_Key = TypeVar("_Key")
_MOST_NAMED = 5
"""Names that a message lists."""


@dataclass(frozen=True)
class Selection:
    """What is asked for; nothing: the whole recording."""

    after_ns: int | None = None
    """From this time on, since the start of the recording."""
    until_ns: int | None = None
    """Up to this time."""
    ranges: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    """Of several names in one of these, any; of these together, all."""
    why: str = ""
    """At what a flight recorder has made the capture, of whose moment this is."""

    def __bool__(self) -> bool:
        timed = self.after_ns is not None or self.until_ns is not None
        return timed or bool(self.ranges or self.threads or self.processes)

    def refuse_empty_time(self) -> None:
        """UsageError where no time lies between the two."""
        if self.until_ns is not None and self.until_ns <= (self.after_ns or 0):
            raise UsageError(
                f"There is no time between {format_ns(self.after_ns or 0)} and {format_ns(self.until_ns)}.",
                "Give --until a later time than --after.",
                "part",
            )


@dataclass(frozen=True, eq=False)
class Part:
    """A part of one capture, on its clock."""

    asked: Selection
    whole_ns: int
    """The length of the whole recording."""
    window: TimeWindow = TimeWindow()
    ranges: Bool | None = None
    """Per range of the capture, whether it is chosen; None: no ranges are asked for."""
    threads: Int64 | None = None
    """(pid, tid), packed; None for all."""
    pids: Int64 | None = None
    """Processes that the chosen threads belong to; None for all."""

    def at_any_time(self) -> Part:
        """The same threads and processes during the whole recording."""
        return replace(self, window=TimeWindow(), ranges=None)

    def times(self, ranges: RangeTable) -> Intervals:
        """When the part is: its time, and of that what lies in its ranges."""
        time = union(np.array([self.window.start_ns]), np.array([self.window.end_ns]))
        if self.ranges is None:
            return time
        return intersection(time, union(ranges.start_ns[self.ranges], ranges.end_ns[self.ranges]))

    def words(self) -> str:
        """`2 s to 10 s of 60 s, thread main`."""
        asked, whole = self.asked, format_ns(self.whole_ns)
        begin, end = (format_ns(time) if time else "0 s" for time in (asked.after_ns or 0, asked.until_ns or 0))
        parts = [f"{begin} to {whole if asked.until_ns is None else end} of {whole}"]
        for what, names in (("process", asked.processes), ("thread", asked.threads), ("range", asked.ranges)):
            if names:
                parts.append(f"{what} {' or '.join(names)}")
        return ", ".join(parts)

    def sentence(self) -> str:
        """What a report says before its answer."""
        why = f" It was captured because {self.asked.why}." if self.asked.why else ""
        later = " Times below count from its first event." if self.asked.after_ns else ""
        return f"Part of the recording: {self.words()}.{why}{later}"

    def nothing(self) -> UsageError:
        """What to say where the part holds nothing."""
        return UsageError(
            f"This part of the recording is empty: {self.words()}.",
            "Choose a larger part: a longer time, or fewer of --range, --thread and --process.",
            "part",
        )


def selection_of_moment(capture: Capture) -> Selection | None:
    """The moment at which a flight recorder has made a capture; None where it has none of its own."""
    trigger, span = capture.manifest.outcome.get("trigger") or {}, timed_span(capture)
    moment = trigger.get("moment_ns")
    if not moment or len(moment) != 2 or span is None:
        return None
    after, until = (max(int(time) - span[0], 0) for time in moment)
    if after >= until:
        return None
    processes = (str(trigger["pid"]),) if trigger.get("pid") else ()
    return Selection(after, until, processes=processes, why=str(trigger.get("said", "")))


def resolve(capture: Capture, asked: Selection) -> Part:
    """What is asked for in a capture; UsageError where it has no such time, range, thread or process."""
    asked.refuse_empty_time()
    part = Part(asked, 0)
    span = timed_span(capture)
    if span is not None:
        part = replace(part, whole_ns=span[1] - span[0])
    if asked.after_ns is not None or asked.until_ns is not None:
        part = _timed(part, span)
    pids = None
    if asked.processes:
        named = _process_names(capture)
        pids = np.array(_chosen("process", asked.processes, named), np.int64)
        part = replace(part, pids=pids)
    if asked.threads:
        pairs = {pair: name for pair, name in _thread_names(capture).items() if pids is None or pair[0] in pids}
        chosen = _chosen("thread", asked.threads, {pair: (name, str(pair[1])) for pair, name in pairs.items()})
        table = np.array(chosen, np.int64).reshape(-1, 2)
        part = replace(part, threads=pack(table[:, 0], table[:, 1]), pids=ascending(table[:, 0]))
    if asked.ranges:
        path, paths = range_paths(capture.ranges)
        found = _chosen("range", asked.ranges, {at: (one.name, str(one)) for at, one in enumerate(paths)})
        part = replace(part, ranges=np.isin(path, found))
    return part


def _timed(part: Part, span: tuple[int, int] | None) -> Part:
    asked = part.asked
    if span is None:
        raise UsageError(
            "The recording does not say when its samples were taken.",
            "Leave out --after and --until, or record with `pinprof record`.",
            "part",
        )
    start, end = span
    if asked.after_ns is not None and start + asked.after_ns >= end:
        raise UsageError(
            f"The recording is {format_ns(end - start)} long, so nothing follows {format_ns(asked.after_ns)}.",
            "Give an earlier time with --after.",
            "part",
        )
    begins = -EVER_NS if asked.after_ns is None else start + asked.after_ns
    ends = EVER_NS if asked.until_ns is None else min(start + asked.until_ns, EVER_NS)
    return replace(part, window=TimeWindow(begins, ends))


def _thread_names(capture: Capture) -> dict[tuple[int, int], str]:
    """(pid, tid) → name, empty without one, of every thread with samples, ranges or calls."""
    keys = [pack(capture.samples.pid, capture.samples.tid), pack(capture.ranges.pid, capture.ranges.tid)]
    if capture.activity is not None:
        keys.append(pack(capture.activity.calls.pid, capture.activity.calls.tid))
    return {pair: capture.threads.get(pair, "") for pair in pairs_of(ascending(np.concatenate(keys))) if pair[1] >= 0}


def _process_names(capture: Capture) -> dict[int, tuple[str, ...]]:
    """Pid → its main thread's name and its number."""
    pids = {pid for pid, _ in _thread_names(capture)}
    if capture.activity is not None:
        pids |= set(ascending(capture.activity.gpu_ops.pid).tolist())
    return {pid: (capture.threads.get((pid, pid), ""), str(pid)) for pid in sorted(pids) if pid >= 0}


def _chosen(what: str, asked: Sequence[str], named: Mapping[_Key, tuple[str, ...]]) -> list[_Key]:
    """Every key one of whose names is asked for; UsageError for a name that nothing has."""
    found: list[_Key] = []
    for word in asked:
        keys = [key for key, names in named.items() if any(_fits(name, word) for name in names if name)]
        if not keys:
            raise _unknown(what, word, named.values())
        found += keys
    return found


def _fits(name: str, word: str) -> bool:
    return name == word or (any(letter in word for letter in "*?") and fnmatchcase(name, word))


def _unknown(what: str, word: str, named: Iterable[tuple[str, ...]]) -> UsageError:
    several = list(dict.fromkeys(names[0] or names[-1] for names in named))
    if not several:
        kinds = {"range": "ranges", "thread": "threads", "process": "processes"}
        return UsageError(f"The recording has no {kinds[what]}.", f"Leave --{what} out.", "part")
    near = difflib.get_close_matches(word, several, _MOST_NAMED, 0.5)
    more = f" and {len(several) - _MOST_NAMED} more" if len(several) > _MOST_NAMED and not near else ""
    start = "The nearest names are" if near else "There are"
    return UsageError(
        f"The recording has no {what} {word!r}.",
        f"{start}: {', '.join((near or several)[:_MOST_NAMED])}{more}.",
        "part",
    )
