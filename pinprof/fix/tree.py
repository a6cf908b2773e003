"""Copies of a program's work tree: what is measured runs there, so the user's files stay as they are."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import UsageError, readable
from pinprof.base.units import format_bytes
from pinprof.collect.program import find_program
from pinprof.collect.recorder import STOP_SIGNALS
from pinprof.collect.signals import postponed

MOST_BYTES, MOST_FILES = 1 << 30, 20_000
_LEFT_OUT = {".git", "__pycache__", ".venv", "venv", "node_modules"}


class WorkTree:
    """The folder that a program is run in: a git work tree's files that git knows or would add, or all."""

    def __init__(self, here: Path, others: Sequence[Path] = ()) -> None:
        """`others` are files and folders below it that git ignores and the program needs."""
        self.here = here.resolve()
        found = _git(self.here, "rev-parse", "--show-toplevel")
        self.in_git = found is not None
        self.root = Path(found.rstrip("\n")).resolve() if found is not None else self.here
        self.files = sorted(set(self._listed()) | {path for one in others for path in self._below(one)})
        size = sum((self.root / path).lstat().st_size for path in self.files)
        if size > MOST_BYTES or len(self.files) > MOST_FILES:
            raise UsageError(
                f"{self.root} has {len(self.files)} files with {format_bytes(size)}, too many to copy for each change.",
                "Run pinprof fix in the folder of the program.",
                "work-tree",
            )

    def copy(self, target: Path, changed: Mapping[Path, str] | None = None) -> Path:
        """Copy the tree; `changed` has texts of changed files by their path. Returns where `here` is in the copy."""
        for path in self.files:
            made = target / path
            made.parent.mkdir(parents=True, exist_ok=True)
            with readable(self.root / path):
                shutil.copy2(self.root / path, made, follow_symlinks=False)
        for path, text in (changed or {}).items():
            with files.change(target / path) as file:
                file.truncate(file.write(text.encode("utf-8")))
        there = target / self.here.relative_to(self.root)
        there.mkdir(parents=True, exist_ok=True)
        return there

    def command(self, copy: Path, words: Sequence[str]) -> tuple[str, ...]:
        """A command that runs in a copy, whose folder is `copy`, as it does in the tree; ProgramNotFound without one.

        Paths into the tree become paths into the copy where they are in it.
        """
        there = copy
        for _ in self.here.relative_to(self.root).parts:
            there = there.parent
        known = set(self.files)
        moved = []
        for word in words:
            path = Path(word)
            inside = path.is_absolute() and path.is_relative_to(self.root) and path.relative_to(self.root) in known
            moved.append(str(there / path.relative_to(self.root)) if inside else word)
        first = Path(moved[0])
        if not first.is_absolute() and len(first.parts) > 1 and not (copy / first).exists():
            moved[0] = str((self.here / first).absolute())  # such as .venv/bin/python, which git ignores
        if "/" not in moved[0]:
            find_program(moved[0])
        return ("sh", "-c", 'cd -- "$0" && exec "$@"', str(copy), *moved)

    def text(self, path: Path) -> str:
        """A file's text, line ends as they are; ValueError where it is not UTF-8."""
        return (self.root / path).read_bytes().decode("utf-8")

    def dirty(self, path: Path, text: str) -> str:
        """Why a file must not be written, in a sentence; empty where it may. `text` is what was read of it."""
        place = self.root / path
        if not stat.S_ISREG(place.lstat().st_mode):
            return f"{path} is not a regular file."
        if self.text(path) != text:
            return f"{path} has changed since it was read."
        if self.in_git and _git(self.root, "status", "--porcelain", "--ignored", "--", str(path)) != "":
            return f"{path} has changes that git does not have: commit them first."
        return ""

    def apply(self, changed: Mapping[Path, str]) -> None:
        """Write changed files into the tree, all or, where one cannot be written, as few as possible."""
        with postponed(STOP_SIGNALS):
            for path, text in changed.items():
                place = self.root / path
                mode = stat.S_IMODE(place.stat().st_mode)
                with files.replacing(place) as file:
                    file.write(text.encode("utf-8"))
                    Path(f"/proc/self/fd/{file.fileno()}").chmod(mode)

    def _listed(self) -> list[Path]:
        if not self.in_git:
            return list(self._below(self.root))
        listed = _git(self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard") or ""
        paths = [Path(name) for name in listed.split("\0") if name]
        return [path for path in paths if (self.root / path).is_symlink() or (self.root / path).is_file()]

    def _below(self, place: Path) -> list[Path]:
        whole = place if place.is_absolute() else self.here / place
        if not whole.resolve().is_relative_to(self.root) or not whole.exists():
            raise UsageError(f"{place} is not in {self.root}.", "Name files and folders below it.", "work-tree")
        if whole.is_file():
            return [whole.relative_to(self.root)]
        found: list[Path] = []
        for name_of, folders, names in os.walk(whole):
            folder = Path(name_of)
            folders[:] = [one for one in folders if one not in _LEFT_OUT and not one.endswith((".pinprof", ".ranks"))]
            found += [(folder / name).relative_to(self.root) for name in names if _kept(folder / name)]
            if len(found) > MOST_FILES:
                break
        return found


def _kept(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None without git, or where it fails."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if not done.returncode else None
