"""Python's own functions and lines in the stacks: CPython's perf trampoline, and py-spy beside the sampler.

    trampoline   CPython from 3.12 on, told by PYTHONPERFSUPPORT=1, gives every Python function a piece of machine code
                 of its own and names it in /tmp/perf-PID.map: exact functions, no lines. Of use only where the
                 interpreter was built with frame pointers, which is rare, and calls of Python functions cost up to
                 twice as much
    py-spy       reads the interpreter's frames from outside, RATE times a second, with lines, in CPython from 3.8 on
                 (threads are told apart from 3.11 on); the program does nothing else than without it

So `auto` takes py-spy, and the trampoline only where there is no py-spy and chains will reach it. Neither is used for
scenarios, which measure themselves, unless asked for.
Sources: docs.python.org/3/howto/perf_profiling.html, github.com/benfred/py-spy.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinprof.collect import chosen
from pinprof.collect.collector import Collector, Setup, Tool, ToolResult
from pinprof.collect.program import Program
from pinprof.collect.recorder import Recorder
from pinprof.collect.request import RecordRequest
from pinprof.errors import CollectError, ToolMissing, UsageError
from pinprof.store import LOG, PYTHON_STACKS

MODES = ("auto", "py-spy", "trampoline", "both", "off")
VARIABLE = "PYTHONPERFSUPPORT"
MAX_RATE = 1000

_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_CAP_SYS_PTRACE = 19
TRAMPOLINE = "perf trampoline"

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?d?")
_MOST_WORDS = 6
"""The first line of a script has no more: `#!/usr/bin/env -S python3 -u`."""
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
_INSTALL = "Install it with: pip install py-spy, or record with --python trampoline."


@dataclass(frozen=True)
class Plan:
    """What a recording does about Python."""

    environment: Mapping[str, str]
    """Added to the program's."""
    py_spy: str
    """Its path; empty when it does not take part."""
    notes: tuple[str, ...] = ()


NOTHING = Plan({}, "")


def plan(request: RecordRequest) -> Plan:
    """What to do for a request; raises where it asks for what is not to be had."""
    if request.python not in MODES:
        problem = f"There is no way {request.python!r} to see Python functions."
        raise UsageError(problem, f"Choose one of {', '.join(MODES)}.", "python")
    if not 1 <= request.python_rate <= MAX_RATE:
        problem = f"py-spy cannot look {request.python_rate} times a second."
        raise UsageError(problem, f"Give --python-rate 1 to {MAX_RATE}.", "python")
    if not any(part.samples for part in chosen(request)):  # Python's stacks have nothing to fit into
        if request.python in ("auto", "off"):
            return NOTHING
        problem = f"--python {request.python} needs a sampler beside it, and nsys alone is none."
        raise UsageError(problem, "Record with auto, or with native or perf beside nsys.", "python")
    if request.pid and request.python in ("trampoline", "both"):
        problem = "The perf trampoline cannot be switched on in a program that runs already."
        raise UsageError(problem, "Give --python py-spy, or start the program with pinprof.", "python")
    mode = "off" if request.python == "auto" and request.region_only else request.python
    if mode == "auto":
        return _best(request)
    path = find_py_spy() if mode in ("py-spy", "both") else None
    if mode in ("py-spy", "both"):
        if path is None:
            raise ToolMissing("py-spy, which reads Python's lines, is not installed.", _INSTALL, "py-spy-missing")
        if reason := forbidden():
            problem = f"py-spy may not read the program's memory: {reason}."
            raise CollectError(problem, ALLOW, "py-spy-permission")
    return Plan(_switched_on() if mode in ("trampoline", "both") else {}, path or "")


def _best(request: RecordRequest) -> Plan:
    """What serves best here, without an error where nothing does."""
    path, reason = find_py_spy(), forbidden()
    if path and not reason:
        return Plan({}, path)
    python = interpreter_of(request.command[0]) if request.command and not request.pid else None
    if python is None:
        return NOTHING
    why = f"py-spy may not read memory, as {reason}" if path else "py-spy is not installed (pip install py-spy)"
    if _has_trampoline(python, request.call_graph):
        return Plan(_switched_on(), "", (f"Python functions have no lines: {why}.",))
    return Plan({}, "", (f"Python functions are not shown: {why}.",))


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
        done = subprocess.run([python, "-I", "-S", "-c", _ASK], capture_output=True, text=True, timeout=20, check=False)
        supported, frame_pointers = (*done.stdout.split(), "0", "0")[:2]
        return supported == "1" and (frame_pointers == "1" or call_graph == "dwarf")
    return False


def find_py_spy() -> str | None:
    """The py-spy beside this interpreter, or on the PATH."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def version_of(py_spy: str) -> str:
    """`0.4.3`; empty when it cannot run."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([py_spy, "--version"], capture_output=True, text=True, timeout=20, check=False)
        return done.stdout.strip().removeprefix("py-spy ")
    return ""


class _Trampoline(Tool):
    """The trampoline that pinprof switched on: the program does all of it."""

    def result(self) -> ToolResult:
        """Its entry among the collectors."""
        options = {"interpreters": "CPython 3.12 and later"}
        return ToolResult({"name": TRAMPOLINE, "version": "", "command": [], "options": options})


class Beside(Tool):
    """py-spy at work on a program; `python-stacks.jsonl.gz` lies in the capture directory afterwards."""

    recorder: Recorder

    def __init__(self, py_spy: str, setup: Setup) -> None:
        self._py_spy, self._rate = py_spy, setup.request.python_rate
        self._log, self._output = setup.directory / LOG, setup.directory / PYTHON_STACKS

    def attach(self, program: Program) -> None:
        """Start the keeper; py-spy begins when the program runs Python."""
        # -P: not what lies in the current directory.
        argv = [sys.executable, "-P", "-m", "pinprof.collect.py_spy_keeper"]
        argv += [self._py_spy, str(program.pid), str(self._rate), str(self._output.resolve())]
        try:
            self.recorder = Recorder(argv, os.environ, self._log)
        except OSError as error:
            raise CollectError(f"py-spy cannot be started: {error.strerror}.", _INSTALL, "py-spy") from error

    def result(self) -> ToolResult:
        """How it went; what it did not see costs lines, not the recording."""
        options = ["--rate", str(self._rate), "--nonblocking", "--subprocesses", "--idle", "--full-filenames"]
        facts = {
            "name": "py-spy",
            "version": version_of(self._py_spy),
            "command": ["py-spy", "record", "--pid", "PID", "--format", "chrometrace", *options, "--threads"],
            "options": {"rate": self._rate},
        }
        if self.recorder.ended_well and not self.recorder.died_first:
            # By the SIGINT that asks it to finish, too: of a program that was over before the keeper could listen.
            return ToolResult(facts)
        what = "Python lines are missing from then on" if self._output.exists() else "Python lines are missing"
        return ToolResult(facts, (f"py-spy ended before the program did ({self._reason()}): {what}.",))

    def _reason(self) -> str:
        """What the keeper said last."""
        with contextlib.suppress(OSError):
            said = re.findall(r"^py-spy: ([ -~]+)$", self._log.read_text("utf-8", "replace"), re.MULTILINE)
            if said:
                return str(said[-1]).rstrip(".")
        return "it was killed"


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


def _join(setup: Setup) -> Sequence[Tool]:
    planned = plan(setup.request)
    setup.environment.update(planned.environment)
    setup.notes.extend(planned.notes)
    py_spy: list[Tool] = [Beside(planned.py_spy, setup)] if planned.py_spy else []
    return [*py_spy, *([_Trampoline()] if planned.environment else [])]


COLLECTOR = Collector(_join, plan)
