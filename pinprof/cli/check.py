"""`pinprof check`: judge captures by budgets that are kept with the source."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.base.errors import UsageError
from pinprof.base.terminal import say
from pinprof.cli import interrupts
from pinprof.cli.answers import ALL_LINES, FILE, form_option, most_lines
from pinprof.cli.forms import form_of
from pinprof.cli.progress import working

if TYPE_CHECKING:
    from pinprof.check.budgets import Budget
    from pinprof.check.taken import TakenRun
    from pinprof.check.verdicts import Checked

FORMATS = ("text", "json", "markdown", "junit", "sarif", "github", "gitlab")
"""Written out, so that --help imports no report module; a test compares it with `report.check.sections`."""

INIT = "init"
_UNNOTICED = 4


_PROGRAM = "pinprof.check.program"


class _WithProgram(click.Command):
    """Keeps what stands after `--` apart: it is a program, not a capture."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[_PROGRAM] = tuple(args[place + 1 :])
            if not ctx.meta[_PROGRAM]:
                raise click.UsageError("There is no program after '--'.", ctx)
            args = args[:place]
        return super().parse_args(ctx, args)


@click.command(cls=_WithProgram)
@click.argument("given", nargs=-1, type=click.UNPROCESSED, metavar="[init] CAPTURE… | -- CMD [ARG]…")
@click.option("--budget", "file", type=FILE, help="File with the budgets (default: the nearest one).")
@click.option("--against", type=FILE, multiple=True, metavar="PATH", help="A recording of the baseline. Repeatable.")
@click.option(
    "--baseline", metavar="CMD", help="Command line of the baseline. Its runs alternate with those of the program."
)
@click.option("--time", "duration", default="10m", show_default=True, help="Time limit for running the program.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed for the order of runs.")
@click.option("--keep", type=FILE, metavar="FOLDER", help="Keep the captures of the program's runs in this folder.")
@form_option(FORMATS)
@click.option("-o", "--output", type=FILE, help="Where to write (default: standard output; init: pinprof.toml).")
@ALL_LINES
@click.option("--write", "also", multiple=True, metavar="FORM=FILE", help="Write this format too. Repeatable.")
@click.option(
    "--allow-unassessable", "allowed", is_flag=True, help="Let budgets that cannot be judged pass, with a warning."
)
@click.option("--self-test", is_flag=True, help="Break each budget on purpose, and report which breaks go unnoticed.")
@click.pass_context
# 14 parameters: click passes one for each option.
def command(
    ctx: click.Context,
    given: tuple[str, ...],
    file: Path | None,
    against: tuple[Path, ...],
    baseline: str | None,
    duration: str,
    seed: int,
    keep: Path | None,
    form: str | None,
    output: Path | None,
    also: tuple[str, ...],
    *,
    all_lines: bool,
    allowed: bool,
    self_test: bool,
) -> int:
    """Check captures or a program against budgets, and fail if one is broken.

    Budgets come from the nearest pinprof.toml, or [tool.pinprof] in pyproject.toml, in this directory or above. With a
    program after `--`, pinprof records it as often as the budgets need. `init CAPTURE…` writes budgets that the
    captures meet.

    Exit status: 0 all budgets hold, 3 at least one is broken, 4 at least one cannot be judged.
    """
    captures, program = list(given), ctx.meta.get(_PROGRAM, ())
    if captures[:1] == [INIT] and not Path(INIT).exists():
        return _init([Path(one) for one in captures[1:]], output)
    if not captures and not program:
        raise click.UsageError("Missing argument 'CAPTURE…' or '-- CMD [ARG]…'.")
    _refuse_mixed(captures, program, baseline, keep, against, self_test=self_test)
    files = _files(also)
    from pinprof.check.budgets import no_worse, refuse_alike
    from pinprof.check.judge import in_turns, judge, judgeable

    form = form or form_of(output, FORMATS)
    written = _budgets(file, against=bool(against or baseline))
    implied = no_worse() if (against or baseline) and not any(one.relative for one in written) else ()
    budgets = (*written, *implied)
    refuse_alike(budgets)
    if program:
        runs, others = _recorded(program, baseline, budgets, duration, seed, keep)
    else:
        runs, others = _read([Path(one) for one in captures], budgets), []
    others += _read(against, budgets)
    paired = bool(program and baseline)
    if against and not program:
        runs, others, paired = in_turns(runs, others)
    most = most_lines(all_lines=all_lines)
    if self_test:
        return _self_test(runs, budgets, others, form, output, most)
    implied, note = judgeable(implied, runs, others)
    budgets, notes = (*written, *implied), [note] if note else []
    checked = judge(runs, budgets, others, paired=paired, allowed=allowed, notes=notes)
    _write(checked, form, output, files, most)
    return checked.status


def _refuse_mixed(
    captures: Sequence[str],
    program: Sequence[str],
    baseline: str | None,
    keep: Path | None,
    against: Sequence[Path],
    *,
    self_test: bool,
) -> None:
    if captures and program:
        raise UsageError("The command line has both captures and a program.", "Give one of them.", "check-what")
    if self_test and program:
        raise UsageError(
            "--self-test works on captures only.", "Record the program first: pinprof record -- CMD", "check-what"
        )
    if not program and (baseline or keep):
        what = "--baseline" if baseline else "--keep"
        raise UsageError(f"{what} needs a program.", "Name the baseline's recordings with --against.", "check-what")
    if baseline and against:
        raise UsageError("The command line has two baselines.", "Give --baseline or --against.", "check-what")


def _files(also: Sequence[str]) -> list[tuple[str, Path]]:
    """The further outputs: form and file."""
    found = []
    for one in also:
        form, equals, file = one.partition("=")
        if not equals or not file or form not in FORMATS:
            raise UsageError(
                f"--write {one!r} is not valid.", f"Write FORM=FILE; forms: {', '.join(FORMATS)}.", "check-what"
            )
        found.append((form, Path(file)))
    return found


def _budgets(file: Path | None, *, against: bool) -> tuple[Budget, ...]:
    """Those of the file, or of the nearest one; none are needed where there is a baseline."""
    from pinprof.base import settings
    from pinprof.check import configuration

    nearest = settings.Nearest(file) if file else settings.nearest(Path.cwd())
    if nearest.left_out:
        raise UsageError(nearest.left_out[0], "If its budgets are meant, give it with --budget.", "budget-file")
    path = nearest.path
    if path is None and not against:
        raise UsageError(
            "No budgets were found: this directory and those above it have neither a pinprof.toml nor [tool.pinprof] "
            "in pyproject.toml.",
            "Write some from a capture: pinprof check init CAPTURE",
            "budget-file",
        )
    return configuration.budgets_in(path) if path is not None else ()


def _read(given: Sequence[Path], budgets: Sequence[Budget]) -> list[TakenRun]:
    """Every recording measured, one after the other: only what budgets need of each stays in memory."""
    from pinprof import read
    from pinprof.check.taken import take
    from pinprof.cli import pipeline
    from pinprof.compare.sides import recordings_of

    return [take(pipeline.explain(path, read.ReadOptions()), budgets) for path in recordings_of(given)]


def _recorded(
    program: tuple[str, ...],
    baseline: str | None,
    budgets: tuple[Budget, ...],
    duration: str,
    seed: int,
    keep: Path | None,
) -> tuple[list[TakenRun], list[TakenRun]]:
    from pinprof.base.units import parse_duration_ns
    from pinprof.check.program import CheckRequest, record

    try:
        other = tuple(shlex.split(baseline)) if baseline is not None else ()
    except ValueError as error:
        raise UsageError(
            f"--baseline is not a valid command line: {error}.", "Quote it for the shell.", "check-what"
        ) from error
    if baseline is not None and not other:
        raise UsageError("--baseline is empty.", "Give a command line.", "check-what")
    request = CheckRequest(program, other, budgets, parse_duration_ns(duration) / 1e9, seed, keep)
    kept = f"The captures of finished runs are in {keep}." if keep else "No capture is kept, as without --keep."
    with interrupts.keeping(kept), working("Starting") as tell:
        found = record(request, os.environ, tell)
    return found.runs, found.against


def _self_test(
    runs: Sequence[TakenRun],
    budgets: Sequence[Budget],
    against: Sequence[TakenRun],
    form: str,
    output: Path | None,
    most: int | None,
) -> int:
    from pinprof.check.selftest import self_test
    from pinprof.report.check.sections import SELF_TEST

    if form not in ("text", "json"):
        raise UsageError(f"--self-test can't be written as {form}.", "Write text or json.", "check-what")
    tested = self_test(runs, budgets, against)
    SELF_TEST.of(tested).save(form, output, most=most)
    return 0 if all(one.noticed for one in tested) else _UNNOTICED


def _write(
    checked: Checked, form: str, output: Path | None, files: Sequence[tuple[str, Path]], most: int | None
) -> None:
    from pinprof.report.check.sections import FORMS as WRITTEN
    from pinprof.report.check.step_summary import append_summary

    answer = WRITTEN.of(checked)
    for other, file in files:
        answer.save(other, file)
    answer.save(form, output, most=most)
    if problem := append_summary(checked):
        say(f"pinprof: {problem}", error=True)


def _init(captures: Sequence[Path], output: Path | None) -> int:
    """Write budgets from captures; UsageError where the file exists already."""
    from pinprof import read
    from pinprof.base.settings import OWN
    from pinprof.check.initial import initial
    from pinprof.cli import pipeline
    from pinprof.compare.sides import recordings_of
    from pinprof.report.export.streams import text_output

    if not captures:
        raise click.UsageError("Missing argument 'CAPTURE…'.")
    target = output or Path(OWN)
    shown = str(target) == "-"
    if not shown and (target.exists() or target.is_symlink()):
        raise UsageError(
            f"{target} exists already.", "Name another file with -o, or print the budgets with `-o -`.", "output"
        )
    paths = recordings_of(captures)
    analyses = [pipeline.explain(path, read.ReadOptions()) for path in paths]
    text = initial(
        analyses, [path.name for path in paths], "tool.pinprof.budget" if target.name == "pyproject.toml" else "budget"
    )
    with text_output(target) as file:
        file.write(text)
    if not shown:
        say(f"Budgets: {target}")
    return 0
