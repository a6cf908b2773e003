"""The perf collector: `perf record` attached to the program, CPU clock and page faults, both with call chains.

    cpu-clock/freq=F/       where CPU time goes, user and kernel; an hrtimer, so it works in every virtual machine
    page-faults/period=P/   which code touches memory first, with the address (-d); blind to faults inside pins
    context-switches, --switch-events
                            each time a thread leaves a processor, with its stack, and when it comes back: what it
                            waits for, and how long
    -k CLOCK_MONOTONIC      the clock of ranges.jsonl
    -D -1 --control         events off until told: for a scenario by the scenario, else when the program starts
    --buildid-mmap          build ids in the mapping records, so perf need not search its own file at the end

Facts about perf are from its sources (tools/perf/builtin-record.c, util/evlist.c, 5.10 to 6.12) and perf-record(1).
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from pinprof.base.errors import CollectError, ToolMissing
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect import perf_host_name, permission
from pinprof.collect.collector import SAMPLES_LOST, Collector, Setup, Tool, ToolResult, Waiter
from pinprof.collect.control import Control, sampler_control
from pinprof.collect.limits import check_request
from pinprof.collect.proc import tree
from pinprof.collect.program import Program
from pinprof.collect.recorder import Recorder, printed_lines, unstarted
from pinprof.collect.request import RecordRequest
from pinprof.machine import small_files
from pinprof.machine.children import asked
from pinprof.streams.store import LOG, PERF_DATA

START_TIMEOUT_S = 60.0
"""perf -a first lists every process of the machine."""

_PING_PATIENCE_S = 1.0
_EVENTS_DISABLED = b"Events disabled"
"""EVLIST_DISABLED_MSG: what perf before 5.12, which has no `ping`, prints once it is ready."""

_LINUX_TOOLS = "/usr/lib/linux-tools"
"""Where Ubuntu keeps perf for each kernel; its /usr/bin/perf refuses to run for any other."""

_LBR_DEPTH = ("cpu/caps/branches", "cpu_core/caps/branches")
_PMUS = Path("/sys/bus/event_source/devices")


@dataclass(frozen=True)
class Perf:
    """The perf binary to use and what it can do."""

    path: str
    version: str
    buildid_mmap: bool


def check(request: RecordRequest) -> None:
    """Raise before anything is written when this request cannot be recorded here."""
    check_request(request)
    perf = find_perf()
    permission.require(perf.path, system_wide=request.system_wide)
    if request.pid and not request.system_wide and not permission.granted_to(perf.path):
        permission.require_process(request.pid, kernel=True)
    if request.call_graph == "lbr" and not _has_lbr():
        raise CollectError(
            "This machine has no last-branch records, which --call-graph lbr needs. "
            "Recent Intel CPUs have them; virtual machines rarely do.",
            "Use --call-graph fp, or dwarf for programs without frame pointers.",
            "call-graph",
        )


class AttachedPerf(Tool):
    """perf, attached to a program that still waits; perf.data lies in the capture directory afterwards."""

    recorder: Recorder

    def __init__(self, setup: Setup) -> None:
        self._perf = find_perf()
        self._request, self._control = setup.request, sampler_control(setup)
        self._data, self._log = setup.directory / PERF_DATA, setup.directory / LOG

    def attach(self, program: Program) -> None:
        """Start perf."""
        request, control = self._request, self._control
        processes = tree(program.pid) if request.pid else [program.pid]
        argv = command_line(self._perf, request, control.paths, self._data, processes)
        self._pid, self._shown = program.pid, _shown(argv, request, processes, control)
        try:
            self.recorder = Recorder(argv, _perf_environment(), self._log)
        except OSError as error:
            raise CollectError(*unstarted("perf", error), "perf") from error

    def await_ready(self, waiter: Waiter) -> None:
        """Wait until perf has opened its events, and unless the program does so itself, switch them on."""
        started = ready = time.monotonic()
        for _ in self._control.asked("ping", waiter):
            self._still_starting()
            now = time.monotonic()
            if _EVENTS_DISABLED not in self._log.read_bytes():
                ready = now
            # A perf that takes long to begin may answer later: that answer would pass for the one to `enable`.
            if now - ready > _PING_PATIENCE_S:
                break
            if now - started > START_TIMEOUT_S:
                raise CollectError(
                    f"perf was not ready after {START_TIMEOUT_S:.0f} s.",
                    "Try again when the machine is less busy, or leave out --system-wide.",
                    "perf",
                )
        if not self._request.region_only:
            for _ in self._control.asked("enable", waiter):
                self._still_starting()
        self._control.close()

    def left_out(self) -> None:
        """Let go of the FIFOs as well, by which the program notices."""
        super().left_out()
        self._control.close()

    def result(self) -> ToolResult:
        """What it recorded with, and why that is not whole."""
        facts = {
            "name": "perf",
            "version": self._perf.version,
            "command": self._shown,
            "pid": self._pid,
            "options": self._request.sampler_options(off_cpu=records_switches(self._request)),
            "cpu_ns": self.recorder.cpu_ns,
        }
        perf_host_name.forget(self._data)
        return ToolResult(facts, failure=_failure(self.recorder, self._log))

    def _still_starting(self) -> None:
        """Raise when perf has ended before the program began."""
        if self.recorder.wait_status is not None:
            raise _start_failure(_complaints(self._log), self._request)


def find_perf() -> Perf:
    """The perf on the PATH, or Ubuntu's for another kernel, which serves as well; ToolMissing names the packages."""
    places = [shutil.which("perf"), *sorted(map(str, Path(_LINUX_TOOLS).glob("*/perf")), reverse=True)]
    for path in filter(None, places):
        version = _output(path, "version").removeprefix("perf version ").strip()
        # Ubuntu's wrapper prints a warning of several lines instead.
        if re.match(r"\d+\.\d+", version):
            break
    else:
        raise ToolMissing(
            f"{places[0]} does not run." if places[0] else "perf is not installed.",
            "Install it: `apt install linux-perf` (Debian), `apt install linux-tools-$(uname -r)` (Ubuntu), "
            "`dnf install perf` (Fedora, RHEL).",
            "perf-missing",
        )
    options = _output(path, "record", "-h")
    if "--control" not in options:
        raise ToolMissing(
            f"perf {version} is too old: it lacks perf record --control (Linux 5.10).",
            "Install perf of Linux 5.10 or newer; it also works on older kernels.",
            "perf-missing",
        )
    return Perf(path, version, "--buildid-mmap" in options and _kernel_version() >= (5, 12))


def command_line(perf: Perf, request: RecordRequest, control: str, output: Path, processes: Sequence[int]) -> list[str]:
    """The arguments of `perf record` for a request."""
    mode = "dwarf" if request.call_graph == "dwarf" else "fp"
    events = [f"cpu-clock/freq={request.frequency}/", f"page-faults/period={request.fault_period}/"]
    if request.call_graph == "lbr":
        # Only hardware events have last-branch records; time and faults stay with their own events.
        events.append(f"cycles/freq={request.frequency},call-graph=lbr/")
    if records_switches(request):
        events.append("context-switches/period=1/")
    argv = [perf.path, "record"]
    for event in events:
        argv += ["-e", event]
    argv += ["-d", "--sample-cpu", "-k", "CLOCK_MONOTONIC", "-g", "--call-graph", mode]
    argv += ["--switch-events"] if records_switches(request) else []
    # Otherwise perf reads the whole file again to find build ids; never copy binaries into ~/.debug.
    argv += ["--buildid-mmap"] if perf.buildid_mmap else ["-N"]
    argv += _ring_size(request)
    argv += ["-D", "-1", "--control", f"fifo:{control}", "-o", str(output)]
    # `cat` ends when pinprof does (base.Recorder); perf alone would sample every CPU for ever.
    return [*argv, *(["-a", "--", "cat"] if request.system_wide else ["-p", _listed(processes)])]


def _listed(processes: Sequence[int]) -> str:
    return ",".join(map(str, processes))


def records_switches(request: RecordRequest) -> bool:
    """Whether time off the CPU is recorded: not with call chains that only perf can make, which it would write
    without the switches that end each wait.
    """
    return request.off_cpu and request.call_graph == "fp"


def _ring_size(request: RecordRequest) -> list[str]:
    """`-m`: one buffer per CPU, large enough for half a second between two reads, 512 MiB together at most.

    Without root the kernel's limit on locked memory (perf_event_mlock_kb) decides, and perf takes all of it.
    """
    if os.geteuid() != 0:
        return []
    megabytes = 8 if request.call_graph == "dwarf" else 2
    while megabytes > 1 and megabytes * (os.cpu_count() or 1) > 512:
        megabytes //= 2
    return ["-m", f"{megabytes}M"]


def _start_failure(complaints: str, request: RecordRequest) -> CollectError:
    """What perf's complaints mean when it ends before the program began."""
    if re.search(r"paranoid|permission|not permitted|access to performance", complaints, re.IGNORECASE):
        number = permission.sampling_errno(system_wide=request.system_wide)
        return permission.refusal(number or 1, system_wide=request.system_wide)
    if "mmap" in complaints:
        return permission.buffers_refused("perf")
    reason = complaints.partition("\n")[0] or "it printed no message"
    return CollectError(
        f"perf did not start recording: {reason.rstrip('.')}.", "`pinprof doctor` checks what it needs.", "perf"
    )


def _failure(recorder: Recorder, log: Path) -> CollectError | None:
    """Why the recording is not whole: perf ended before the program, or could not finish its file."""
    if not recorder.died_first and recorder.ended_well:
        return None
    complaints = _complaints(log)
    full = "No space left" in complaints or "quota exceeded" in complaints.lower()
    return recorder.unfinished("perf", "perf", disk_full=full, reason=complaints.partition("\n")[0])


def _complaints(log: Path) -> str:
    """What perf printed besides its usual progress, made of printable characters."""
    usual = ("[ perf record:", "Events ", "Error:", "WARNING:")
    return "\n".join(line for line in printed_lines(log) if not line.startswith(usual))[:4000]


def _perf_environment() -> dict[str, str]:
    """Ours, with perf's messages in English and no user's perf configuration."""
    return {**os.environ, "LC_ALL": "C", "PERF_CONFIG": os.devnull}


def _shown(argv: Sequence[str], request: RecordRequest, processes: Sequence[int], control: Control) -> list[str]:
    """The command line for people: without places and numbers that mean nothing after the run."""
    places = {_listed(processes): "PID", f"fifo:{control.paths}": "fifo:CTL,ACK", argv[argv.index("-o") + 1]: PERF_DATA}
    shown = ["perf", *(places.get(word, word) for word in argv[1:])]
    return shown[: shown.index("--")] if request.system_wide else shown


def _has_lbr() -> bool:
    """Whether the CPU reports a depth of its last-branch records (sysfs, Linux 5.11)."""
    return any((small_files.number(_PMUS / name) or 0) > 0 for name in _LBR_DEPTH)


def _kernel_version() -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _output(*command: str) -> str:
    """Everything a short command of perf's prints; empty when it cannot run."""
    return asked(*command, environment=_perf_environment(), errors=True).output


COLLECTOR = Collector(
    lambda setup: [AttachedPerf(setup)], check, samples=True, leaves=(PERF_DATA,), forks=True, lost=SAMPLES_LOST
)
