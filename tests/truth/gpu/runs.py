"""One run of one program under one recorder, or under none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pinprof.machine import nsys

HERE = Path(__file__).parent / "programs"
PINPROF = (sys.executable, "-m", "pinprof", "record", "--no-report", "--no-calibrate", "--force")
NONE, NATIVE, DEFAULT, WHOLE, NSYS = "none", "native", "native + CUPTI", "--gpu cupti", "nsys"
PROBES, RING, TOP = "probes", "ring", "top"
_OPTIONS = {NATIVE: ("--gpu=off",), PROBES: ("--inside=off", "--gpu=off"), DEFAULT: (), WHOLE: ("--gpu=cupti",)}
RECORDERS = (NONE, NATIVE, PROBES, DEFAULT, WHOLE, NSYS)
LIVE = (RING, TOP)
"""Recorders that are asked for by name."""
_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
LIMIT_S = 300
_TAIL = 300


@dataclass(frozen=True)
class Program:
    """A program by the name that tables have."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """How one went; the result is empty where the program does not say anything of itself."""

    problem: str = ""
    """Why it is none, in words; empty for one that worked."""
    result: dict[str, Any] = field(default_factory=dict)
    capture: Path | None = None
    export: Path | None = None
    """nsys's, as SQLite."""


def under(recorder: str, command: Sequence[str], place: Path) -> list[str]:
    """The command line of a run whose files go into `place`."""
    if recorder == NONE:
        return list(command)
    if recorder == NSYS:
        tools = nsys.find_nsys()
        if not tools:
            raise FileNotFoundError("there is no nsys: set NSYS to its path")
        traced = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true")
        return [str(tools[0]), "profile", *traced, f"--output={place / 'report'}", *command]
    if recorder == TOP:
        return [sys.executable, "-c", _TERMINAL, sys.executable, "-m", "pinprof", "top", "--", *command]
    if recorder == RING:
        ring = ("record", "--ring", "10s", f"--output={place / 'ring'}")
        return [sys.executable, "-m", "pinprof", *ring, "--", *command]
    return [*PINPROF, *_OPTIONS[recorder], f"--output={place / 'capture.pinprof'}", "--", *command]


def run(recorder: str, command: Sequence[str], place: Path, *, export: bool = False) -> Run:
    """Run it in a folder that is emptied first; `export`: have nsys's report turned into SQLite."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    result = place / "result.json"
    given = nsys.tool_environment() if recorder == NSYS else dict(os.environ)
    folders = (str(HERE), given.get("PYTHONPATH", ""))
    given |= {"MEASURE_RESULT": str(result), "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    try:
        words = under(recorder, command, place)
        done = subprocess.run(
            words, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Run(f"did not end within {LIMIT_S} s")
    except OSError as error:
        return Run(str(error.strerror or error))
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-_TAIL:]
        return Run(f"status {done.returncode}: {said or 'it said nothing'}")
    capture, made = place / "capture.pinprof", None
    if export:
        reports = [path for path in place.glob("report.*") if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm")]
        if not reports:
            return Run("nsys left no report")
        try:
            made = nsys.export_sqlite(reports[0], place)
        except nsys.PinprofError as error:
            return Run(error.problem)
    return Run("", _result(result), capture if capture.is_dir() else None, made)


def _result(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def own_programs(folder: Path, names: Sequence[str], count: int) -> tuple[list[Program], list[str]]:
    """Programs of `programs/` by name, compiled into a folder where they are CUDA, and why others are not there.

    `count`: how many calls those make that take a number.
    """
    made, notes = [], []
    for name in names:
        counted = [str(count)] if name in ("copies", "kernels", "launches") else []
        if (script := HERE / f"{name}.py").is_file():
            made.append(Program(name, (sys.executable, str(script), *counted)))
            continue
        binary = folder / name
        command = [os.environ.get("NVCC", "nvcc"), "-O2", "-o", str(binary), str(HERE / f"{name}.cu"), "-lcuda"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            problem = done.stderr.strip()[-_TAIL:] if done.returncode else ""
        except OSError as error:
            problem = f"{command[0]}: {error.strerror}"
        if problem:
            notes.append(f"{name} was not compiled: {problem}")
        else:
            made.append(Program(name, (str(binary), *counted)))
    return made, notes
