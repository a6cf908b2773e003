"""`pinprof diff`: what differs between two recordings, or two sides of several, and whether by chance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pinprof.base.errors import UsageError
from pinprof.base.terminal import say
from pinprof.cli.answers import ALL_LINES, FILE, form_option, most_lines
from pinprof.cli.forms import form_of, page_of

if TYPE_CHECKING:
    from pinprof.compare.results import Difference
    from pinprof.compare.runs import ComparedRun

FORMATS = ("text", "html", "json", "markdown", "folded")


@click.command()
@click.argument("sides", type=FILE, nargs=-1, metavar="BEFORE AFTER")
@click.option(
    "--before", type=FILE, multiple=True, metavar="PATH", help="A recording from before the change. Repeatable."
)
@click.option(
    "--after", type=FILE, multiple=True, metavar="PATH", help="A recording from after the change. Repeatable."
)
@form_option(FORMATS)
@click.option("-o", "--output", type=FILE, help="Where to write (default: standard output; html: pinprof-diff.html).")
@ALL_LINES
@click.option(
    "--per",
    metavar="UNIT",
    help="Compare per run, iteration, step, gib (copied) or range:NAME (default: what both sides repeat).",
)
@click.option("--event", help="The event to fold (default: the first one).")
@click.option("--any-program", is_flag=True, help="Compare programs with different names that do the same work.")
@click.option("--merge-names", is_flag=True, help="Give functions that are compared as one the same name.")
@click.option("--kallsyms", type=FILE, help="The recording kernel's /proc/kallsyms, for a bare perf.data.")
@click.option("--symfs", type=FILE, help="Directory that holds the recorded binaries.")
def command(
    sides: tuple[Path, ...],
    before: tuple[Path, ...],
    after: tuple[Path, ...],
    form: str | None,
    output: Path | None,
    per: str | None,
    event: str | None,
    *,
    any_program: bool,
    merge_names: bool,
    all_lines: bool,
    **reading: Any,
) -> None:
    """Compare recordings from before and after a change: what disappeared, what is new, and how much time it saved.

    BEFORE and AFTER are recordings that `pinprof report` can read, or folders with several recordings of one program.
    The tests use how much the runs of each side vary, so record each side several times and alternate the sides.
    """
    from pinprof.compare import engine

    form = form or form_of(output, FORMATS)
    old, new = _sides(sides, before, after)
    if (event or merge_names) and form != "folded":
        raise UsageError("--event and --merge-names need folded stacks.", "Add --format folded.", "format")
    if form == "html":
        output = page_of(output, "pinprof-diff.html")
    runs = _runs(old, new, reading)
    names = tuple(_name(given) for given in (old, new))
    exact = form == "folded" and not merge_names
    difference = engine.compare(*runs, (names[0], names[1]), per, any_program=any_program, exact_names=exact)
    _write(difference, form, output, event, most_lines(all_lines=all_lines))


def _sides(
    sides: Sequence[Path], before: Sequence[Path], after: Sequence[Path]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """What was given for each side."""
    if len(sides) not in (0, 2):
        raise UsageError(
            f"A comparison has two sides, but {len(sides)} {'path is' if len(sides) == 1 else 'paths are'} given.",
            "Give BEFORE and AFTER. For several recordings per side, use --before and --after, or give their folders.",
            "diff-sides",
        )
    old, new = ((*sides[:1], *before), (*sides[1:], *after))
    if not old or not new:
        raise UsageError(
            f"There is no recording from {'before' if not old else 'after'} the change.",
            "Give BEFORE and AFTER, or --before PATH and --after PATH.",
            "diff-sides",
        )
    return old, new


def _runs(
    old: Sequence[Path], new: Sequence[Path], reading: dict[str, Any]
) -> tuple[list[ComparedRun], list[ComparedRun]]:
    """Every recording read and explained, one after the other: only what a comparison needs of each stays in memory."""
    from pinprof import read
    from pinprof.cli import pipeline
    from pinprof.compare.runs import run_of
    from pinprof.compare.sides import recordings_of, refuse_same_paths

    before, after = recordings_of(old), recordings_of(new)
    refuse_same_paths(before, after)
    options = read.ReadOptions(**reading)
    return (
        [run_of(pipeline.explain(path, options)) for path in before],
        [run_of(pipeline.explain(path, options)) for path in after],
    )


def _name(given: Sequence[Path]) -> str:
    return given[0].name if len(given) == 1 else f"{given[0].name} and {len(given) - 1} more"


def _write(difference: Difference, form: str, output: Path | None, event: str | None, most: int | None) -> None:
    if form == "folded":
        from pinprof.report.compare import folded
        from pinprof.report.export.streams import text_output

        stacks = folded.chosen(difference.stacks, event)
        with text_output(output) as stream:
            folded.write_folded(stacks, stream)
        return
    from pinprof.report.compare.sections import FORMS

    FORMS.of(difference).save(form, output, most=most)
    if form == "html":
        say(f"Page: {output}")
