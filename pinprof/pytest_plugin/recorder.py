"""Tests and blocks of tests recorded: exact counts always, samples where the kernel allows them.

One recording runs for all of them (portions.py). Whatever goes wrong with it costs the samples, never the test:
`missing` says why there are none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from pinprof.analyze import analyze
from pinprof.analyze.headline import MEMORY_LEVELS
from pinprof.analyze.results import judged_event
from pinprof.analyze.run import Run
from pinprof.base import files
from pinprof.base.columns import Bool, Int32, ascending
from pinprof.base.errors import PinprofError
from pinprof.base.units import format_count, format_ns
from pinprof.collect import RecordRequest
from pinprof.data.activity import Activity
from pinprof.data.model import Capture
from pinprof.portions import Portion, Portions
from pinprof.pytest_plugin.counts import NOBODY, Counting, Counts, Others, others_now
from pinprof.read import ReadOptions, read, seal_symbols
from pinprof.read.symbols.kept import KeptSymbols
from pinprof.result import Result

if TYPE_CHECKING:
    from pinprof.check.verdicts import Checked

_T = TypeVar("_T")
_MOST_FAILURES = 2
"""A recording that breaks as often is not begun again."""
_MEMORY = tuple(f"{level}.*" for level in MEMORY_LEVELS if level != "sync")


def request(frequency: int, *, calls: bool) -> RecordRequest:
    """How a test process is recorded: as `pinprof.record` does, without what follows CUDA's driver.

    With its `calls` if need be, which budgets count.
    """
    return RecordRequest(
        ("/proc/self/exe",),
        own_process=True,
        frequency=frequency,
        cuda_calls=calls,
        gpu="off",
        python="auto",
    )


class SuiteRecorder:
    """Records this process for tests; `close` once."""

    def __init__(self, *, own_only: bool = True, frequency: int = 999, calls: bool = False) -> None:
        """`own_only`: leave out Python threads and processes that ran before the test. `calls`: trace CUDA calls."""
        self._own_only, self._request = own_only, request(frequency, calls=calls)
        self._pid, self._places = os.getpid(), ExitStack()
        self._portions: Portions | None = None
        self._symbols = KeptSymbols()
        self._failures = self._number = 0
        self.missing = ""
        """Why nothing is sampled any more; empty while it is."""

    def block(self, name: str, *, samples: bool = True) -> Block:
        """A block to be entered; without `samples` exact counts alone."""
        return Block(self, name, samples=samples)

    def others(self) -> Others:
        """Who is no part of what begins now."""
        try:
            return others_now() if self._own_only else NOBODY
        except Exception as error:
            self.failed(error)
            return NOBODY

    def start(self) -> None:
        """Begin to record, before the first test that asks for it."""
        self._recording(lambda portions: portions.start())

    def begin(self, name: str) -> Portion | None:
        """A portion, None where it cannot be."""
        return self._recording(lambda portions: portions.begin(name))

    def _recording(self, ask: Callable[[Portions], _T]) -> _T | None:
        if self.missing:
            return None
        try:
            if self._portions is None:
                folder = self._places.enter_context(files.temporary_folder())
                portions = Portions(self._request, folder)
                self._places.callback(portions.close)
                self._portions, self._folder = portions, folder
            return ask(self._portions)
        except Exception as error:  # whatever it is, the test runs without it
            self.failed(error, for_good=self._portions is None or isinstance(error, PinprofError))
            return None

    def end(self, portion: Portion, counts: Counts | None) -> tuple[Path | None, str]:
        """The capture of a portion, or why there is none; without `counts` none is made."""
        self._number += 1
        target = self._folder / f"{self._number}.pinprof" if counts else None
        try:
            portion.end(target, counts.resources if counts else {})
        except Exception as error:
            return None, self.failed(error)
        return target, ""

    def explained(self, path: Path, others: Others, *, search: bool = True) -> tuple[Run, str]:
        """A capture without others' samples, explained, with opportunities if `search`; and what was left out."""
        capture = read(path, ReadOptions(kept=self._symbols))
        capture, left_out = _without(capture, others)
        return analyze(capture, search=search), left_out

    def failed(self, error: Exception, *, for_good: bool = False) -> str:
        """Note that recording failed; the sentence for it."""
        self._failures += 1
        if isinstance(error, PinprofError):
            sentence = str(error)
        else:
            sentence = f"pinprof failed with {type(error).__name__}: {error}. The test is not affected."
        if for_good or self._failures >= _MOST_FAILURES:
            self.missing = sentence
        return sentence

    def close(self) -> None:
        """End the recording, and remove what it left; a forked child leaves its parent's alone."""
        if os.getpid() == self._pid:
            self._places.close()


class Block:
    """A recorded test or block: its use of memory and time. Times are in nanoseconds, sizes in bytes."""

    counts: Counts
    """Exact, once it has ended."""

    def __init__(self, recorder: SuiteRecorder, name: str, *, samples: bool) -> None:
        self.name = name
        self._recorder, self._samples = recorder, samples
        self._portion: Portion | None = None
        self.path: Path | None = None
        """The capture, until the block is forgotten."""
        self.missing = "" if samples else "Only counts were requested."
        """Why there are no samples; empty if there are some."""
        self.left_out = ""
        """What was not counted for it, as text."""

    def __enter__(self) -> Self:
        self._others = self._recorder.others()
        if self._samples:
            self._portion = self._recorder.begin(self.name)
            self.missing = "" if self._portion else self._recorder.missing
        self._counting = Counting(self._others)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.counts = self._counting.end()
        if self._portion is not None:
            self.path, self.missing = self._recorder.end(self._portion, self.counts)

    def drop(self) -> None:
        """End without a capture: nobody will ask."""
        if self._portion is not None:
            self._recorder.end(self._portion, None)

    def forget(self) -> None:
        """Remove the capture; what was explained stays."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self.path = None

    def keep(self, target: Path) -> bool:
        """Move the capture to a place where it stays readable anywhere; whether that worked."""
        if self.path is None:
            return False
        try:
            seal_symbols(self.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                shutil.rmtree(target)
            shutil.move(self.path, target)
        except (OSError, PinprofError):
            return False
        self.path = None
        return True

    @property
    def page_faults(self) -> int:
        """All page faults of the block, minor and major."""
        return self.counts.page_faults

    @property
    def wall_ns(self) -> int:
        """The time from its first line to its last."""
        return self.counts.wall_ns

    @property
    def cpu_ns(self) -> int:
        """The CPU time of all its threads."""
        return self.counts.cpu_ns

    @cached_property
    def analysis(self) -> Run | None:
        """The whole analysis (pinprof.analyze.Run); None without samples (`missing` says why)."""
        if self.path is None:
            return None
        try:
            analysis, self.left_out = self._recorder.explained(self.path, self._others)
        except Exception as error:
            self.missing = self._recorder.failed(error)
            return None
        if self.counts.left_out_faults:
            faults = f"{format_count(self.counts.left_out_faults)} page faults"
            self.left_out = f"{self.left_out}, {faults}" if self.left_out else f"{faults} of other threads"
        return analysis

    @property
    def counted(self) -> Run | None:
        """The same without what is only said of a broken budget, for less; None where `analysis` says why."""
        if self.path is None or "analysis" in vars(self):
            return None
        try:
            return self._recorder.explained(self.path, self._others, search=False)[0]
        except Exception:
            return None

    @property
    def result(self) -> Result:
        """The recording as tables (pinprof.Result); PinprofError without samples."""
        if self.analysis is None:
            from pinprof.base.errors import CollectError

            remedy = self.missing or "Use the result after the block."
            raise CollectError("The block was not sampled.", remedy, "recording")
        return Result(self.analysis)

    @property
    def memory_ns(self) -> int | None:
        """CPU time in faults, pins, copies, frees and migrations; None if the kernel was not sampled."""
        analysis = self.analysis
        if analysis is None or analysis.capture.manifest.kernel_left_out:
            return None
        event = judged_event(analysis.events)
        return round(event.share(*_MEMORY) * event.total) if event is not None and event.unit == "ns" else 0

    def share(self, cause: str) -> float:
        """A cause's share of the sampled time, 0 to 1: `fault`, `pin`, `copy.user` …; 0 without samples."""
        event = judged_event(self.analysis.events) if self.analysis else None
        return event.share(cause if "." in cause else f"{cause}.*") if event is not None else 0.0

    def check(self, **budgets: object) -> Checked:
        """Judge the block by budgets, written as in the mark. A broken or unassessable budget fails the test."""
        from pinprof.pytest_plugin.judging import demanded

        __tracebackhide__ = True
        return demanded(self, budgets)


class Blocks:
    """The fixture `pinprof_record`: call it to record a block."""

    def __init__(self, recorder: Callable[[], SuiteRecorder]) -> None:
        self._recorder = recorder
        self._made: list[Block] = []

    def __call__(self, name: str = "block", *, samples: bool = True) -> Block:
        """A context manager: `with pinprof_record("load") as block:`."""
        self._made.append(self._recorder().block(name, samples=samples))
        return self._made[-1]

    def forget(self) -> None:
        """The test is over: remove the captures."""
        for block in self._made:
            block.forget()


def _without(capture: Capture, others: Others) -> tuple[Capture, str]:
    """The capture without the samples of threads and processes that are no part of it, and who they are."""
    capture = replace(capture, activity=_calls_without(capture.activity, others))
    samples = capture.samples
    theirs = _of_others(others, samples.pid, samples.tid)
    if not theirs.any():
        return capture, ""
    times = np.array([event.clocks for event in capture.events], np.bool_)
    spent = int(samples.weight[theirs & times[samples.event]].sum())
    names = sorted({others.threads.get(tid, "an older process") for tid in ascending(samples.tid[theirs]).tolist()})
    words = f"{format_ns(spent)} of CPU time in {', '.join(names)}" if spent else ""
    return replace(capture, samples=samples.take(np.flatnonzero(~theirs))), words


def _calls_without(activity: Activity | None, others: Others) -> Activity | None:
    """CUDA calls without those of others, and without what these allocated."""
    if activity is None:
        return None
    calls, memory = activity.calls, activity.memory
    kept = ~_of_others(others, calls.pid, calls.tid)
    own = np.isin(memory.correlation_id, calls.correlation_id[kept])
    return replace(activity, calls=calls.take(np.flatnonzero(kept)), memory=memory.take(np.flatnonzero(own)))


def _of_others(others: Others, pid: Int32, tid: Int32) -> Bool:
    theirs = np.isin(tid, np.array(sorted(others.threads) or [-1], np.int64))
    return np.asarray(theirs | np.isin(pid, np.array(sorted(others.processes) or [-1], np.int64)))
