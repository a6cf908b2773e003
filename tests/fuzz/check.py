"""What must hold whatever the bytes of an input are."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console

from pinprof import analyze, read
from pinprof.bench import compare
from pinprof.errors import PinprofError
from pinprof.read import machine_rates
from pinprof.report.bench import text as bench_text
from pinprof.report.export import document, formats, plain
from pinprof.report.gather import build
from pinprof.report.page import html
from pinprof.report.terminal import summary, text
from pinprof.report.terminal.layout import PLAIN_WIDTH

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""What a terminal may obey; lines end with a newline alone."""
_OFTEN, _SOMETIMES = 0.1, 0.005
"""The shares of inputs of which text is made, and a page or all exports; JSON is made of all."""


def report(path: Path, random: Random) -> bool:
    """Everything that `pinprof report` does; False where it refuses the input with an error of its own."""
    with quiet():
        try:
            capture = machine_rates.stored(read.read(path))
        except PinprofError as error:
            refused(error)
            return False
        analysis = analyze.analyze(capture)
        made = build(analysis)
        out = io.StringIO()
        document.write_json(made, out)
        sums(strict(out.getvalue()))
        if random.random() < _OFTEN:
            printed(lambda console: text.render(made, console))
        if random.random() < _SOMETIMES:
            printed(lambda console: summary.render([made], console))
            html.write_html(made, path.parent / "page.html")
        if random.random() < _SOMETIMES:
            _exports(analysis, path.parent / "exports")
    return True


def comparison(path: Path, _random: Random) -> bool:
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


def printed(render: Any) -> None:
    """What is printed has no control characters."""
    out = io.StringIO()
    render(Console(file=out, width=PLAIN_WIDTH, no_color=True, highlight=False, markup=False))
    plain_text(out.getvalue())


def plain_text(text_: str) -> None:
    """Text without control characters."""
    found = _CONTROL.search(text_)
    assert found is None, f"control character {found[0]!r} in text"


def _exports(analysis: analyze.Analysis, folder: Path) -> None:
    folder.mkdir()
    try:
        for name in formats.EXPORTS:
            try:
                formats.export(name, analysis, folder / name)
            except PinprofError as error:
                refused(error)
                continue
            if name == "markdown":
                plain_text((folder / name).read_text("utf-8"))
            elif name in ("speedscope", "firefox", "trace"):
                strict((folder / name).read_text("utf-8"))
        if analysis.capture.events:
            out = io.StringIO()
            plain.write_folded(analysis.capture, out)
            plain_text(out.getvalue())
    finally:
        shutil.rmtree(folder)
