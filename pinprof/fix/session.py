"""A whole run of `pinprof fix`: record, change copies of the work tree, measure them, and keep what is proven.

The trial's engine records and measures (`trial/session.py`): a change is a cure whose command runs a changed copy.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from pinprof.analyze import Run
from pinprof.analyze.opportunities.results import Opportunity, ToMeasure
from pinprof.analyze.sites import Sites
from pinprof.base import files
from pinprof.base.errors import TrialError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.redaction import redacted
from pinprof.fix.native import SUFFIXES, NativeFile
from pinprof.fix.result import FixedChange, FixResult, LeftAlone, Verdict
from pinprof.fix.source import File, NotCertain
from pinprof.fix.transformations import CodeChange, changed, line_changes, program_changes
from pinprof.fix.tree import WorkTree
from pinprof.trial import keeper, prediction, processes, session
from pinprof.trial.cures import CURES, TrialCure
from pinprof.trial.measure import Measure
from pinprof.trial.result import CureResult
from pinprof.trial.session import OUTPUT_DIFFERS, Say, TrialRequest

MOST_CHANGES = 8
"""More are not tried at once."""
_TOGETHER = "together"


@dataclass(frozen=True)
class FixRequest:
    """What to fix, and how."""

    command: tuple[str, ...]
    here: Path
    """Where it runs."""
    measure: Measure = field(default_factory=lambda: Measure("wall"))
    time_s: float = 300.0
    error: float = 0.02
    """A share of 1: rounds go on until every ratio is known to it, or the time is up."""
    same_output: bool = False
    """Compare bytes, not only what two runs as is have in common."""
    build: tuple[str, ...] = ()
    """A command that builds the program in a copy; empty: nothing is to be built."""
    test: tuple[str, ...] = ()
    """A command that must end with status 0 in every copy."""
    copied: tuple[Path, ...] = ()
    """What git ignores and the program needs."""
    apply: bool = False
    seed: int = 1


@dataclass(frozen=True)
class _Made:
    """A change of one file, and the copy with it."""

    path: Path
    place: str
    change: CodeChange
    text: str
    """The changed file."""
    row: TrialCure


def fix(request: FixRequest, given: Mapping[str, str], say: Say) -> FixResult:
    """Change, measure and, where asked for, apply; TrialError where the program cannot be repeated."""
    tree = WorkTree(request.here, request.copied)
    with files.temporary_folder() as folder, keeper.kept(folder):
        return _Fix(request, given, folder, tree, say).result()


class _Fix:
    def __init__(self, request: FixRequest, given: Mapping[str, str], folder: Path, tree: WorkTree, say: Say) -> None:
        self._request, self._given, self._folder, self._tree, self._say = request, given, folder, tree, say
        self._as_is = folder / "as-is"
        self._files: dict[Path, File | NativeFile] = {}
        self._made: dict[str, _Made] = {}
        self._left: list[LeftAlone] = []
        self._notes: list[str] = []

    def result(self) -> FixResult:
        """Go through all of it."""
        self._say("Copying the work tree")
        there = self._tree.copy(self._as_is)
        if problem := self._problem(there):
            raise TrialError(f"As it is, the {problem}.", "Give a command that ends with status 0.", "not-repeatable")
        words = self._tree.command(there, self._request.command)
        asked = TrialRequest(
            words,
            measure=self._request.measure,
            time_s=self._request.time_s,
            error=self._request.error,
            same_output=self._request.same_output,
            alike_output=not self._request.same_output,
            seed=self._request.seed,
            rows=self._rows,
        )
        found = session.trial(asked, self._given, self._say)
        measured = {cure.id: cure for cure in found.cures}
        changes = [self._judged(cure, measured) for cure in found.cures if cure.id in self._made]
        if found.interrupted:  # nothing is proven until all is measured
            changes = [replace(one, verdict="not measured") if one.verdict == "keep" else one for one in changes]
        changes = self._best(changes)
        kept = self._proven_together([one for one in changes if one.verdict == "keep"], asked)
        changes = [replace(one, verdict="not measured") if one.verdict == "keep" and one not in kept else one
                   for one in changes]  # fmt: skip
        texts = self._texts([self._made[one.measured.id] for one in kept])
        if self._request.apply and texts:
            changes = self._applied(changes, texts)
        patch = "".join(_diff(path, self._files[path].text, text) for path, text in texts.items())
        return FixResult(
            redacted(self._request.command), found, tuple(changes), tuple(self._left), patch, tuple(self._notes)
        )

    def _rows(self, analysis: Run) -> Sequence[TrialCure]:
        """A changed copy for each change that answers an opportunity, and the cures that do the same without code."""
        sites = Sites(analysis.capture)
        for one in prediction.candidates(analysis):
            try:
                for path, change in self._changes(one, sites.path(one.site.file)):
                    self._make(one, path, change)
            except NotCertain as refused:
                self._left.append(LeftAlone(one.title, one.site.place, one.cure.id, str(refused)))
        alike = dict.fromkeys(made.change.transformation.alike for made in self._made.values())
        return [*(made.row for made in self._made.values()), *(CURES[name] for name in alike if name)]

    def _changes(self, one: Opportunity | ToMeasure, recorded: str) -> list[tuple[Path, CodeChange]]:
        """The changes that carry out an opportunity's cure; NotCertain where there is none."""
        found: list[tuple[Path, CodeChange]] = []
        refused: NotCertain | None = None
        main = self._main()
        try:
            path = self._path(recorded)
            main = main or path
            file = self._file(path)
            if isinstance(file, NativeFile):
                raise NotCertain(f"No transformation carries out {one.cure.id} in C or C++.")
            found += [(path, change) for change in line_changes(file, one.site.line, one.cure.id)]
        except NotCertain as error:
            refused = error
        if main is not None:
            found += [(main, change) for change in program_changes(self._file(main), one.cure.id)]
        if not found and refused is not None:
            raise refused
        return found

    def _file(self, path: Path) -> File | NativeFile:
        if path not in self._files:
            try:
                text = self._tree.text(path)
                native = path.suffix in SUFFIXES
                self._files[path] = NativeFile(text) if native else File(text, main=path == self._main())
            except ValueError as error:
                raise NotCertain(f"{path} is not UTF-8.") from error
        return self._files[path]

    def _make(self, one: Opportunity | ToMeasure, path: Path, change: CodeChange) -> None:
        """A changed copy; NotCertain where that is not valid, or too much to measure."""
        for made in self._made.values():
            alike = made.path == path and made.change.transformation is change.transformation
            if alike and (made.change.line == change.line or set(made.change.marks) & set(change.marks)):
                self._also(made, one)
                return
        if len(self._made) >= MOST_CHANGES:
            raise NotCertain(f"Others save more; at most {MOST_CHANGES} are measured at once.")
        number = len(self._made) + 1
        row_id, text = f"change-{number}", changed(self._files[path], [change])
        there = self._tree.copy(self._folder / row_id, {path: text})
        if problem := self._problem(there):
            raise NotCertain(f"With the change, the {problem}.")
        kind, place = change.transformation, f"{path}:{change.line}" if change.line else str(path)
        row = TrialCure(
            row_id,
            f"{kind.title} ({place})",
            kind.does,
            (),
            predicted_by=frozenset({one.cure.id}),
            tried_for=frozenset(),
            costs=kind.costs,
            permanent="pinprof fix --apply",
            source=f"pinprof/fix/transformations.py: {kind.id}",
            command=self._tree.command(there, self._request.command),
            places=frozenset({one.site.place}),
        )
        self._made[row_id] = _Made(path, place, change, text, row)

    def _also(self, made: _Made, one: Opportunity | ToMeasure) -> None:
        """A change answers another opportunity as well."""
        row = replace(
            made.row,
            predicted_by=made.row.predicted_by | {one.cure.id},
            places=made.row.places | {one.site.place},
        )
        self._made[row.id] = replace(made, row=row)

    def _path(self, recorded: str) -> Path:
        """The file of an opportunity below the work tree's top."""
        path = Path(recorded)
        if path.suffix in SUFFIXES and not self._request.build:
            raise NotCertain("The line is in C or C++: --build CMD gives the command that compiles it.")
        if path.suffix not in {".py", *SUFFIXES}:
            raise NotCertain("The line is not in a source of Python, C or C++.")
        if not path.is_absolute():
            path = self._tree.here.relative_to(self._tree.root) / path
        elif path.resolve().is_relative_to(self._as_is.resolve()):
            path = path.resolve().relative_to(self._as_is.resolve())
        if path not in self._tree.files:
            raise NotCertain("The file is not in the work tree.")
        return path

    def _problem(self, there: Path) -> str:
        """How the user's build or test fails in a copy, as a part of a sentence; empty where both pass."""
        for name, words in (("build", self._request.build), ("test", self._request.test)):
            if words:
                self._say(f"Running the {name}")
                ended = processes.run(self._tree.command(there, words), self._given, self._folder, session.LIMIT_S)
                if ended.status or ended.timed_out:
                    return f"{name} {ended.ending}"
        return ""

    def _main(self) -> Path | None:
        """The file that the command runs as the main program, below the work tree's top; None where that is unknown."""
        words = self._request.command
        modules = [Path(*words[at + 1].split(".")) for at, word in enumerate(words[:-1]) if word == "-m"]
        named = [Path(word) for word in words if word.endswith(".py")]
        found = [*named, *(path.with_suffix(".py") for path in modules), *(path / "__main__.py" for path in modules)]
        for path in found:
            whole = (self._tree.here / path).resolve()
            if whole.is_relative_to(self._tree.root) and whole.relative_to(self._tree.root) in self._tree.files:
                return whole.relative_to(self._tree.root)
        return None

    def _judged(self, cure: CureResult, measured: Mapping[str, CureResult]) -> FixedChange:
        made = self._made[cure.id]
        kind = made.change.transformation
        diff = _diff(made.path, self._files[made.path].text, made.text)
        return FixedChange(_verdict(cure), kind.id, made.place, diff, cure, measured.get(kind.alike))

    def _best(self, changes: Sequence[FixedChange]) -> list[FixedChange]:
        """The changes, of which those that answer the same opportunities as a better one are not kept beside it."""
        answered: set[str] = set()
        best = []
        for one in changes:
            places = self._made[one.measured.id].row.places
            if one.verdict == "keep" and places <= answered:
                best.append(replace(one, verdict="alternative"))
                continue
            answered |= places if one.verdict == "keep" else set()
            best.append(one)
        return best

    def _proven_together(self, kept: list[FixedChange], asked: TrialRequest) -> list[FixedChange]:
        """Changes that each save are measured once more all together; where that fails, the best one stays."""
        if len(kept) < 2:
            return kept
        made = [self._made[one.measured.id] for one in kept]
        there = self._tree.copy(self._folder / _TOGETHER, self._texts(made))
        if not self._problem(there):
            row = replace(
                made[0].row,
                id=_TOGETHER,
                title="all changes together",
                command=self._tree.command(there, self._request.command),
            )
            found = session.trial(replace(asked, rows=lambda _: [row], time_s=asked.time_s / 2), self._given, self._say)
            if _verdict(found.cures[0]) == "keep":
                return kept
        self._notes.append("All changes together do not save, or change the results: only the best one is kept.")
        return kept[:1]

    def _texts(self, made: Sequence[_Made]) -> dict[Path, str]:
        """The changed files, by path."""
        changes: dict[Path, list[CodeChange]] = {}
        for one in made:
            changes.setdefault(one.path, []).append(one.change)
        return {path: changed(self._files[path], some) for path, some in changes.items()}

    def _applied(self, changes: list[FixedChange], texts: Mapping[Path, str]) -> list[FixedChange]:
        """Write what is kept into the tree; a file that is dirty stays, with a note."""
        clean = {path: self._tree.dirty(path, self._files[path].text) for path in texts}
        self._notes += [f"Not applied: {why}" for why in clean.values() if why]
        written = {path: text for path, text in texts.items() if not clean[path]}
        self._tree.apply(written)
        return [
            replace(one, applied=one.verdict == "keep" and self._made[one.measured.id].path in written)
            for one in changes
        ]


def _verdict(cure: CureResult) -> Verdict:
    if cure.state == "failed":
        return "changes results" if cure.problem == OUTPUT_DIFFERS else "does not run"
    if cure.ratio is None:
        return "not measured"
    return "keep" if cure.significant and cure.gain > 1 else "no gain"


def _diff(path: Path, before: str, after: str) -> str:
    """A unified diff that `git apply` and `patch -p1` take."""
    old, new = (io.StringIO(text, newline="\n").readlines() for text in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def command_of(recorded: Sequence[str]) -> tuple[str, ...]:
    """The command of a capture; UsageError where it has none."""
    if not recorded:
        raise UsageError("The capture names no command.", "Give it: pinprof fix -- CMD.", "usage")
    return tuple(recorded)
