"""Who made a call: its stack as far as the agent noted it, which line of it counts, and the runtime's function in it.

As everywhere, the line is the innermost one of the program's own code, else the innermost one of Python, else the
innermost function that is not CUDA's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Caller
from pinprof.data.gpu_functions import FUNCTIONS, of_vendor, plain_name
from pinprof.data.model import NO_NODE, USER, Dso
from pinprof.data.own_code import library_part
from pinprof.read.assembly import StackBuilder
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.texts import AgentSite, NativeFrame, PythonFrame
from pinprof.read.symbols.resolver import Resolver


@dataclass(frozen=True)
class KnownSite:
    """What is known of a call site."""

    caller: Caller | None
    """None where nothing is known of it."""
    stack: int
    """Its node in the builder's table."""
    frames: tuple[Caller, ...]
    """All that is known by name, innermost first; their `file` is empty."""
    runtime: str
    """The plain name of the runtime's function that called the driver; empty where there is none, or no name."""


class NativeFunction(NamedTuple):
    """A function of native code, and the line in it."""

    name: str
    file: str
    line: int


Named = Mapping[NativeFrame, list[NativeFunction]]
"""The functions at places in native code, inlined ones first."""

NOWHERE = KnownSite(None, NO_NODE, (), "")


def sites_of(file: InsideFile, resolver: Resolver, stacks: StackBuilder) -> dict[int, KnownSite]:
    """The sites of a process by number; their stacks are added to those that are being built."""
    names = named_frames({frame for site in file.sites.values() for frame in site.native}, file.pid, resolver)
    # Each frame is in many sites.
    numbers, callers = cache(partial(_numbers, names=names, stacks=stacks)), cache(partial(_callers, names=names))
    # Native code was called by Python.
    outermost = ((*reversed(site.python), *reversed(site.native)) for site in file.sites.values())
    nodes = stacks.stacks([[*chain.from_iterable(map(numbers, frames))] for frames in outermost])
    return {
        number: KnownSite(
            _caller(site, names),
            node,
            (*chain.from_iterable(map(callers, site.native)), *chain.from_iterable(map(callers, site.python))),
            _runtime(site, names),
        )
        for (number, site), node in zip(file.sites.items(), nodes.tolist(), strict=True)
    }


def _numbers(frame: PythonFrame | NativeFrame, names: Named, stacks: StackBuilder) -> list[int]:
    """What stands at a place among the frames that are being built, outermost first."""
    if isinstance(frame, PythonFrame):
        return [stacks.frame(frame.function, Dso(frame.file, "", "python"), USER, line=frame.line)]
    dso, functions = at_place(frame, names)
    return [stacks.frame(function.name, dso, USER, function.file, function.line) for function in functions]


def _callers(frame: PythonFrame | NativeFrame, names: Named) -> tuple[Caller, ...]:
    """The same by name, innermost first; nothing where nothing is known."""
    if isinstance(frame, PythonFrame):
        return (Caller(frame.function, "", frame.line, frame.file),)
    return tuple(Caller(function.name, "", function.line, function.file) for function in names.get(frame, []))


def _runtime(site: AgentSite, names: Named) -> str:
    """The outermost of the vendor's functions that lead to the call without others in between."""
    found = ""
    for frame in site.native:
        library = frame.file.rpartition("/")[2]
        functions = names.get(frame) or [NativeFunction("", "", 0)]
        for function in functions:
            if not of_vendor(function.name, library):
                return found
            if plain_name(function.name) in FUNCTIONS:
                found = plain_name(function.name)
    return found


def dso_of(frame: NativeFrame) -> Dso:
    """The object that holds a place."""
    if frame.file == "[vdso]":
        return Dso(frame.file, "", "vdso")
    return Dso(frame.file, "", "file") if frame.file.startswith("/") else Dso("[anon]", "", "jit")


def at_place(frame: NativeFrame, names: Named) -> tuple[Dso, list[NativeFunction]]:
    """The object that holds a place, and the functions there, outermost first; a stand-in where none is known."""
    dso = dso_of(frame)
    unnamed = [NativeFunction(f"[{dso.name}]" if dso.kind != "jit" else "[anon]", "", 0)]
    return dso, (names.get(frame) or unnamed)[::-1]


def named_frames(frames: set[NativeFrame], pid: int, resolver: Resolver) -> dict[NativeFrame, list[NativeFunction]]:
    """The functions at return addresses, inlined ones first; none where nothing is known."""
    found: dict[NativeFrame, list[NativeFunction]] = {}
    for path in sorted({frame.file for frame in frames}):
        mine = sorted(frame for frame in frames if frame.file == path)
        dso = dso_of(mine[0])
        # The call before a return address.
        places = np.array([max(frame.place - 1, 0) for frame in mine], np.uint64)
        rows, runs = resolver.user(dso, places, pid), resolver.runs(dso, places)
        for frame, row, run in zip(mine, rows.tolist(), runs.tolist(), strict=True):
            if run >= 0:
                lines = resolver.lines
                found[frame] = [
                    NativeFunction(resolver.names[name], lines.paths[place] if line else "", line)
                    for name, place, line in lines.runs[run]
                ]
            elif row >= 0:
                found[frame] = [NativeFunction(resolver.names[row], "", 0)]
    return found


def _caller(site: AgentSite, names: Named) -> Caller | None:
    native = [
        (function, frame.file.rpartition("/")[2])
        for frame in site.native
        for function in names.get(frame, [])
        if not of_vendor(function.name, frame.file.rpartition("/")[2])
    ]
    own = next((each for each in native if each[0].file and not library_part(each[0].file)), None)
    if own is None and (frame := _line_of_python(site.python)) is not None:
        path = frame.file
        return Caller(frame.function, library_part(path) or path.rpartition("/")[2] or path, frame.line, path)
    for function, library in [own, *native] if own else native:
        path = function.file
        return Caller(function.name, path.rpartition("/")[2] or library, function.line, path)
    libraries = [name for frame in site.native if (name := frame.file.rpartition("/")[2]) and not of_vendor("", name)]
    return Caller(f"[{libraries[0]}]", libraries[0]) if libraries else None


def _line_of_python(frames: tuple[PythonFrame, ...]) -> PythonFrame | None:
    own = (frame for frame in frames if not library_part(frame.file))
    return next(own, frames[0] if frames else None)
