"""pinprof from Python: record a part of this program, and open any recording as tables.

    import pinprof

    with pinprof.record("load batch") as recording:     # also a decorator: @pinprof.record("load batch")
        batch = make_batch()
    recording.result.causes                              # a pandas DataFrame
    recording.result.save_page("batch.html")

    run = pinprof.open("train.pinprof")                  # a capture, perf.data, .nsys-rep, .sqlite, …
    run.opportunities                                    # what to change, where, and what it saves
    run.ranges; run.calls; run.samples

Recording needs what `pinprof record --with native` needs (docs/recording.md). Tables need pandas.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar

from pinprof.errors import CollectError, ToolMissing

if TYPE_CHECKING:
    import pandas as pd

    from pinprof.analyze import Analysis
    from pinprof.collect import RecordRequest

_P = ParamSpec("_P")
_R = TypeVar("_R")

_active: Recording | None = None
_starting = threading.Lock()
"""Held while the one that becomes `_active` is chosen: several threads may begin at once."""


def _forget() -> None:
    """A forked child has no recording of its own yet, nor the thread that may have held the lock."""
    global _active, _starting
    _active, _starting = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


class Result:
    """A recording, explained. Tables are pandas DataFrames; times are nanoseconds, sizes bytes."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        """Everything (pinprof.analyze.Analysis)."""

    @property
    def headline(self) -> str:
        """The report's first sentence."""
        return self.analysis.answer

    @property
    def opportunities(self) -> pd.DataFrame:
        """What to change, the largest saving first: where, what it costs and saves, and the cure with its code."""
        found = self.analysis.opportunities.found if self.analysis.opportunities else ()
        rows = [
            (
                *(
                    one.rank,
                    one.title,
                    one.site.function,
                    one.site.file,
                    one.site.line,
                    one.site.thread,
                    one.site.range,
                ),
                *(one.phase, ", ".join(one.causes), one.count, one.bytes, one.cost_ns),
                *(one.saving.likely_ns, one.saving.low_ns, one.saving.high_ns),
                *(one.cure.id, one.cure.text, one.cure.code, one.cure.environment),
            )
            for one in found
        ]
        site = "rank title function file line thread range phase causes count bytes cost_ns"
        return _rows(f"{site} saving_ns saving_low_ns saving_high_ns cure advice code environment", rows)

    @property
    def findings(self) -> pd.DataFrame:
        """`severity, rule, title, advice, evidence`, what fired first."""
        rows = [
            (row.severity, row.rule, row.title, row.advice, "\n".join(row.evidence)) for row in self.analysis.findings
        ]
        return _rows("severity rule title advice evidence", rows)

    @property
    def causes(self) -> pd.DataFrame:
        """`event, unit, leaf, weight, share`: of the whole recording, heaviest first, every event for itself."""
        rows = [
            (event.event.name, event.event.unit, leaf, weight, weight / event.total if event.total else 0.0)
            for event in self.analysis.events
            for leaf, weight in sorted(event.by_leaf.items(), key=lambda entry: -entry[1])
            if weight
        ]
        return _rows("event unit leaf weight share", rows)

    @property
    def samples(self) -> pd.DataFrame:
        """One row a sample: time, thread, event, weight, cause, function (docs/formats.md)."""
        return self._table("samples")

    @property
    def ranges(self) -> pd.DataFrame:
        """One row a range: `name, domain, start_ns, end_ns, pid, tid, depth`."""
        return self._table("ranges")

    @property
    def range_causes(self) -> pd.DataFrame:
        """`range, domain, depth, event, unit, leaf, level, work, weight`; an empty range is the whole recording."""
        return self._table("leaves")

    @property
    def calls(self) -> pd.DataFrame:
        """One row a CUDA call; empty without a recording of calls."""
        return self._table("calls")

    @property
    def gpu_ops(self) -> pd.DataFrame:
        """One row a kernel, copy or migration; empty without a recording of the GPU's work."""
        return self._table("gpu_ops")

    @property
    def ledger(self) -> pd.DataFrame:
        """One row a call at one line of one thread that allocates memory of CUDA: what it asked for, got and holds."""
        ledger = self.analysis.ledger
        names = (
            "kind api line pid tid thread allocations frees requested_bytes granted_bytes live_bytes "
            "live_granted_bytes live_count peak_bytes peak_granted_bytes peak_ns unused_bytes reached_bytes "
            "last_copy_ns requested_by"
        )
        sites = ledger.sites if ledger else ()
        return _rows(names, [tuple(getattr(site, name) for name in names.split()) for site in sites])

    @property
    def blame(self) -> pd.DataFrame:
        """One row for the waits of a thread at one place for one holder at one place, longest first."""
        rows = [
            (
                *(row.wait, row.ns, row.count, row.longest_ns, row.longest_at_ns, row.certain),
                *(row.waiter.pid, row.waiter.tid, row.waiter.thread),
                *(row.waiter.site.function, row.waiter.site.file, row.waiter.site.line),
                *(str(row.holder.kind), row.holder.pid, row.holder.tid, row.holder.name),
                *(row.holder.site.function, row.holder.site.file, row.holder.site.line),
                *(", ".join(row.holder.causes), " < ".join(row.holder.stack)),
            )
            for row in (self.analysis.blame.rows if self.analysis.blame else ())
        ]
        return _rows(
            "wait ns count longest_ns longest_at_ns certainty pid tid thread function file line "
            "holder_kind holder_pid holder_tid holder_name holder_function holder_file holder_line holder_causes "
            "holder_stack",
            rows,
        )

    def save_page(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file; its path."""
        from pinprof.report.gather import build
        from pinprof.report.page.html import write_html

        target = Path(path)
        write_html(build(self.analysis), target)
        return target

    def page(self) -> str:
        """The report as HTML."""
        from pinprof import files

        with files.temporary_folder() as folder:
            return self.save_page(folder / "page.html").read_text("utf-8")

    def __repr__(self) -> str:
        return f"<pinprof result: {self.headline}>"

    def _table(self, name: str) -> pd.DataFrame:
        from pinprof.report.export.tables import tables

        return _frame(tables(self.analysis).get(name, {}))


class Recording:
    """A part of this program being recorded; see `record`."""

    def __init__(
        self, name: str, request: RecordRequest, output: str | os.PathLike[str] | None, *, force: bool, calibrate: bool
    ) -> None:
        self.name = name
        self._request, self._output, self._force, self._calibrate = request, output, force, calibrate
        self.path: Path | None = None
        """The capture, once it is whole."""
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """The recording, explained; CollectError before it has ended."""
        if self.path is None:
            raise CollectError("The recording is still running.", "Use the result after the with block.", "recording")
        if self._result is None:
            self._result = open_result(self.path)
        return self._result

    def __enter__(self) -> Self:
        global _active
        with _starting:
            if _active is not None:
                raise CollectError(
                    f"This process is already being recorded ({_active.name!r}).",
                    "To mark a part of it, use `pinprof.phase(name)`.",
                    "recording",
                )
            _active = self
        try:
            self._begin()
        except BaseException:
            _active = None
            raise
        return self

    def _begin(self) -> None:
        from pinprof import recording
        from pinprof.collect.within import OwnRecording
        from pinprof.scenario import ranges

        target = Path(self._output or default_path(self.name))
        self._writer = recording.create(self._request, target, sys.orig_argv, force=self._force)
        ranges.prepare()
        try:
            self._session = OwnRecording(self._request, self._writer.path)
        except BaseException:
            self._writer.discard()
            raise
        self._pid = os.getpid()
        self._phase = ranges.PhaseInto(self.name, self._writer.ranges)

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        global _active
        from pinprof import recording

        if os.getpid() != self._pid:
            # A forked child that leaves the block: it is recorded, but the recording is its parent's.
            return
        self._phase.end()
        try:
            outcome = self._session.stop(interrupted=kind is not None)
        finally:
            _active = None
        recorded = recording.finish(
            self._writer, outcome, calibrate=_in_silence if self._calibrate else None, running=True
        )
        self.path = recorded.path
        if recorded.broken_off is not None:
            raise recorded.broken_off
        if outcome.failure is not None and kind is None:
            raise outcome.failure

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Record every call of a function, each into a capture of its own; the last one is `wrapped.recording`."""
        if inspect.iscoroutinefunction(function):
            return self._coroutine(function)

        @functools.wraps(function)
        def recorded(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            with self._again() as recording:
                result = function(*arguments, **keywords)
            recorded.recording = recording  # type: ignore[attr-defined]
            return result

        return recorded

    def _again(self) -> Recording:
        return Recording(self.name, self._request, self._output, force=self._force, calibrate=self._calibrate)

    def _coroutine(self, function: Callable[_P, Any]) -> Callable[_P, Any]:
        """The same for an `async def`: recorded from its first step to its end, with what else the loop runs."""

        @functools.wraps(function)
        async def recorded(*arguments: _P.args, **keywords: _P.kwargs) -> Any:
            with self._again() as recording:
                result = await function(*arguments, **keywords)
            recorded.recording = recording  # type: ignore[attr-defined]
            return result

        return recorded


def record(
    name: str = "recording",
    *,
    output: str | os.PathLike[str] | None = None,
    frequency: int = 999,
    fault_period: int = 64,
    off_cpu: bool = True,
    gpu: Literal["off", "uvm"] = "off",
    force: bool = False,
    calibrate: bool = True,
) -> Recording:
    """Record a part of this program: a context manager and a decorator.

    All threads of the process and all it starts are recorded from the first line of the block to its last, which is a
    range called `name`. The capture is `output`, or NAME-DATE.pinprof in the current directory. An exception inside
    ends the recording, which is kept, and goes on. `gpu="uvm"` records managed memory by the driver's events. Where
    `pinprof bench` has not measured this machine, some rates are measured after the block, for 3 seconds at most,
    without the GPU; `calibrate=False` leaves that out. PinprofError when the kernel does not allow it, or while another
    recording of this process runs.
    """
    from pinprof.collect import RecordRequest

    request = RecordRequest(
        ("/proc/self/exe",),
        own_process=True,
        frequency=frequency,
        fault_period=fault_period,
        off_cpu=off_cpu,
        cuda_calls=False,
        gpu=gpu,
        python="auto",
    )
    return Recording(name, request, output, force=force, calibrate=calibrate)


def _in_silence(_text: str) -> None: ...


def open_result(path: str | os.PathLike[str]) -> Result:
    """Read any recording that `pinprof report` reads; PinprofError when it cannot be."""
    from pinprof import analyze, read

    return Result(analyze.analyze(read.read(Path(path), read.ReadOptions())))


def default_path(name: str) -> Path:
    """`NAME-YYYYmmdd-HHMMSS.pinprof` in the current directory, numbered when that is taken."""
    from pinprof.store import default_name

    first = default_name(name)
    for number in range(2, 10_000):
        if not first.exists() and not Path(f"{first}.partial").exists():
            break
        first = default_name(f"{name}-{number}")
    return first


def _rows(columns: str, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    return _frame({name: [row[at] for row in rows] for at, name in enumerate(columns.split())})


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        raise ToolMissing("Tables need pandas.", "Install it: pip install 'pinprof[notebook]'.", "pandas") from None
    return pd.DataFrame(dict(columns))
