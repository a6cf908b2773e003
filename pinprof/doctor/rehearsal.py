"""A rehearsal: a recording of a small program, made where recordings go, and what it has.

It is made by `pinprof record` itself, in a process of its own with a limit of time, so nothing that can go wrong in a
recording can stop or hang who asks.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinprof.base import files
from pinprof.base.errors import PinprofError, ToolMissing, system_error
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.trouble import UNRECORDED
from pinprof.machine.children import Limits, finding_pinprof, ran
from pinprof.machine.libraries import FRAMES, INSIDE, UNWINDING, Library
from pinprof.machine.process_limits import require_memory

LIMIT_S = 60.0
"""It takes a second where nothing else runs."""
_KERNEL = 1
_SLUG = re.compile(r" \[[\w-]+\]$")
_CLOCK, _TIMER = "cpu-clock", "cpu-timer"
_PROGRAM = """
import ctypes, json, mmap, sys, threading, time
woken = threading.Event()
threading.Thread(target=lambda: (time.sleep(0.05), woken.set())).start()
end = time.process_time() + 0.12
while time.process_time() < end:
    with mmap.mmap(-1, 1 << 20) as memory:
        memory.write(bytes(1 << 20))
woken.wait()
loaded = []
for path in sys.argv[2:]:
    try:
        loaded.append(path) if ctypes.CDLL(path) else None
    except OSError:
        pass
with open("/proc/self/maps") as maps:
    print(json.dumps({"inside": sys.argv[1] in maps.read(), "loaded": loaded}))
"""
"""It touches memory, waits for a thread, loads libraries, and says whether the agent is in it."""


@dataclass(frozen=True)
class Rehearsal:
    """What the recording has."""

    problem: str = ""
    """Why there is none."""
    remedy: str = ""
    said: tuple[tuple[str, str], ...] = ()
    """What it lacks, in its own words, each with what helps."""
    timers: bool = False
    """Timers inside the program sampled it."""
    samples: int = 0
    """Of CPU time,"""
    kernel: int = 0
    """of them with functions of the kernel in their stack,"""
    named: bool = False
    """which have names."""
    waits: int = 0
    wakeups: int = 0
    python: bool = False
    """Python's functions are in the stacks."""
    inside: bool = False
    """The agent was in the program."""
    loaded: frozenset[str] = frozenset()
    """The libraries that could be loaded into it."""


def rehearsed() -> Rehearsal:
    """Record the program, and look into its capture."""
    try:
        if not Path("/proc/self").exists():
            return Rehearsal("/proc is not mounted.", "Run `mount -t proc proc /proc`.")
        with files.temporary_folder(None if unwritable() else ".") as folder:
            return _recorded(folder)
    except (OSError, PinprofError) as error:
        known = error if isinstance(error, PinprofError) else system_error(error)
        return Rehearsal(known.problem, known.remedy) if known else Rehearsal(f"{error}.", "See the message.")


def unwritable() -> str:
    """Why the current folder, where recordings go, can't be written; empty where it can."""
    try:
        with tempfile.TemporaryFile(dir="."):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _recorded(folder: Path) -> Rehearsal:
    libraries = [str(path) for path in map(_found, (INSIDE, FRAMES, UNWINDING)) if path]
    # -P: not what lies in the current directory.
    command = [sys.executable, "-P", "-m", "pinprof", "--no-settings", "record", "-o", str(folder / "rehearsal")]
    command += ["--no-report", "--no-calibrate", "--", sys.executable, "-I", "-S", "-c", _PROGRAM]
    done = ran([*command, INSIDE.prefix, *libraries], Limits(LIMIT_S), finding_pinprof(), errors=True)
    lines = done.output.splitlines()
    said = _said(lines)
    if done.stopped or not (folder / "rehearsal.pinprof").exists():
        unsaid = (f"It {done.stopped}." if done.stopped else "It left no capture.", "")
        problem, remedy = said[-1] if said and not done.stopped else unsaid
        return Rehearsal(problem, remedy or "Run `pinprof record -- true` to see what happens.")
    # A program that was stopped has said nothing.
    told = next((line for line in lines if line.startswith("{")), '{"inside": false, "loaded": []}')
    program: dict[str, Any] = json.loads(told)
    require_memory()
    return replace(_seen(folder / "rehearsal.pinprof", program["inside"], program["loaded"]), said=said)


def _seen(capture: Path, inside: bool, loaded: Sequence[str]) -> Rehearsal:
    import numpy as np

    from pinprof.read import ReadOptions, read

    found = read(capture, ReadOptions())
    stacks, samples = found.stacks, found.samples
    frames = stacks.frames
    events = [event.name.partition("/")[0] for event in found.events]
    of_time = np.isin(samples.event, [number for number, name in enumerate(events) if name in (_CLOCK, _TIMER)])
    innermost = samples.stack[of_time]
    in_kernel = frames.mode == _KERNEL
    return Rehearsal(
        timers=_TIMER in events,
        samples=int(of_time.sum()),
        kernel=int(in_kernel[stacks.frame[innermost[innermost >= 0]]].sum()),
        named=any(not frames.function[index].startswith("[") for index in np.flatnonzero(in_kernel)),
        waits=int(np.isin(samples.event, [n for n, event in enumerate(found.events) if event.spans]).sum()),
        wakeups=len(found.wakeups) if found.wakeups is not None else 0,
        python=any(frames.dsos[dso].kind == "python" for dso in frames.dso),
        inside=inside,
        loaded=frozenset(loaded),
    )


def _found(library: Library) -> Path | None:
    try:
        return library.find()
    except ToolMissing:
        return None


def _said(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The messages of pinprof's own: what is wrong, and what to do."""
    said = [_SLUG.sub("", line).removeprefix("pinprof: ") for line in lines if line.startswith("pinprof: ")]
    parted = (text.removeprefix(f"{UNRECORDED}: ").partition(". ") for text in said)
    return tuple((f"{problem}." if remedy else problem, remedy) for problem, _, remedy in parted)
