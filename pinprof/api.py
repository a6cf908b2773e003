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
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, Self, TypeVar, cast

from pinprof.base.errors import CollectError
from pinprof.result import Result, worded_for_python

if TYPE_CHECKING:
    from pinprof.collect import RecordRequest

_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)

_active: Recording | None = None
_starting = threading.Lock()
"""Held while the one that becomes `_active` is chosen: several threads may begin at once."""


def _forget() -> None:
    """A forked child has no recording of its own yet, nor the thread that may have held the lock."""
    global _active, _starting
    _active, _starting = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


class Recorded(Protocol[_P, _R_co]):
    """A function that `record` decorates."""

    recording: Recording
    """The recording of the last call that has ended."""

    def __call__(self, *arguments: _P.args, **keywords: _P.kwargs) -> _R_co:
        """Call and record the function."""
        ...

    def __get__(self, instance: object, owner: type | None = None, /) -> Callable[..., _R_co]:
        """The method of an instance."""
        ...


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
            with worded_for_python():
                self._begin()
        except BaseException:
            _active = None
            raise
        return self

    def _begin(self) -> None:
        from pinprof import collect, recording
        from pinprof.collect.within import OwnRecording
        from pinprof.scenario import ranges
        from pinprof.streams import store

        collect.check(self._request)
        target = Path(self._output or store.default_name(self.name))
        self._writer = recording.create(
            target,
            sys.orig_argv,
            force=self._force,
            numbered=None if self._output else functools.partial(store.numbered_name, target),
        )
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
            with worded_for_python():
                outcome = self._session.stop(interrupted=kind is not None)
        finally:
            _active = None
        with worded_for_python():
            calibrate = recording.Calibrating(_in_silence) if self._calibrate else None
            recorded = recording.finish(self._writer, outcome, calibrate=calibrate, running=True)
        self.path = recorded.path
        if recorded.broken_off is not None:
            raise recorded.broken_off
        if outcome.failure is not None and kind is None:
            raise outcome.failure

    def __call__(self, function: Callable[_P, _R]) -> Recorded[_P, _R]:
        """Record every call of a function, each into its own capture; `wrapped.recording` is the last one.

        The recording of an `async def` lasts from its first step to its end and includes whatever else the loop runs.
        """
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*arguments: _P.args, **keywords: _P.kwargs) -> Any:
                with self._again() as recording:
                    result = await function(*arguments, **keywords)
                decorated.recording = recording
                return result

            decorated = cast("Recorded[_P, _R]", awaited)
            return decorated

        @functools.wraps(function)
        def called(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            with self._again() as recording:
                result = function(*arguments, **keywords)
            decorated.recording = recording
            return result

        decorated = cast("Recorded[_P, _R]", called)
        return decorated

    def _again(self) -> Recording:
        return Recording(self.name, self._request, self._output, force=self._force, calibrate=self._calibrate)


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

    The recording covers all threads of the process and every process that it starts, from the first line of the block
    to its last. The block is a range called `name`. The capture is `output`, or NAME-DATE.pinprof in the current
    directory; `force` replaces an existing one. After an exception in the block the recording is kept, and the
    exception continues.

    `frequency` is in CPU samples per second and thread; `fault_period` is in page faults per sample. `off_cpu` records
    what threads wait for. CUDA calls and large memory are recorded inside this process and its forked children.
    `gpu="uvm"` records the driver's events of managed memory. If nobody has measured this machine, pinprof measures
    some memory costs after the block, for 3 seconds at most and without the GPU; `calibrate=False` skips this.

    Raises PinprofError if the kernel does not permit the recording, or if another recording of this process is running.
    """
    from pinprof.collect import RecordRequest

    request = RecordRequest(
        ("/proc/self/exe",),
        own_process=True,
        frequency=frequency,
        fault_period=fault_period,
        off_cpu=off_cpu,
        gpu=gpu,
        python="auto",
    )
    return Recording(name, request, output, force=force, calibrate=calibrate)


def _in_silence(_text: str) -> None: ...


def open_result(
    path: str | os.PathLike[str],
    *,
    kallsyms: str | os.PathLike[str] | None = None,
    symfs: str | os.PathLike[str] | None = None,
    ranges: str | os.PathLike[str] | None = None,
    torch: Iterable[str | os.PathLike[str]] = (),
) -> Result:
    """Read any recording that `pinprof report` reads.

    `kallsyms` is a copy of the recording kernel's /proc/kallsyms, `symfs` a folder with the recorded binaries, `ranges`
    a file of NVTX ranges as JSON lines, and `torch` files of PyTorch: a memory snapshot, counts as JSON. Raises
    PinprofError if the recording cannot be read.
    """
    from pinprof import analyze, read

    files = tuple(map(Path, torch))
    options = read.ReadOptions(kallsyms=_path(kallsyms), symfs=_path(symfs), ranges=_path(ranges), torch=files)
    with worded_for_python():
        return Result(analyze.analyze(read.read(Path(path), options)))


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)
