"""What a capture is called: after the script that a command line runs, not after the interpreter that runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from pinprof.base.errors import UsageError

_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*t?|bash|dash|ksh|sh|zsh|perl|ruby|node|Rscript|julia|lua[0-9.]*")
_LAUNCHER = re.compile(
    r"torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|uv|poetry|pipenv|"
    r"env|nice|nohup|numactl|setsid|stdbuf|taskset|time|timeout"
)
"""Programs that run another one, whose options may take values: the first script after them is what they run."""
_SCRIPT = re.compile(r".+\.(py|pyc|pyz|sh|bash|pl|rb|js|mjs|R|jl|lua|ipynb)")
_TAKES_VALUE = {"-W", "-X", "--check-hash-based-pycs", "-o", "--rcfile", "--init-file", "--require"}
"""Options of interpreters whose value is the next word."""


def name_of(command: Sequence[str]) -> str:
    """`train` for `python train.py`, `loader` for `python -m data.loader`, else the program's own name."""
    words = list(command)
    program = PurePath(words[0]).name if words else ""
    if _LAUNCHER.fullmatch(program):
        found = _launched(words[1:])
        return found or program
    if _INTERPRETER.fullmatch(program):
        found = _interpreted(words[1:])
        return found or program
    return _stem(program)


def refuse_page(output: PurePath) -> None:
    """UsageError where a capture would be called like a page or an export."""
    if output.name.startswith("-"):
        raise UsageError(f"-o is followed by {output}, not by a name.", "Give a name, for example -o run.", "output")
    if output.suffix.lower() in (".html", ".htm", ".json", ".md", ".txt", ".pdf"):
        raise UsageError(
            f"{output} is the name of a {output.suffix} file, but -o names the capture, which is a folder.",
            f"Give -o {output.with_suffix('')}; the page is then {output.with_suffix('.html')}.",
            "output",
        )


def _stem(word: str) -> str:
    """A script's name without its folder and ending; a program keeps its own, be there a point in it or not."""
    name = PurePath(word).name
    return PurePath(name).stem if _SCRIPT.fullmatch(name) else name


def _module(name: str) -> str:
    """The last part of a module's name; the package of a `__main__`."""
    parts = [part for part in name.split(".") if part and part != "__main__"]
    return parts[-1] if parts else ""


def _interpreted(words: Sequence[str]) -> str:
    """What an interpreter's arguments run; empty for `-c` and for nothing at all."""
    skip = False
    for place, word in enumerate(words):
        if skip:
            skip = False
        elif word == "-m" and place + 1 < len(words):
            module = _module(words[place + 1])
            return _launched(words[place + 2 :]) or module if module in _RUNS_SCRIPTS else module
        elif word == "-" or re.fullmatch(r"-[a-zA-Z]*c", word):
            return ""
        elif word.startswith(("-", "+")):
            skip = word in _TAKES_VALUE
        else:
            return _stem(word)
    return ""


_RUNS_SCRIPTS = {"run", "launch", "torchrun", "cProfile", "pdb", "coverage", "trace", "kernprof", "debugpy"}
"""Modules that run another script: `torch.distributed.run`, `cProfile`."""


def _launched(words: Sequence[str]) -> str:
    """The first script in a launcher's arguments, or what an interpreter among them runs."""
    for place, word in enumerate(words):
        if _INTERPRETER.fullmatch(PurePath(word).name):
            return _interpreted(words[place + 1 :]) or PurePath(word).name
        if word == "-m" and place + 1 < len(words):
            return _module(words[place + 1])
        if not word.startswith("-") and _SCRIPT.fullmatch(PurePath(word).name):
            return _stem(word)
    return ""
