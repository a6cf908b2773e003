"""The nsys collector: Nsight Systems around the whole program, its SQLite export in the capture.

    --trace=cuda,nvtx,osrt                  CUDA calls and GPU work, ranges, blocking calls into libc
    --cuda-um-{cpu,gpu}-page-faults=true    faults on managed memory, off by default
    --cuda-memory-usage=true                allocations of device, managed and pinned host memory
    --sample=process-tree --backtrace=fp    CPU samples; off when perf samples the same run, which sees more
    --wait=primary --kill=none              a daemon that the program leaves is neither waited for nor killed

The whole process is traced, and reading restricts a scenario to its measured region: a capture range
(--capture-range=nvtx) starts and ends collections inside the program, costs milliseconds there, and is never reached
where nsys does not see the range, as 2022.4 does not those of Python's nvtx since 0.2.17. Options that this nsys does
not have are left out, with a note. What each version has is asked of its --help.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import CollectError, PinprofError, ToolMissing, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect import chosen, clocks, nsys_export
from pinprof.collect.collector import Collector, Launcher, Setup, ToolResult, Waiter
from pinprof.collect.nsys_launch import LaunchedProgram, NsysRecorder, adopted, listen, private_folder
from pinprof.collect.program import HeldSignals, find_program
from pinprof.collect.recorder import STOP_SIGNALS, printed_lines
from pinprof.collect.request import RecordRequest
from pinprof.collect.signals import wait_for
from pinprof.machine import nsys as tool
from pinprof.streams.store import LOG, NSYS_REPORT, NSYS_SQLITE, PERF_DATA

START_TIMEOUT_S = 120.0
"""nsys asks every GPU before it starts anything."""
MOST_STARTS = 3
"""How often nsys is started that fails."""

_OUTPUT = "nsys"
_REPORTS = (f"{_OUTPUT}.nsys-rep", f"{_OUTPUT}.qdrep", f"{_OUTPUT}.qdstrm")
_OPTION = re.compile(r"^\s+(?:-\w, )?--([a-z][a-z-]+)=", re.MULTILINE)
_CLOCK_PERIODS = re.compile(r"between (\d+) and (\d+)\.\s+The number of CPU Clock \(sw\)")
"""nsys's help names the event that it would sample on this machine."""
_KEPT_VARIABLES = ("PATH", "HOME", "LD_LIBRARY_PATH")
_REQUIRED = ("trace", "output")
_ASKED = {
    "cuda-memory-usage": "allocations",
    "cuda-um-cpu-page-faults": "CPU faults on managed memory",
    "cuda-um-gpu-page-faults": "GPU faults on managed memory",
}
_SAMPLES_WELL = (2023, 1)
"""Older ones can go round in circles for ever over perf events of processes that have ended (2022.4 on Linux 6.18: two
runs in three with any child process), and their unfinished streams cannot be imported."""
_USUAL = re.compile(
    r"Generat|Importer error status|Unable to retrieve the importer|^WARNING|^Try|^/|\[=*\d+%|^Collecting|^Processing"
)


@dataclass(frozen=True)
class Nsys:
    """The nsys binary to use and what it can do."""

    path: Path
    version: str
    options: frozenset[str]

    @property
    def number(self) -> tuple[int, ...]:
        """`(2022, 4)`; empty when unknown."""
        return tuple(int(part) for part in self.version.split(".")[:2] if part.isdecimal())

    clock_periods: tuple[int, int] | None
    """Bounds of the sampling period where samples count CPU-clock nanoseconds; None where they count something else."""


def find_nsys() -> Nsys:
    """The preferred nsys of this machine; ToolMissing when there is none that runs."""
    installed = tool.find_nsys()
    if not installed:
        raise ToolMissing(
            "nsys, the recorder of Nsight Systems, is not installed.",
            "Install Nsight Systems (or Nsight Compute, which contains it), or set $NSYS to its path.",
            "nsys-missing",
        )
    text = _help(installed[0])
    options = frozenset(_OPTION.findall(text))
    if not options.issuperset(_REQUIRED):
        reason = (text.strip().splitlines() or ["it printed no message"])[-1].rstrip(".")
        raise ToolMissing(
            f"{installed[0]} does not run: {reason}.",
            f"Repair its installation, or set ${tool.LIBRARY_VARIABLE} to the folder that holds the missing library.",
            "nsys-library",
        )
    bounds = _CLOCK_PERIODS.search(text)
    periods = (min(int(bounds[1]), int(bounds[2])), max(int(bounds[1]), int(bounds[2]))) if bounds else None
    return Nsys(installed[0], tool.version_of(installed[0]) or "unknown", options, periods)


def check(request: RecordRequest) -> None:
    """Raise before anything is written when this request cannot be recorded here."""
    find_program(request.command[0])
    if request.frequency < 1:
        raise UsageError(
            f"{request.frequency} Hz is not a valid frequency.", "Give --frequency 1 or more.", "frequency"
        )
    find_nsys()


def command_line(nsys: Nsys, request: RecordRequest, output: Path, *, samples: bool) -> tuple[list[str], list[str]]:
    """`nsys profile` and its options for a request, and notes about what this version cannot do."""
    scheduling = nsys.number >= _SAMPLES_WELL
    wanted = {
        "output": str(output),
        "force-overwrite": "true",
        "trace": "cuda,nvtx,osrt",
        **dict.fromkeys(_ASKED, "true"),
        "sample": "process-tree" if samples and scheduling else "none",
        "cpuctxsw": "process-tree" if scheduling else "none",
        "wait": "primary",
        "kill": "none",
        "show-output": "false",
        "stats": "false",
    }
    if samples and scheduling:
        wanted |= {"backtrace": request.call_graph, "samples-per-backtrace": "1"}
        if nsys.clock_periods:
            low, high = nsys.clock_periods
            wanted["sampling-period"] = str(min(max(10**9 // request.frequency, low), high))
    argv = [str(nsys.path), "profile", *(f"--{name}={value}" for name, value in wanted.items() if name in nsys.options)]
    missing = [what for name, what in _ASKED.items() if name not in nsys.options]
    notes = [f"nsys {nsys.version} cannot record {what}." for what in missing]
    if not scheduling:
        instead = "Record perf,nsys for CPU samples." if samples else "perf samples the CPU."
        notes.append(f"nsys {nsys.version} did not sample the CPU or trace scheduling, because it can hang. {instead}")
    return argv, notes


class Launched(Launcher):
    """nsys at work on a program that it launches."""

    recorder: NsysRecorder

    def __init__(self, setup: Setup) -> None:
        self._nsys = find_nsys()
        self._request, self._directory, self._environment = setup.request, setup.directory, setup.environment
        self._log = setup.directory / LOG
        self._folder = setup.places.enter_context(private_folder())
        samples = not any(part.samples for part in chosen(setup.request))
        self._argv, self._notes = command_line(self._nsys, setup.request, self._folder / _OUTPUT, samples=samples)

    def launch(self, signals: HeldSignals) -> LaunchedProgram:
        """Start nsys, and the program behind its gate."""
        folder = self._folder
        self.program = LaunchedProgram(self._request.command, self._environment, signals)
        given = _nsys_environment(folder)
        deadline = time.monotonic() + START_TIMEOUT_S
        with closing(listen(folder)) as server:
            self._start(given)
            try:
                failures: list[CollectError] = []
                while not self._await(server, deadline):
                    failures.append(self._start_failure())
                    if len(failures) == MOST_STARTS:
                        raise failures[0]
                    # Nothing of the program has run, and agents can fail over what others left in shared memory.
                    self._start(given)
                if failures:
                    self._notes.append(f"{failures[0].problem} pinprof started it again.")
                self._launch(server, given, deadline)
            except BaseException:
                self.program.abandon()
                self.recorder.finish()
                raise
        return self.program

    def await_ready(self, waiter: Waiter) -> None:
        """The program waits, so nsys has been ready; note the time on both clocks."""
        waiter.wait_ready(0)
        self._utc_offset_ns = clocks.utc_offset_ns()

    def result(self) -> ToolResult:
        """Export what nsys left, without what is private."""
        facts = {
            "name": "nsys",
            "version": self._nsys.version,
            "command": ["nsys", *(word for word in self._argv[1:] if not word.startswith("--output="))],
            "pid": self.program.pid,
            "utc_offset_ns": self._utc_offset_ns,
            "options": {"report_kept": self._request.keep_report},
        }
        failure = self._export()
        return ToolResult(facts, tuple(self._notes), failure)

    def _export(self) -> CollectError | None:
        """Leave in the capture what nsys recorded; what is to say of that which is missing."""
        died = self.recorder.died_first or not self.recorder.ended_well
        if (report := self._report(_REPORTS)) is None:
            how = "was ended by a signal" if died else f"left no report ({_complaint(self._log) or 'no message'})"
            return _failed(f"nsys {how}; the rest of the recording is kept.", "Record again, or see collector.log.")
        try:
            export = tool.export_sqlite(report, self._folder)
            nsys_export.scrub(export, self._directory / NSYS_SQLITE, left_out=self._shims)
        except KeyboardInterrupt:
            (self._directory / NSYS_SQLITE).unlink(missing_ok=True)
            if not (self._directory / PERF_DATA).exists():
                raise
            broken_off = "The nsys export was interrupted. The rest of the recording is kept."
            return _failed(broken_off, "Record again, and let the export finish.")
        except (PinprofError, OSError) as error:
            files.copied(report, self._directory / (NSYS_REPORT if report.suffix != ".qdstrm" else "nsys.qdstrm"))
            reason, remedy = f"{getattr(error, 'strerror', '')}.", "Free some disk space, and record again."
            if isinstance(error, PinprofError):
                reason, remedy = error.problem, error.remedy
            problem = f"The nsys report could not be exported: {reason} The capture keeps the report, which holds"
            return _failed(f"{problem} the program's environment and the machine's process list.", remedy)
        if self._request.keep_report:
            files.copied(self._report(_REPORTS[:2]) or report, self._directory / NSYS_REPORT)
            self._notes.append(
                f"{NSYS_REPORT} holds the program's whole environment and the machine's process list: "
                "remove it before sharing the capture."
            )
        ended = "nsys ended before it had finished; the recording up to then is kept."
        return _failed(ended, "Record again.") if died else None

    def _report(self, names: Sequence[str]) -> Path | None:
        return next((path for name in names if (path := self._folder / name).is_file()), None)

    def _start(self, given: Mapping[str, str]) -> None:
        try:
            self.recorder = NsysRecorder(self._argv, given, self._log, self._folder)
        except OSError as error:
            raise _failed(f"nsys cannot be started: {error.strerror}.", "Reinstall Nsight Systems.") from error

    def _launch(self, server: socket.socket, given: Mapping[str, str], deadline: float) -> None:
        """Hand the program over to the shim that calls, and hear its pid."""
        line, _ = server.accept()
        line.setblocking(True)
        self.recorder.line = line
        self.program.hand_over(line, given)
        answer = line.recv(256) if self._await(line, deadline) else b""
        if not answer:
            raise self._start_failure()
        pid, self._shims = adopted(answer)
        self.program.adopt(pid)

    def _await(self, readable: socket.socket, deadline: float) -> bool:
        """Whether there is something to read, rather than nsys ending first."""
        while not select.select([readable], [], [], 0.05)[0]:
            if (caught := wait_for(STOP_SIGNALS, 0)) is not None:
                raise KeyboardInterrupt(caught.number)
            if self.recorder.reap():
                return False
            if time.monotonic() > deadline:
                late = f"nsys had not started the program after {START_TIMEOUT_S:.0f} s."
                raise _failed(late, "Check whether `nsys profile true` works, and run `pinprof doctor`.")
        return True

    def _start_failure(self) -> CollectError:
        reason = _complaint(self._log) or "it printed no message"
        remedy = "Check whether `nsys profile true` works, and run `pinprof doctor` to check its shared memory."
        return _failed(f"nsys did not start the program: {reason}.", remedy)


def _failed(problem: str, remedy: str) -> CollectError:
    return CollectError(problem, remedy, "nsys-failed")


def _nsys_environment(folder: Path) -> dict[str, str]:
    """As little as nsys needs: it stores its environment in the report."""
    own = tool.tool_environment()
    kept = {name: own[name] for name in _KEPT_VARIABLES if name in own}
    return {**kept, "LANG": "C.UTF-8", "TMPDIR": str(folder)}


def _complaint(log: Path) -> str:
    """The first thing nsys printed besides its usual progress, without a full stop."""
    return next((line.rstrip(".")[:300] for line in printed_lines(log) if not _USUAL.search(line)), "")


def _help(path: Path) -> str:
    try:
        return tool.run([str(path), "profile", "--help"]).output
    except OSError as error:
        return error.strerror or str(error)


COLLECTOR = Collector(
    lambda setup: [Launched(setup)],
    check,
    launches=True,
    traces_cuda=True,
    leaves=(NSYS_SQLITE,),
    forks=True,
    lost="Nsight Systems records nothing",
)
