"""The programs of this folder: how each is built and started, what it says, and which lines are at fault."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
OF_THE_FOLDER = {"__init__.py", "measure.py", "programs.py", "recorded.py", "table.py"}
"""What lies beside the programs and is none."""

_NATIVE = ("-O2", "-g", "-fno-omit-frame-pointer")
_COMPILERS = {
    ".c": ("gcc", *_NATIVE),
    ".cpp": ("g++", *_NATIVE),
    ".cu": ("nvcc", "-O2", "-g", "-lineinfo", "-Xcompiler", "-fno-omit-frame-pointer"),
}
_SECONDS = re.compile(r"^seconds ([0-9.]+)", re.MULTILINE)


class Skipped(Exception):
    """This machine cannot run a program; the text says why."""


@dataclass(frozen=True)
class Program:
    """One program."""

    path: Path
    ranks: int = 1
    """As many processes torchrun starts."""

    @property
    def name(self) -> str:
        """`fresh_buffers.c`, `healthy/sieve.c`."""
        return str(self.path.relative_to(FOLDER))

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.path.parent.name == "healthy"

    def guilty(self) -> set[int]:
        """Numbers of the lines at fault."""
        lines = self.path.read_text().splitlines()
        return {number for number, line in enumerate(lines, 1) if line.endswith("GUILTY")}

    def command(self, build: Path, python: str) -> list[str]:
        """What starts it, built under `build` where it has to be.

        Raises:
            Skipped: the compiler, PyTorch or the GPU is missing.
        """
        text = self.path.read_text()
        if (self.path.suffix == ".cu" or ("import torch" in text and "cuda" in text)) and not _gpus():
            raise Skipped("no GPU")
        if self.path.suffix != ".py":
            return [str(_built(self.path, build))]
        for package in ("torch", "pandas"):
            words = [python, "-c", f"import {package}"]
            if f"import {package}" in text and subprocess.run(words, capture_output=True).returncode:
                raise Skipped(f"no {package}")
        return [python, str(self.path)]


def programs(names: list[str]) -> list[Program]:
    """Those of these names, with or without their suffix; all without names: first the cases, then the healthy ones.

    Raises:
        SystemExit: no program has one of the names.
    """
    found = [
        Program(path, ranks=2 if path.stem.startswith("ddp_") else 1)
        for folder in (FOLDER, FOLDER / "healthy")
        for path in sorted(folder.iterdir())
        if path.suffix in {".py", *_COMPILERS} and path.name not in OF_THE_FOLDER
    ]
    unknown = [name for name in names if not any(name in (p.name, p.path.name, p.path.stem) for p in found)]
    if unknown:
        sys.exit(f"No program is called {', '.join(unknown)}. Name files of {FOLDER}.")
    return [p for p in found if not names or {p.name, p.path.name, p.path.stem} & set(names)]


def seconds(output: str) -> float:
    """The time of the work, as the program said it; of several ranks the longest."""
    return max(float(value) for value in _SECONDS.findall(output))


def _gpus() -> int:
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def _built(source: Path, build: Path) -> Path:
    compiler, *options = _COMPILERS[source.suffix]
    if not shutil.which(compiler):
        raise Skipped(f"no {compiler}")
    program = build / source.stem
    if not program.exists():
        subprocess.run([compiler, *options, "-o", str(program), str(source)], check=True)
    return program
