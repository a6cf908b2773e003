"""Python's own functions and lines in the stacks: frames read from outside, and CPython's perf trampoline.

    lines        python_frames/ reads the interpreter's frames, RATE times a second, with lines, in CPython from 3.11
                 on; the program does nothing else than without it
    py-spy       does the same at a lower rate, in CPython from 3.8 on: for interpreters that python_frames/ does not
                 know (py_spy.py)
    trampoline   CPython from 3.12 on, with PYTHONPERFSUPPORT=1, gives every Python function a piece of machine code
                 of its own and names it in /tmp/perf-PID.map: exact functions, no lines. Of use only where the
                 interpreter was built with frame pointers, which is rare, and a program that mostly calls Python
                 functions takes up to half as long again

So `auto` takes lines, py-spy where the interpreter is known to be older, and the trampoline only where memory may not
be read and chains will reach it. Neither is used for scenarios, which measure themselves, unless asked for.
Source: docs.python.org/3/howto/perf_profiling.html.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pinprof.base.errors import CollectError, ToolMissing, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect import chosen
from pinprof.collect.collector import Collector, Setup, Tool, ToolResult
from pinprof.collect.permission import allow, forbidden
from pinprof.collect.py_spy import INSTALL, PySpy, find_py_spy
from pinprof.collect.python_frames.beside import LineRecorder
from pinprof.collect.request import RecordRequest
from pinprof.machine.children import asked
from pinprof.machine.libraries import FRAMES

MODES = ("auto", "lines", "py-spy", "trampoline", "both", "off")
VARIABLE = "PYTHONPERFSUPPORT"
MAX_RATE = 1000
OLDEST = 3, 11
"""The first version whose frames python_frames/ reads."""

TRAMPOLINE = "perf trampoline"

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?d?")
_VERSION = re.compile(r"(?:lib)?python(\d)\.(\d+)[a-z]*(?:\.so[\d.]*)?")
"""Files that say by their names of which version they are."""
_MOST_WORDS = 6
"""The first line of a script has no more: `#!/usr/bin/env -S python3 -u`."""
_ASK_VERSION = "import sys; print('%d %d %d' % ((hasattr(sys, 'pypy_version_info'),) + tuple(sys.version_info[:2])))"
_ASK = (
    "import sys, sysconfig; get = sysconfig.get_config_var; flags = f\"{get('CFLAGS')} {get('PY_CORE_CFLAGS')}\"; "
    "print(int(bool(get('PY_HAVE_PERF_TRAMPOLINE'))), "
    "int('-fno-omit-frame-pointer' in flags or get('MULTIARCH') == 'aarch64-linux-gnu'))"
)
"""GCC keeps frame pointers on arm64 by itself."""
_MARK = b"py::"


@dataclass(frozen=True)
class Plan:
    """What a recording does about Python."""

    environment: Mapping[str, str]
    """Added to the program's."""
    lines: bool = False
    """Whether python_frames/ reads frames from outside."""
    py_spy: str = ""
    """Its path; empty when it does not take part."""
    notes: tuple[str, ...] = ()


NOTHING = Plan({})


def plan(request: RecordRequest) -> Plan:
    """What to do for a request; raises where it asks for what is not to be had."""
    if request.python not in MODES:
        problem = f"{request.python!r} is not a value of --python."
        raise UsageError(problem, f"Choose one of {', '.join(MODES)}.", "python")
    if request.python_rate is not None and not 1 <= request.python_rate <= MAX_RATE:
        problem = f"Python can't be sampled {request.python_rate} times per second."
        raise UsageError(problem, f"Give --python-rate 1 to {MAX_RATE}.", "python")
    if any(part.inside for part in chosen(request)):
        return NOTHING
    if not any(part.samples for part in chosen(request)):  # Python's stacks have nothing to fit into
        if request.python in ("auto", "off"):
            return NOTHING
        problem = f"--python {request.python} needs another recorder: nsys alone does not sample."
        raise UsageError(problem, "Record with auto, native,nsys or perf,nsys.", "python")
    if request.pid and request.python in ("trampoline", "both"):
        problem = "The perf trampoline can't be turned on in a running program."
        raise UsageError(problem, "Give --python lines, or start the program with pinprof.", "python")
    mode = "off" if request.python == "auto" and request.region_only else request.python
    if mode == "auto":
        return _best(request)
    lines, path = mode in ("lines", "both"), find_py_spy() if mode == "py-spy" else ""
    if path is None:
        raise ToolMissing("py-spy is not installed.", INSTALL, "py-spy-missing")
    if lines:
        FRAMES.find()
    if (lines or path) and (reason := forbidden()):
        who = "py-spy" if path else "pinprof"
        raise CollectError(
            f"{who} is not permitted to read the program's memory: {reason}.", allow(), "python-permission"
        )
    return Plan(_switched_on() if mode in ("trampoline", "both") else {}, lines, path)


def unreadable(request: RecordRequest) -> str:
    """Why the lines of a request's Python program can't be read from outside it; empty where they can or aren't asked
    for.
    """
    starts = request.command and not (request.pid or request.own_process)
    if request.python not in ("auto", "lines") or not starts or interpreter_of(request.command[0]) is None:
        return ""
    return forbidden()


def _best(request: RecordRequest) -> Plan:
    """What serves best here, without an error where nothing does."""
    own = request.own_process  # of an interpreter that pinprof runs in, and which lets the reader look
    python = interpreter_of(request.command[0]) if request.command and not request.pid else None
    if own or not (reason := forbidden()):
        version = _version_of_process(request.pid) if request.pid else _version(python) if python else None
        if not (why := _unread(version)):
            return Plan({}, lines=True)
        if not own and (path := find_py_spy()):
            return Plan({}, py_spy=path)
        return Plan({}, notes=(f"Python functions are not shown: {why}",))
    if python is None:
        return NOTHING
    why = f"pinprof is not permitted to read its memory, because {reason}. {allow()}"
    if _has_trampoline(python, request.call_graph):
        return Plan(_switched_on(), notes=(f"Python functions have no lines: {why}",))
    return Plan({}, notes=(f"Python functions are not shown: {why}",))


def _unread(version: tuple[int, int] | None) -> str:
    """Why python_frames/ does not read a version, and what to do; empty where it does."""
    if version is not None and version < OLDEST:
        return f"Python {version[0]}.{version[1]} needs py-spy, which is not installed. {INSTALL}"
    try:
        FRAMES.find()
    except ToolMissing as error:
        return str(error)
    return ""


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


@lru_cache
def _version(python: str) -> tuple[int, int] | None:
    """The version of CPython that a path runs; None where it is another, or does not say."""
    if named := _VERSION.fullmatch(Path(python).resolve().name):
        return int(named[1]), int(named[2])
    with contextlib.suppress(ValueError):
        done = asked(python, "-E", "-S", "-c", _ASK_VERSION)  # not -I, which Python 2 does not know
        pypy, major, minor = map(int, done.output.split())
        return None if pypy else (major, minor)
    return None


def _version_of_process(pid: int) -> tuple[int, int] | None:
    """The same for the interpreter in a process, by the names of its files."""
    with contextlib.suppress(OSError):
        mapped = {line.rpartition("/")[2].strip() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()}
        versions = {(int(named[1]), int(named[2])) for name in mapped if (named := _VERSION.fullmatch(name))}
        return max(versions, default=None)
    return None


def _has_trampoline(python: str, call_graph: str) -> bool:
    """Whether an interpreter has the trampoline, and chains of this kind reach it."""
    supported, frame_pointers = (*asked(python, "-I", "-S", "-c", _ASK).output.split(), "0", "0")[:2]
    return supported == "1" and (frame_pointers == "1" or call_graph == "dwarf")


class _Trampoline(Tool):
    """The trampoline that pinprof switched on: the program does all of it."""

    def result(self) -> ToolResult:
        """Its entry among the collectors."""
        options = {"interpreters": "CPython 3.12 and later"}
        return ToolResult({"name": TRAMPOLINE, "version": "", "command": [], "options": options})


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


def _join(setup: Setup) -> Sequence[Tool]:
    planned = plan(setup.request)
    setup.environment.update(planned.environment)
    setup.notes.extend(planned.notes)
    tools: list[Tool] = [LineRecorder(setup)] if planned.lines else []
    if planned.py_spy:
        tools.append(PySpy(planned.py_spy, setup))
    return [*tools, *([_Trampoline()] if planned.environment else [])]


COLLECTOR = Collector(_join, plan, forks=True, lost="Python functions and lines are not recorded")
