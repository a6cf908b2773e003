"""What is read of files that are as in the seed is read once: nine inputs of ten differ from their seed in one file.

A step of reading (a stream of a capture, the records of a perf.data) gives what it gave before, as long as no file that
it may look at is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pinprof.read import directory
from pinprof.read.perf import data
from pinprof.streams import STREAMS, stream
from pinprof.streams.store import CALLS_DATA, GPU, MEMORY, NSYS_SQLITE, PYTHON_STACKS, RATES, UVM

_FIRST = tuple(
    (f"{entry.name}*", at)
    for name in (CALLS_DATA, GPU, UVM, NSYS_SQLITE, PYTHON_STACKS, MEMORY, RATES)
    for at, entry in enumerate(STREAMS)
    if entry.name == name
)
"""Files that no step looks at before this one; every other file may matter to each."""
_ORDER = tuple(entry.read for entry in STREAMS)


class Undamaged:
    """What was read of the seeds' files."""

    def __init__(self) -> None:
        self._files: dict[Path, Mapping[str, bool]] = {}
        """By folder of a seed, its files, and whether they are damaged."""
        self._steps: dict[tuple[str, Path], Any] = {}
        self._records: dict[tuple[Path, tuple[tuple[str, bool], ...]], data.Recording] = {}

    def note(self, folder: Path, files: Iterable[str], damaged: Collection[str]) -> None:
        """A seed's files lie in `folder`, and some of them are damaged."""
        self._files[folder] = {name: name in damaged for name in files}

    def install(self) -> None:
        """From now on, in this process and those forked from it."""
        found, load = stream.found, data.load

        def remembered(place: str) -> Any:
            step = found(place)
            return lambda capture, path, reading: self._step(place, step, capture, path, reading)

        def loaded(path: Path, *given: Any, **options: bool) -> data.Recording:
            key = path, tuple(sorted(options.items()))
            if self._changed(path) != []:
                return load(path, *given, **options)
            if key not in self._records:
                self._records[key] = load(path, *given, **options)
            return self._records[key]

        directory.found, data.load = remembered, loaded

    def _step(self, place: str, step: Callable[..., Any], capture: Any, path: Path | None, reading: Any) -> Any:
        changed = self._changed(reading.directory)
        if changed is None or any(_matters(name, place) for name in changed):
            return step(capture, path, reading)
        key = place, reading.directory
        if key not in self._steps:
            self._steps[key] = step(capture, path, reading)
        return self._steps[key]

    def _changed(self, path: Path) -> list[str] | None:
        """The damaged ones among a seed's files, by their path in a folder; None where a path has none of them."""
        for folder in path.parents:
            if (files := self._files.get(folder)) is not None:
                place = path.relative_to(folder).as_posix()
                mine = {name[len(place) + 1 :]: files[name] for name in files if f"{name}/".startswith(f"{place}/")}
                return [name for name, damaged in mine.items() if damaged] if mine else None
        return None


def _matters(name: str, place: str) -> bool:
    """Whether a step of reading, or one before it, may look at a file of a capture."""
    return all(not fnmatchcase(name, pattern) or _ORDER.index(place) >= first for pattern, first in _FIRST)
