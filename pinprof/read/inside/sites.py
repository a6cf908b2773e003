"""Who made a call: the line of Python or of C++ that counts, of the frames that the agent noted.

As everywhere, it is the innermost one of the program's own code, else the innermost one of Python, else the innermost
function that is not CUDA's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pinprof.data.activity import Caller
from pinprof.data.gpu_functions import of_vendor
from pinprof.data.model import Dso
from pinprof.data.own_code import library_part
from pinprof.read.inside.file import AgentSite, InsideFile, NativeFrame, PythonFrame
from pinprof.read.symbols.resolver import Resolver


class _Function(NamedTuple):
    name: str
    file: str
    line: int


def callers_of(file: InsideFile, resolver: Resolver) -> dict[int, Caller]:
    """The caller of each site of a process that has one."""
    names = _named({frame for site in file.sites.values() for frame in site.native}, file.pid, resolver)
    callers = {number: _caller(site, names) for number, site in file.sites.items()}
    return {number: caller for number, caller in callers.items() if caller is not None}


def _named(frames: set[NativeFrame], pid: int, resolver: Resolver) -> dict[NativeFrame, list[_Function]]:
    """The functions at return addresses, inlined ones first; none where nothing is known."""
    found: dict[NativeFrame, list[_Function]] = {}
    for path in sorted({frame.file for frame in frames}):
        mine = sorted(frame for frame in frames if frame.file == path)
        dso = Dso(path, "", "file") if path.startswith("/") else Dso("[anon]", "", "jit")
        # The call before a return address.
        places = np.array([max(frame.place - 1, 0) for frame in mine], np.uint64)
        rows, runs = resolver.user(dso, places, pid), resolver.runs(dso, places)
        for frame, row, run in zip(mine, rows.tolist(), runs.tolist(), strict=True):
            if run >= 0:
                lines = resolver.lines
                found[frame] = [
                    _Function(resolver.names[name], lines.paths[place] if line else "", line)
                    for name, place, line in lines.runs[run]
                ]
            elif row >= 0:
                found[frame] = [_Function(resolver.names[row], "", 0)]
    return found


def _caller(site: AgentSite, names: dict[NativeFrame, list[_Function]]) -> Caller | None:
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
