"""`pinprof report NAME.ranks`: one answer for all ranks of a launch, and a page of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.base.errors import CaptureError, PinprofError, UsageError, system_error
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import say
from pinprof.cli.answers import most_lines
from pinprof.cli.forms import refuse_folder
from pinprof.cli.progress import working
from pinprof.cli.ranks import expanded

if TYPE_CHECKING:
    from pinprof.ranks.rank_run import RankRun
    from pinprof.ranks.results import Launch
    from pinprof.read import ReadOptions
    from pinprof.read.symbols.kept import KeptSymbols

FORMATS = ("html", "text", "json", "markdown")
"""What a whole launch can be shown as."""
MOST_PAGES = 8
"""Ranks that get a page of their own beside the launch's."""
_ALONE = 4
"""The captures that are read one after the other; from more, several at a time."""
_MOST_AT_ONCE = 4
_RANK = re.compile(r"rank-(\d+)\.pinprof")


@dataclass(frozen=True)
class _Read:
    """What came of one capture."""

    number: int
    run: RankRun | None
    problem: str
    """Why there is none."""


def captures_of(given: Path) -> list[Path]:
    """The captures of a launch; another path as it is. A packed launch is unpacked until the command ends."""
    from pinprof.read import archive

    if archive.is_launch(given):
        given = click.get_current_context().with_resource(archive.unpacked(given, str(given)))
    return expanded(given)


def rank_of(path: Path) -> int | None:
    """The rank in the name of a capture."""
    match = _RANK.fullmatch(path.name)
    return int(match[1]) if match else None


def one_rank(captures: Sequence[Path], rank: int) -> Path:
    """The capture of one rank; UsageError if there is none."""
    known = {rank_of(path): path for path in captures}
    if rank not in known:
        numbers = ", ".join(str(number) for number in known if number is not None)
        raise UsageError(
            f"There is no capture of rank {rank}.",
            f"Give one of these: {numbers}." if numbers else "Give the folder of a launch, NAME.ranks.",
            "rank",
        )
    return known[rank]


def report_launch(
    folder: Path,
    captures: Sequence[Path],
    form: str | None,
    output: Path | None,
    options: ReadOptions,
    *,
    pages: bool = True,
    all_lines: bool = False,
) -> tuple[Path | None, bool]:
    """Show the answer for a launch; the page's path where one is written, and whether a recording is damaged.

    `pages` writes the ranks' own pages, too.
    """
    if form not in (None, *FORMATS):
        raise UsageError(
            f"{form} is a format for a single rank.",
            f"Add --rank N, or give {', '.join(FORMATS)} for the whole launch.",
            "ranks-format",
        )
    launch, most = _launch(captures, options), most_lines(all_lines=all_lines)
    if form in ("text", "json", "markdown"):
        from pinprof.report.ranks.sections import FORMS as WRITTEN

        WRITTEN.of(launch).save(form, output, most=most)
        return None, launch.damaged
    return _page(folder, captures, launch, form, output, options, most, pages=pages), launch.damaged


def _launch(captures: Sequence[Path], options: ReadOptions) -> Launch:
    from pinprof.ranks.engine import explain

    found = list(_all(captures, options))
    problems = {one.number: one.problem for one in found if one.run is None}
    return explain([one.run for one in found if one.run is not None], captures[0].resolve().parent.name, problems)


def _all(captures: Sequence[Path], options: ReadOptions) -> Sequence[_Read]:
    workers = min(_MOST_AT_ONCE, os.cpu_count() or 1)
    with working(f"Reading {len(captures)} ranks") as tell:
        found: list[_Read] = []
        if len(captures) <= _ALONE or workers < 2:
            for path in captures:
                tell(f"Reading {path.name}, {len(found) + 1} of {len(captures)}")
                found.append(_reduced(path, options))
            return found
        for one in _several_at_a_time(captures, options, workers):
            found.append(one)
            tell(f"Reading ranks, {len(found)} of {len(captures)}")
        return found


def _several_at_a_time(captures: Sequence[Path], options: ReadOptions, workers: int) -> Iterator[_Read]:
    """The ranks, read in processes. Where one dies, those not read yet have processes of their own."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    done = 0
    # Each process starts anew: a fork would copy the threads' locks.
    context = get_context("spawn")
    with suppress(BrokenProcessPool), ProcessPoolExecutor(workers, context) as pool:
        for one in pool.map(_reduced, captures, [options] * len(captures)):
            done += 1
            yield one
    for path in captures[done:]:
        with ProcessPoolExecutor(1, context) as pool:
            try:
                yield pool.submit(_reduced, path, options).result()
            except BrokenProcessPool:
                yield _Read(rank_of(path) or 0, None, "The process that read it died. It may need more memory.")


@cache
def _kept_symbols() -> KeptSymbols:
    """The symbol tables of files that ranks share: each is read once by a process."""
    from pinprof.read.symbols.kept import KeptSymbols

    return KeptSymbols()


def _reduced(path: Path, options: ReadOptions) -> _Read:
    """One rank, read and reduced; what cannot be read is reported, and the others go on."""
    from pinprof import analyze, read
    from pinprof.ranks.rank_run import rank_run
    from pinprof.read import machine_rates

    number = rank_of(path) or 0
    options = replace(options, kept=_kept_symbols())
    try:
        run = rank_run(analyze.analyze(machine_rates.stored(read.read(path, options))), number)
    except PinprofError as error:
        return _Read(number, None, str(error))
    except MemoryError:
        return _Read(number, None, "There is not enough memory to read it.")
    except Exception as error:
        known = system_error(error) if isinstance(error, OSError) else None
        unexpected = f"pinprof fails to read it, {type(error).__name__}: {error}. `--rank {number}` shows where."
        return _Read(number, None, str(known or unexpected))
    return _Read(number, run, "" if run else "Its recording has no time samples.")


def _page(
    folder: Path,
    captures: Sequence[Path],
    launch: Launch,
    form: str | None,
    output: Path | None,
    options: ReadOptions,
    most: int | None,
    *,
    pages: bool,
) -> Path:
    from pinprof.cli import pipeline
    from pinprof.report.ranks.sections import FORMS as WRITTEN

    page = output or pipeline.default_page(folder)
    refuse_folder(page)
    links = _rank_pages(page, captures, launch, options) if pages else {}
    with working(f"Writing {page.name}"):
        ranks = tuple(replace(rank, page=links.get(rank.number, "")) for rank in launch.ranks)
        answer = WRITTEN.of(replace(launch, ranks=ranks))
        answer.save("html", page)
    if form is None:
        answer.save("text", most=most)
        say(f"Page: {page}")
        say(f"One rank: pinprof report {folder} --rank N")
    else:
        say(page)
    return page


def _rank_pages(page: Path, captures: Sequence[Path], launch: Launch, options: ReadOptions) -> dict[int, str]:
    """Rank → its page's path beside the launch's, for all ranks of a small launch, else for those that tell most."""
    from pinprof.cli import pipeline
    from pinprof.report.gather import build
    from pinprof.report.page.html import write_html

    place = page.with_name(f"{page.stem}-ranks")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}
    links = {}
    for path in captures:
        number = rank_of(path)
        if number not in _telling(launch):
            continue
        with working(f"Writing the page of rank {number}"):
            try:
                write_html(build(pipeline.explain(path, options)), place / f"rank-{number}.html")
            except CaptureError:
                continue
        links[number] = f"{place.name}/rank-{number}.html"
    return links


def _telling(launch: Launch) -> list[int]:
    """The ranks that get a page: all, or of many those that are awaited and the first ones of each group."""
    numbers = [rank.number for rank in launch.ranks]
    if len(numbers) <= MOST_PAGES:
        return numbers
    awaited = [rank for hold in launch.holds for rank in hold.ranks]
    firsts = [group.ranks[0] for group in launch.groups]
    return list(dict.fromkeys((*awaited, *firsts)))[:MOST_PAGES]
