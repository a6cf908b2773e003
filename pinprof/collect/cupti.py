"""What the GPU did, without nsys: the agent, which CUDA's driver loads into the program, and its environment.

Files that the agent writes (`inside/cupti.c`) are read by `read/cupti_file.py`. CUPTI itself comes with CUDA's toolkit
and with PyTorch; the agent takes the copy that the program has loaded, else the first usable one that is found here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pinprof.base.errors import CollectError, PinprofError
from pinprof.collect import cuda_traced
from pinprof.collect.collector import Collector, Setup, Tool
from pinprof.collect.program import find_program
from pinprof.collect.request import RecordRequest
from pinprof.collect.uvm.beside import records_events
from pinprof.machine import linker_cache
from pinprof.machine.libraries import INSIDE
from pinprof.streams import store

LIBRARY_VARIABLE = "CUDA_INJECTION64_PATH"
"""Environment variable of CUDA's driver: the library to load."""
FOLDER_VARIABLE = "PINPROF_GPU"
"""Environment variable: where the library writes, an absolute path."""
CUPTI_VARIABLE = "PINPROF_CUPTI"
"""Environment variable: CUPTI's files in the order in which they are tried, separated by colons; the user's come first
and may be folders."""

BUDGET_VARIABLE = "PINPROF_GPU_BUDGET"
"""Environment variable: thousandths of the program's time that CUPTI may cost before its recording pauses, 1000 for any
cost. Where it is unset CUPTI records managed memory as well, at any cost."""
WINDOWS_VARIABLE = "PINPROF_GPU_WINDOWS"
"""Environment variable: set where recording comes back after a pause, in windows, and does not end with the first."""

_BUDGET, _ANY = 30, 1000
_PATTERN = "libcupti.so.1[1-9]*"
_FOLDERS = (
    "/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/opt/cuda/extras/CUPTI/lib64",
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
)  # fmt: skip
_MOST_FILES = 16


def _check(request: RecordRequest) -> None:
    """Raise where CUPTI is asked for by name and is not available."""
    if request.gpu != "cupti":
        return
    if request.pid or request.own_process:
        raise CollectError(
            "CUPTI can record a program only from its start, but this one is already running.",
            "Start the program with `pinprof record -- …`, or leave out --gpu cupti.",
            "gpu",
        )
    if reason := _refusal(request, os.environ):
        raise CollectError(reason, "Leave out --gpu cupti, or remove that tool.", "gpu")
    INSIDE.find()


def _refusal(request: RecordRequest, environment: Mapping[str, str]) -> str:
    """Why the work of the GPU is left to another tool; empty where it is not."""
    if cuda_traced(request):
        return "Nsight Systems already records the GPU's work, and two tools can't do so at once."
    given = environment.get(LIBRARY_VARIABLE, "")
    if given and not Path(given).name.startswith(INSIDE.prefix):
        return f"{LIBRARY_VARIABLE} is set: another tool records the GPU's work."
    return ""


def _join(setup: Setup) -> Sequence[Tool]:
    """Put the library into the program's environment, or note why not."""
    request = setup.request
    environment = setup.environment
    for name in (FOLDER_VARIABLE, BUDGET_VARIABLE, WINDOWS_VARIABLE):
        environment.pop(name, None)  # under another pinprof they are that one's
    if request.gpu == "off" or request.pid or request.own_process or cuda_traced(request):
        return []
    if reason := _refusal(request, environment):
        setup.notes.append(f"The GPU's work was not recorded. {reason}")
        return []
    try:
        library, folder = setup.agent(store.GPU)
    except PinprofError as error:
        setup.notes.append(f"The GPU's work was not recorded: {error}")
    else:
        found = candidates(find_program(request.command[0]), environment)
        environment |= {
            LIBRARY_VARIABLE: str(library), FOLDER_VARIABLE: str(folder), CUPTI_VARIABLE: ":".join(map(str, found)),
        }  # fmt: skip
        if request.gpu != "cupti":
            environment[BUDGET_VARIABLE] = str(_BUDGET)
            if request.gpu == "windows":
                environment[WINDOWS_VARIABLE] = "1"
        elif records_events(request):
            environment[BUDGET_VARIABLE] = str(_ANY)
    return []


def candidates(executable: str, environment: Mapping[str, str]) -> list[Path]:
    """Files that may be CUPTI, the user's first, then those beside the program's Python, then the toolkits'."""
    found: dict[Path, None] = {}
    for path in _places(executable, environment):
        with contextlib.suppress(OSError):
            for file in sorted(path.glob(_PATTERN), reverse=True) if path.is_dir() else [path]:
                if file.is_file() and ":" not in str(file):
                    found.setdefault(file.resolve())
    return list(found)[:_MOST_FILES]


def _places(executable: str, environment: Mapping[str, str]) -> Iterator[Path]:
    yield from (Path(path).absolute() for path in environment.get(CUPTI_VARIABLE, "").split(":") if path)
    # A virtual environment's interpreter is a link: its packages lie beside the link.
    yield from Path(executable).absolute().parent.parent.glob("lib/python3*/site-packages/nvidia/*/lib")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environment.get(name):
            yield from (Path(environment[name]) / part for part in ("extras/CUPTI/lib64", "lib64"))
    yield from (Path(folder) for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder)
    yield from map(Path, _FOLDERS)
    yield from Path("/usr/local").glob("cuda-*/extras/CUPTI/lib64")
    yield from (path for name, path in linker_cache.libraries() if name.startswith("libcupti.so.1"))


COLLECTOR = Collector(_join, check=_check, lost="GPU work is not recorded by CUPTI")
