"""CUDA calls seen from inside the program: the agent (pinprof/inside/) in its environment, in place of probes."""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from pinprof.base.errors import CollectError, ToolMissing
from pinprof.collect import cuda_traced, permission
from pinprof.collect.collector import Collector, Setup, Tool
from pinprof.collect.late import LateAgent
from pinprof.collect.program import find_program
from pinprof.collect.request import RecordRequest
from pinprof.machine import elf_headers
from pinprof.machine.elf_headers import Headers
from pinprof.machine.libraries import INSIDE
from pinprof.streams import store

AGENT_VARIABLE = "PINPROF_INSIDE"
"""Environment variable: where the agent writes, an absolute path."""
RATE_VARIABLE = "PINPROF_INSIDE_RATE"
"""Environment variable: how often it looks where threads are, for each second of CPU time (timers.py)."""
PRELOAD = "LD_PRELOAD"
_DEEPEST = 32
"""Folders in which a program may lie."""
_SANITIZER, _ALLOWS_OTHERS = "ASAN_OPTIONS", "verify_asan_link_order=0"
"""Programs with AddressSanitizer refuse to run where a library is loaded before theirs, unless told that it may be."""


def _check(request: RecordRequest) -> None:
    """Raise where the agent is asked for and cannot come into the program."""
    if request.inside != "on":
        return
    if why := reason(request):
        raise CollectError(why, "Leave out --inside.", "inside")
    INSIDE.find()


def reason(request: RecordRequest) -> str:
    """Why the agent cannot come into the program; empty where it can."""
    if request.pid or request.own_process:
        return "The program is already running, and nothing is loaded into it at its start."
    return _refusal(find_program(request.command[0]))


def _refusal(executable: str) -> str:
    """Why the dynamic loader would not load the agent into a program; empty where it would."""
    try:
        status = Path(executable).stat()
        loader, own = _loader(executable), _loader(sys.executable)
    except (OSError, ValueError, IndexError, struct.error):
        return ""
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and os.getuid() != status.st_uid:
        return f"{executable} runs with other rights (setuid), so no library can be loaded into it."
    if not loader:
        return f"{executable} is linked statically, so no library can be loaded into it."
    if loader != own or "musl" in loader:
        return f"{executable} is for {loader}, but the agent for {own}, so it can't be loaded into it."
    return ""


def _loader(executable: str) -> str:
    """The name of the dynamic loader of a program, of a script's interpreter pinprof's own; empty where it has none.

    OSError, ValueError, IndexError or struct.error where it cannot be read.
    """
    with Path(executable).open("rb") as stream:
        if stream.read(2) == b"#!":
            return _loader(sys.executable)
        headers = Headers(stream)
        named = (part for part in headers.segments if part.kind == elf_headers.INTERPRETER)
        paths = (headers.bytes_at(part.offset, part.size).rstrip(b"\0") for part in named)
        return next((Path(os.fsdecode(path)).name for path in paths), "")


def _join(setup: Setup) -> Sequence[Tool]:
    """Put the agent into the program's environment, or note why not."""
    request, environment = setup.request, setup.environment
    environment.pop(AGENT_VARIABLE, None)  # under another pinprof it is that one's
    if "timers" not in request.collectors:
        environment.pop(RATE_VARIABLE, None)
    sampled = RATE_VARIABLE in environment
    traced = not request.cuda_calls or cuda_traced(request)
    if request.inside == "off" or (traced and not sampled):
        return []
    if request.own_process:
        return [LateAgent(setup)]
    if request.inside == "auto" and not sampled and reason(request):
        return []  # probes see them
    given = [path for path in environment.get(PRELOAD, "").replace(" ", ":").split(":") if path]
    others = [path for path in given if not Path(path).name.startswith(INSIDE.prefix)]
    try:
        library, folder = setup.agent(store.INSIDE)
    except ToolMissing as error:
        if request.inside == "on" or permission.probes_refused():
            setup.notes.append(f"CUDA calls were not recorded from inside: {error}")
    except CollectError as error:
        setup.notes.append(f"CUDA calls were not recorded from inside: {error}")
    else:
        if set(str(library)) & set(" :"):
            setup.notes.append(
                f"CUDA calls were not recorded from inside: the loader can't load libraries from {library.parent}, "
                "because the path has a space or a colon."
            )
            return []
        # Last: what the user preloads stands before it.
        environment |= {PRELOAD: ":".join([*others, for_glibc(library)]), AGENT_VARIABLE: str(folder)}
        options = [_ALLOWS_OTHERS, *filter(None, [environment.get(_SANITIZER)])]
        environment[_SANITIZER] = ":".join(dict.fromkeys(options))
    return []


def for_glibc(library: Path) -> str:
    """The library as glibc's loader alone finds it, which replaces `$ORIGIN` by the program's folder (ld.so(8)).

    musl's loader would end each of its programs that the recorded one starts: it lacks what the agent needs. glibc's
    asks /proc for that folder; where there is none, the path stands as it is.
    """
    if not Path("/proc/self/exe").exists():
        return str(library)
    return f"$ORIGIN{'/..' * _DEEPEST}{library}"


COLLECTOR = Collector(_join, check=_check, lost="CUDA calls are not recorded from inside")
