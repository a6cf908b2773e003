"""Where a verdict belongs in the checked-out sources: a path below the current directory, and a line.

A recording names its sources by the paths of the machine that built the program, often by their endings alone. What of
these lies below the current directory is found here; of everything else only the base name is shown, so that no
report tells how another machine is laid out.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from pinprof.base.lazy_dataclass import dataclass
from pinprof.check.verdicts import BudgetVerdict, Checked

_MOST_FILES = 50_000
"""That are looked at to find a source by the ending of its path."""
_NOT_SOURCES = frozenset({"node_modules", "__pycache__", "build", "dist"})


@dataclass(frozen=True)
class Spot:
    """A line of a file."""

    path: str
    """With `/`, relative to the current directory where `inside`, else a base name."""
    line: int
    """0 where only the file is known."""
    inside: bool
    """Whether such a file lies below the current directory."""
    function: str = ""


class SourcePlaces:
    """The sources below a directory."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = Path(os.path.abspath(root or Path.cwd()))  # noqa: PTH100  (resolve() would follow links)
        self._known: dict[str, tuple[str, bool]] = {}

    def of(self, verdict: BudgetVerdict, checked: Checked) -> Spot:
        """Where to show a verdict: its largest site below the directory, else its budget's line, else what there is.

        The last resort is the capture itself: readers refuse results without a place.
        """
        spots = [spot for spot in self.sites(verdict) if spot]
        place = verdict.budget.place
        spots += [self.spot(place.file, place.line)] if place.file else []
        spots += [self.spot(next(iter(checked.captures), "capture"), 0)]
        return next((spot for spot in spots if spot.inside and spot.line), spots[0])

    def sites(self, verdict: BudgetVerdict) -> list[Spot | None]:
        """Per site its place, None where no file is known."""
        return [
            self.spot(site.path or site.file, site.line, site.function) if site.path or site.file else None
            for site in verdict.sites
        ]

    def spot(self, file: str, line: int, function: str = "") -> Spot:
        """A file as it was recorded, as a place below the directory."""
        path, inside = self._known.get(file) or self._found(file)
        self._known[file] = path, inside
        return Spot(path, max(line, 0), inside, function)

    def _found(self, file: str) -> tuple[str, bool]:
        parts = PurePosixPath(os.path.normpath(file.replace("\x00", ""))).parts
        base = next((part for part in reversed(parts) if part not in ("/", "..")), "unknown")
        for path in self._candidates(file, parts):
            if self._is_source(path):
                return path, True
        return base, False

    def _candidates(self, file: str, parts: Sequence[str]) -> Iterator[str]:
        """Paths below the directory that may be meant, the likeliest first."""
        if file.startswith("/"):
            for root in (str(self._root), os.path.realpath(self._root)):
                if PurePosixPath(*parts).is_relative_to(root):
                    yield str(PurePosixPath(*parts).relative_to(root))
            # Another checkout: its directories end as ours do. One name alone says too little.
            for first in range(1, len(parts) - 1):
                yield "/".join(parts[first:])
            return
        yield "/".join(parts)
        if ".." not in parts and len(same := self._endings.get("/".join(parts), [])) == 1:
            yield same[0]

    def _is_source(self, path: str) -> bool:
        """Whether a path is a file below the directory; a link may lead out of it, as long as it lies in it."""
        try:
            return not path.startswith("../") and (self._root / path).is_file()
        except (OSError, ValueError):
            return False

    @cached_property
    def _endings(self) -> dict[str, list[str]]:
        """By ending of a path the files that have it."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self._files():
            parts = path.split("/")
            for first in range(len(parts)):
                found["/".join(parts[first:])].append(path)
        return found

    def _files(self) -> Iterator[str]:
        """Files below the directory, without hidden ones and those of tools."""
        left = _MOST_FILES
        for folder, inner, names in os.walk(self._root):
            inner[:] = sorted(
                name
                for name in inner
                if not name.startswith(".") and name not in _NOT_SOURCES and not name.endswith(".pinprof")
            )
            if "pyvenv.cfg" in names:
                inner.clear()
                continue
            below = os.path.relpath(folder, self._root)
            for name in names[:left]:
                yield name if below == "." else f"{below}/{name}"
            left -= len(names)
            if left <= 0:
                return
