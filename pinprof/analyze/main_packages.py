"""Installed packages that the user runs as programs, `python -m package`: their code is the program's own.

A package is one only where the recording has no code of Python outside of libraries: what such code calls is its
library, also where one of its processes runs a module of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from pinprof.data.model import StackTable
from pinprof.data.own_code import is_text, library_part, package_of

_MODULE = "<module>"
_RUNS_MODULES = re.compile(r"<frozen runpy>|.*/runpy\.py")
_COMMAND = re.compile(r".*/bin/[^/.]+")
"""What an installer writes for a command: a file that imports a package and calls it."""
_TEST_RUNNERS = frozenset(("pytest", "_pytest"))
_TESTS = re.compile(r".*/(test_\w*|\w+_test|conftest)\.py")


def ownership(stacks: StackTable) -> Callable[[str], bool]:
    """Whether a source file is the program's own, by its path."""
    packages = _main_packages(stacks)
    if packages & _TEST_RUNNERS:
        return lambda path: not library_part(path) or _TESTS.fullmatch(path) is not None
    if not packages:
        return lambda path: not library_part(path)
    return lambda path: package_of(path) in packages or not (library_part(path) or _COMMAND.fullmatch(path))


def _main_packages(stacks: StackTable) -> frozenset[str]:
    """The packages whose module, or function that an installed command calls, is the outermost code of a stack."""
    frames = stacks.frames
    paths = [dso.path or dso.name if dso.kind == "python" else "" for dso in frames.dsos]
    packages = [package_of(path) for path in paths]
    own = any(path and not (library_part(path) or is_text(path) or _COMMAND.fullmatch(path)) for path in paths)
    if own or not any(packages):
        return frozenset()
    python = np.array([bool(path) for path in paths], np.bool_)[frames.dso]
    command = np.array([_COMMAND.fullmatch(path) is not None for path in paths], np.bool_)[frames.dso]
    starts = command | np.array([_RUNS_MODULES.fullmatch(path) is not None for path in paths], np.bool_)[frames.dso]
    module = np.array([function == _MODULE for function in frames.function], np.bool_)
    entered, commanded = np.zeros((2, len(stacks) + 1), np.bool_)
    found = set()
    for nodes in stacks.levels():
        frame, parent = stacks.frame[nodes], stacks.parent[nodes]
        enters = python[frame] & ~starts[frame] & ~entered[parent]
        entered[nodes] = entered[parent] | enters
        commanded[nodes] = commanded[parent] | command[frame]
        found.update(frames.dso[frame[enters & (module[frame] | commanded[nodes])]].tolist())
    return frozenset(packages[dso] for dso in found if packages[dso])
