"""From an analysis to what a person sees: the terminal summary and the page, the same for every command."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

from pinprof import analyze, read
from pinprof.analyze import Run
from pinprof.analyze.selection import selection_of_moment
from pinprof.base.terminal import say
from pinprof.cli.forms import refuse_folder
from pinprof.cli.progress import measured, working
from pinprof.data.model import Capture
from pinprof.read import machine_rates

_SEARCHING = "Searching for what to change"
_PACKED = re.compile(r"\.(tar(\.(gz|xz|zst))?|tgz|txz)$")
"""How packed captures end."""


def explain(
    path: Path, options: read.ReadOptions, *, selection: analyze.Selection | None = None, moment: bool = False
) -> Run:
    """Read a recording, or a part of it, and give every sample its cause.

    `moment`: where no part is chosen, that is the one for which a flight recorder has made it, if it has.
    """
    with measured(f"Reading {path.name}") as progress:
        capture = machine_rates.stored(read.read(path, replace(options, progress=progress)))
    if moment and selection is None:
        selection = selection_of_moment(capture)
    return attributed(capture, path, selection=selection)


def attributed(capture: Capture, path: Path, *, selection: analyze.Selection | None = None) -> Run:
    """Give every sample of a recording its cause."""
    with working(f"Attributing the samples of {path.name}"):
        return analyze.analyze(capture, selection=selection)


def guessed(analysis: Run) -> Set[str]:
    """The measures that an answer rests on and that nobody has taken on the machine."""
    with working(_SEARCHING):
        return analysis.guessed


def present(
    analyses: Sequence[Run],
    page: Path,
    shared_assets: Path | None = None,
    *,
    summary: bool = True,
    all_frames: bool = False,
    below: Sequence[str] = (),
) -> None:
    """Say in the terminal what was found, write recordings' page, and say where that is, and then the lines `below`.

    Without `summary` the page's path alone.
    """
    places = (f"Page: {page}", *below)
    if summary:
        answer(analyses, places)
    write_page(analyses, page, shared_assets, all_frames=all_frames)
    say("\n".join(["", *places]) if summary else page)


def answer(analyses: Sequence[Run], below: Sequence[str]) -> None:
    """Say what was found, before anything else is made; `below` is what follows once it is."""
    from pinprof.report.gather import answer_of
    from pinprof.report.terminal.summary import print_answer

    with working(_SEARCHING):
        answers = [answer_of(analysis) for analysis in analyses]
    print_answer(answers, below)


def write_page(
    analyses: Sequence[Run], page: Path, shared_assets: Path | None = None, *, all_frames: bool = False
) -> None:
    """Write recordings' page."""
    from pinprof.report.gather import build
    from pinprof.report.page.collection import write_collection
    from pinprof.report.page.html import write_html

    refuse_folder(page)
    with working("Building the report"):
        reports = [build(analysis, all_frames=all_frames) for analysis in analyses]
    with working(f"Writing {page.name}"):
        if len(reports) == 1:
            write_html(reports[0], page, shared_assets)
        else:
            write_collection(reports, page)


def default_page(path: Path, *, part: bool = False) -> Path:
    """`NAME.html` beside the recording, or in the current directory where that place is read-only or standard input.

    An absolute path for one that is absolute, otherwise a relative one. `part`: `NAME-part.html`, so that a page of a
    part leaves the page of the whole recording alone.
    """
    end = "-part.html" if part else ".html"
    if str(path) in ("-", "/dev/stdin"):
        return Path("stdin" + end)
    name = _PACKED.sub("", path.resolve().name)
    name = name.removesuffix(".partial").removesuffix(".pinprof").removesuffix(".ranks") + end
    beside = path.resolve().parent
    if not os.access(beside, os.W_OK):
        return Path(name)
    return beside / name if path.is_absolute() else Path(os.path.relpath(beside)) / name


def serve(page: Path, port: int) -> None:
    """Show a page over HTTP on loopback until Ctrl-C."""
    from pinprof.report.page.serve import PageServer

    with PageServer(page.read_bytes(), port) as server:
        say(f"Serving: {server.url}")
        tunnel = f"ssh -L {server.server_port}:127.0.0.1:{server.server_port} THIS-MACHINE"
        say(f"From another machine, run this first: {tunnel}. Ctrl-C ends it.")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
