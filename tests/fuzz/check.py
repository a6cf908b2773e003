"""What must hold whatever the bytes of an input are."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import mmap
import pickle
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from pinprof import analyze, read
from pinprof.analyze.selection import Selection
from pinprof.base.errors import PinprofError, UsageError
from pinprof.bench import compare
from pinprof.cli.ranks import expanded
from pinprof.data.model import Capture
from pinprof.read import ReadOptions, machine_rates
from pinprof.report.bench import text as bench_text
from pinprof.report.export import formats, plain
from pinprof.report.gather import build
from pinprof.report.page import collection, html
from pinprof.report.terminal import summary
from pinprof.report.terminal.layout import PLAIN_WIDTH
from tests.fuzz.hostile import number
from tests.fuzz.hostile import text as text_of

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""What a terminal may obey; lines end with a newline alone."""
SIDE_FILES = ("kallsyms", "ranges.jsonl")
_JSON, _TEXT, _PAGE, _EXPORTS, _PART = 0.1, 0.02, 0.03, 0.03, 0.1
"""The shares of new inputs of which JSON, text, a page and all exports are made, and of which a part is shown."""
_TIMES = (1, 100, 500, 10**6, 10**8, 10**9)
"""Nanoseconds at which recordings may be cut."""
_EMPTY = np.uint64(0)
_PLAIN = ReadOptions()


class Thorough(NamedTuple):
    """What is made of an input."""

    json: bool = True
    text: bool = True
    page: bool = True
    exports: bool = True
    part: Selection | None = None
    """What it is made of; None for all of it."""

    @classmethod
    def drawn(cls, random: Random) -> Thorough:
        """By the numbers that follow in `random`."""
        made = (random.random() < share for share in (_JSON, _TEXT, _PAGE, _EXPORTS))
        return cls(*made, _part(random) if random.random() < _PART else None)


def _part(random: Random) -> Selection:
    """What `--after`, `--until`, `--range`, `--thread` and `--process` may ask for."""

    def times() -> int | None:
        return random.choice((None, abs(number(random)), random.choice(_TIMES)))

    def names(known: str) -> tuple[str, ...]:
        return random.choice(((), (), (), (known,), (text_of(random),)))

    return Selection(times(), times(), names("step"), names("7"), names("7"))


class Known:
    """What was analysed already, by processes that have it in common: what reads as another input says nothing new."""

    def __init__(self, inputs: int = 1000) -> None:
        size = 1 << max(2 * inputs, 1024).bit_length()
        self._digests = np.frombuffer(mmap.mmap(-1, 8 * size), np.uint64)

    def has(self, captures: Sequence[Capture]) -> bool:
        """Whether they were given before; from now on they were."""
        content = pickle.dumps(captures, 5)
        digest = np.frombuffer(hashlib.blake2b(content, digest_size=8).digest(), np.uint64)[0] | np.uint64(1)
        place, last = int(digest >> np.uint64(1)) % len(self._digests), len(self._digests) - 1
        while self._digests[place] not in (_EMPTY, digest):
            place = (place + 1) & last
        was_there = bool(self._digests[place] == digest)
        self._digests[place] = digest
        return was_there


def report(path: Path, thorough: Thorough, known: Known, options: ReadOptions = _PLAIN) -> bool:
    """Everything that `pinprof report` does; False where it refuses the input with an error of its own."""
    with quiet():
        try:
            captures = [machine_rates.stored(read.read(each, options)) for each in expanded(path)]
        except PinprofError as error:
            refused(error)
            return False
        if known.has(captures):
            return True
        try:
            analyses = [analyze.analyze(capture, selection=thorough.part) for capture in captures]
        except UsageError as error:
            assert thorough.part is not None, "refused without a part"
            refused(error)
            return True
        for analysis in analyses:
            exact(analysis)
        _outputs(analyses, path.parent, thorough)
    return True


def with_side_files(path: Path, thorough: Thorough, known: Known) -> bool:
    """The same with `--kallsyms` and `--ranges`, where such files lie beside the recording."""
    kallsyms, ranges = ((there if (there := path.parent / name).is_file() else None) for name in SIDE_FILES)
    return report(path, thorough, known, ReadOptions(kallsyms=kallsyms, ranges=ranges))


def comparison(path: Path, _thorough: Thorough, _known: Known) -> bool:
    """What `pinprof bench compare` does with two files."""
    with quiet(), contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            found = compare.compare(path / "a.json", path / "b.json")
        except PinprofError as error:
            refused(error)
            return False
        bench_text.print_comparison(found)
    plain_text(out.getvalue())
    return True


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing is said beside the report: a warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def refused(error: PinprofError) -> None:
    """An error says what is wrong and what to do."""
    assert error.problem.strip(), "no problem"
    assert error.remedy.strip(), "no remedy"
    assert len(str(error)) < 2000, "endless error"
    plain_text(str(error))


def exact(analysis: analyze.Run) -> None:
    """Causes sum to the total, in the whole recording and in every range."""
    for event in (*analysis.events, *(event for each in analysis.ranges for event in each.events)):
        assert sum(event.by_leaf.values()) == event.total, "leaves do not sum to the total"
        assert min(event.by_leaf.values(), default=0) >= 0, "a negative cause"


def _outputs(analyses: Sequence[analyze.Run], folder: Path, thorough: Thorough) -> None:
    if thorough.json or thorough.text or thorough.page:
        reports = [build(analysis) for analysis in analyses]
    if thorough.json:
        for made in reports:
            out = io.StringIO()
            made.write("json", out)
            sums(strict(out.getvalue()))
    if thorough.text:
        for made in reports:
            printed(made.show)
            out = io.StringIO()
            made.write("markdown", out)
            plain_text(out.getvalue())
        printed(lambda console: summary.print_answer(reports, console=console))
    if thorough.page and len(reports) == 1:
        html.write_html(reports[0], folder / "page.html")
    elif thorough.page:
        collection.write_collection(reports, folder / "page.html")
    if thorough.exports:
        for analysis in analyses:
            _exports(analysis, folder / "exports")


def strict(text_: str) -> Any:
    """The JSON of a report, which has no NaN and no Infinity."""
    return json.loads(text_, parse_constant=_no_json)


def _no_json(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


def sums(node: Any) -> None:
    """Causes sum to the total, wherever both stand."""
    if isinstance(node, dict):
        if isinstance(node.get("leaves"), dict) and "total" in node:
            assert sum(node["leaves"].values()) == node["total"], "leaves do not sum to the total"
            assert min(node["leaves"].values(), default=0) >= 0, "a negative cause"
        for child in node.values():
            sums(child)
    elif isinstance(node, list):
        for child in node:
            sums(child)


def printed(render: Callable[[Console], None]) -> None:
    """What is printed has no control characters."""
    out = io.StringIO()
    render(Console(file=out, width=PLAIN_WIDTH, no_color=True, highlight=False, markup=False))
    plain_text(out.getvalue())


def plain_text(text_: str) -> None:
    """Text without control characters."""
    found = _CONTROL.search(text_)
    assert found is None, f"control character {found[0]!r} in text"


def _exports(analysis: analyze.Run, folder: Path) -> None:
    folder.mkdir()
    try:
        for name in formats.EXPORTS:
            try:
                formats.export(name, analysis, folder / name)
            except PinprofError as error:
                refused(error)
                continue
            if name in ("speedscope", "firefox", "trace"):
                strict((folder / name).read_text("utf-8"))
        if analysis.capture.events:
            out = io.StringIO()
            plain.write_folded(analysis.capture, out)
            plain_text(out.getvalue())
    finally:
        shutil.rmtree(folder)
