"""Python's own functions and lines in the stacks: frames read from outside, and CPython's perf trampoline.

    lines        python_frames/ reads the interpreter's frames, RATE times a second, with lines, in CPython from 3.11
                 on; the program does nothing else than without it
    trampoline   CPython from 3.12 on, told by PYTHONPERFSUPPORT=1, gives every Python function a piece of machine code
                 of its own and names it in /tmp/perf-PID.map: exact functions, no lines. Of use only where the
                 interpreter was built with frame pointers, which is rare, and a program that mostly calls Python
                 functions takes up to half as long again

So `auto` takes lines, and the trampoline only where memory may not be read and chains will reach it. Neither is used
for scenarios, which measure themselves, unless asked for. Source: docs.python.org/3/howto/perf_profiling.html.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pinprof import __version__
from pinprof.collect.base import Process, Recorder, RecordRequest, ToolResult, Waiting
from pinprof.collect.native.attached import collector_environment
from pinprof.errors import CollectError, UsageError
from pinprof.store import LOG, PYTHON_STACKS, CaptureWriter

MODES = ("auto", "lines", "trampoline", "both", "off")
VARIABLE = "PYTHONPERFSUPPORT"
MAX_RATE = 1000

_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_CAP_SYS_PTRACE = 19
_PR_SET_PTRACER = 0x59616D61
TRAMPOLINE = "perf trampoline"

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?d?")
_MOST_WORDS = 6
"""Of a script's first line: `#!/usr/bin/env -S python3 -u`."""
_ASK = (
    "import sys, sysconfig; get = sysconfig.get_config_var; flags = f\"{get('CFLAGS')} {get('PY_CORE_CFLAGS')}\"; "
    "print(int(bool(get('PY_HAVE_PERF_TRAMPOLINE'))), "
    "int('-fno-omit-frame-pointer' in flags or get('MULTIARCH') == 'aarch64-linux-gnu'))"
)
"""GCC keeps frame pointers on arm64 by itself."""
_MARK = b"py::"
ALLOW = (
    "Run `sudo sysctl kernel.yama.ptrace_scope=0`, or run pinprof as root or with CAP_SYS_PTRACE "
    "(in a container: --cap-add SYS_PTRACE)."
)
READY = "python lines: ready"
READY_TIMEOUT_S = 5.0
"""Nothing is lost but lines when it takes longer."""


@dataclass(frozen=True)
class Plan:
    """What a recording does about Python."""

    environment: Mapping[str, str]
    """Added to the program's."""
    lines: bool
    """Whether frames are read from outside."""
    notes: tuple[str, ...] = ()

    def results(self) -> list[ToolResult]:
        """The trampoline's entry among the collectors, if pinprof switched it on."""
        if VARIABLE not in self.environment:
            return []
        options = {"interpreters": "CPython 3.12 and later"}
        return [ToolResult({"name": TRAMPOLINE, "version": "", "command": [], "options": options})]


NOTHING = Plan({}, lines=False)


def served_by(collectors: Collection[str]) -> bool:
    """Whether one of the collectors samples stacks on CLOCK_MONOTONIC, into which Python's fit."""
    return not {"perf", "native"}.isdisjoint(collectors)


def plan(collectors: Collection[str], request: RecordRequest) -> Plan:
    """What to do for a request; raises where it asks for what is not to be had."""
    if request.python not in MODES:
        problem = f"There is no way {request.python!r} to see Python functions."
        raise UsageError(problem, f"Choose one of {', '.join(MODES)}.", "python")
    if not 1 <= request.python_rate <= MAX_RATE:
        problem = f"Python lines cannot be looked at {request.python_rate} times a second."
        raise UsageError(problem, f"Give --python-rate 1 to {MAX_RATE}.", "python")
    if not served_by(collectors):
        if request.python in ("auto", "off"):
            return NOTHING
        problem = f"--python {request.python} needs a sampler beside it, and nsys alone is none."
        raise UsageError(problem, "Record with auto, or with native or perf beside nsys.", "python")
    if request.pid and request.python in ("trampoline", "both"):
        problem = "The perf trampoline cannot be switched on in a program that runs already."
        raise UsageError(problem, "Give --python lines, or start the program with pinprof.", "python")
    mode = "off" if request.python == "auto" and request.region_only else request.python
    if mode == "auto":
        return _best(request)
    lines = mode in ("lines", "both")
    if lines and (reason := forbidden()):
        problem = f"pinprof may not read the program's memory: {reason}."
        raise CollectError(problem, ALLOW, "python-permission")
    return Plan(_switched_on() if mode in ("trampoline", "both") else {}, lines)


def _best(request: RecordRequest) -> Plan:
    """What serves best here, without an error where nothing does."""
    reason = forbidden()
    if not reason:
        return Plan({}, lines=True)
    python = interpreter_of(request.command[0]) if request.command and not request.pid else None
    if python is None:
        return NOTHING
    why = f"pinprof may not read its memory, as {reason}"
    if _has_trampoline(python, request.call_graph):
        return Plan(_switched_on(), lines=False, notes=(f"Python functions have no lines: {why}.",))
    return Plan({}, lines=False, notes=(f"Python functions are not shown: {why}.",))


def _switched_on() -> dict[str, str]:
    """The variable that switches the trampoline on; a value of the user's own, 0 included, stays."""
    return {} if VARIABLE in os.environ else {VARIABLE: "1"}


def interpreter_of(program: str) -> str | None:
    """The Python that a command runs, by its name or the script's first line; None when it is none."""
    path = shutil.which(program)
    if path is None or _PYTHON.fullmatch(Path(path).name):
        return path
    with contextlib.suppress(OSError), Path(path).open("rb") as script:
        words = script.readline(256).decode("utf-8", "replace").removeprefix("#!").split()
        named = next((word for word in words if _PYTHON.fullmatch(word.rpartition("/")[2])), None)
        return shutil.which(named) if named and len(words) <= _MOST_WORDS else None
    return None


def _has_trampoline(python: str, call_graph: str) -> bool:
    """Whether an interpreter has the trampoline, and chains of this kind reach it."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run([python, "-I", "-S", "-c", _ASK], capture_output=True, text=True, timeout=20, check=False)
        supported, frame_pointers = (*told.stdout.split(), "0", "0")[:2]
        return supported == "1" and (frame_pointers == "1" or call_graph == "dwarf")
    return False


class Beside:
    """The reader at work on a program; `python-stacks.jsonl.gz` lies in the capture directory afterwards."""

    def __init__(self, request: RecordRequest, writer: CaptureWriter, program: Process) -> None:
        self._rate, self._pid = request.python_rate, program.pid
        self._log, self._output = writer.path / LOG, writer.path / PYTHON_STACKS
        # -P: not what lies in the current directory.
        argv = [sys.executable, "-P", "-m", "pinprof.collect.python_frames"]
        argv += [str(program.pid), str(self._rate), str(self._output.resolve())]
        try:
            self.recorder = Recorder(argv, collector_environment(), self._log)
        except OSError as error:
            problem = f"The reader of Python lines cannot be started: {error.strerror}."
            raise CollectError(problem, "Record with --python off.", "python-lines") from error

    def await_ready(self, session: Waiting) -> None:
        """Wait until it can look, so that the first lines are seen too."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self.recorder.wait_status is None and not session.interruptions:
            if READY in self._said():
                return
            session.wait(0.01)

    def result(self) -> ToolResult:
        """How it went; what it did not see costs lines, not the recording."""
        facts = {"name": "python-lines", "version": __version__, "command": [], "options": {"rate": self._rate}}
        if self.recorder.ended_well and not self.recorder.died_first:
            # By the SIGINT that asks it to finish, too: of a program that was over before it could listen.
            return ToolResult(facts)
        what = "Python lines are missing from then on" if self._output.exists() else "Python lines are missing"
        return ToolResult(facts, (f"The reader of Python lines ended before the program did: {what}.",))

    def _said(self) -> str:
        with contextlib.suppress(OSError):
            return self._log.read_text("utf-8", "replace")
        return ""


def may_be_read_by(pid: int) -> None:
    """Let one process read the memory of this one, where Yama lets none but parents do."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def remove_maps(pids: Collection[int]) -> None:
    """Remove the perf maps that the trampoline left in /tmp, once they are in the capture.

    Only files of the program's own processes whose first line is the trampoline's: other compilers use the same names.
    """
    for pid in pids:
        path = Path(f"/tmp/perf-{pid}.map")  # noqa: S108 - CPython's choice
        try:
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            with path.open("rb") as lines:
                first = lines.readline(4096).split(b" ", 2)
            if len(first) == 3 and first[2].startswith(_MARK):
                path.unlink()
        except OSError:
            continue


def forbidden() -> str:
    """Why another process's memory may not be read here (ptrace(2), Yama); empty when it may."""
    if os.geteuid() == 0 or _capable(_CAP_SYS_PTRACE):
        return ""
    try:
        scope = int(_PTRACE_SCOPE.read_text())
    except (OSError, ValueError):
        return ""
    return f"kernel.yama.ptrace_scope is {scope}" if scope > 0 else ""


def _capable(capability: int) -> bool:
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text()
        return bool(int(status.split("CapEff:")[1].split()[0], 16) >> capability & 1)
    return False
