"""`pinprof fix -- CMD …`: change code at opportunities' lines in a copy of the work tree, and measure the change."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from pinprof.base.terminal import say
from pinprof.cli.answers import ALL_LINES, FILE, form_option, most_lines
from pinprof.cli.forms import form_of
from pinprof.cli.progress import working
from pinprof.cli.rounds import ERROR, SEED, TIME, bounds

FORMATS = ("text", "markdown", "json")
"""Written out, so that --help imports no report module; a test compares it with `report.fix.sections`."""


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--apply", is_flag=True, help="Write what is proven to save into the work tree.")
@click.option("--patch", type=FILE, help="Write what is proven to save as a patch to this file.")
@click.option("--build", metavar="CMD", help="The command that compiles a program in C or C++, for example 'make'.")
@click.option("--test", metavar="CMD", help="A command that must succeed with each change, for example 'pytest -x'.")
@click.option("--same-output", is_flag=True, help="Require the same output to the byte, numbers such as times too.")
@click.option(
    "--copy",
    "copied",
    multiple=True,
    type=FILE,
    help="A file or folder that git ignores and the program needs. Repeatable.",
)
@click.option(
    "--measure",
    default="wall",
    show_default=True,
    metavar="WHAT",
    help="What to measure, as with pinprof try: wall, work, range:NAME, memory, or 'regex:seconds ([0-9.]+)'.",
)
@TIME
@ERROR
@SEED
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@form_option(FORMATS)
@click.option("-o", "--output", type=FILE, help="Where to write the answer (default: standard output).")
@ALL_LINES
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[CAPTURE | -- CMD [ARG]…]")
def command(
    program: tuple[str, ...],
    patch: Path | None,
    build: str | None,
    test: str | None,
    copied: tuple[Path, ...],
    measure: str,
    duration: str,
    error: str,
    seed: int,
    form: str | None,
    output: Path | None,
    *,
    apply: bool,
    same_output: bool,
    as_json: bool,
    all_lines: bool,
) -> int:
    """Change a program's code in a copy, measure what that saves, and write the patch.

    The program is recorded. Where pinprof has a transformation for an opportunity and is certain that it changes no
    result, it changes a copy of the work tree, and runs as is and changed alternate. The output must stay the same.
    Your files change only with --apply, and never those that have uncommitted changes. A CAPTURE stands for the command
    that it recorded.
    """
    if not program:
        raise click.UsageError("Missing argument 'CAPTURE' or '-- CMD [ARG]…'.")
    from pinprof.fix import session
    from pinprof.trial import measure as measures

    words = program
    if len(program) == 1 and Path(program[0]).is_dir():
        from pinprof import read

        words = session.command_of(read.read(Path(program[0]), read.ReadOptions()).manifest.command)
    time_s, share = bounds(duration, error)
    request = session.FixRequest(
        words,
        Path.cwd(),
        measure=measures.parse(measure),
        time_s=time_s,
        error=share,
        same_output=same_output,
        build=tuple(shlex.split(build or "")),
        test=tuple(shlex.split(test or "")),
        copied=copied,
        apply=apply,
        seed=seed,
    )
    with working("Starting") as tell:
        found = session.fix(request, os.environ, tell)
    from pinprof.report.export.streams import text_output
    from pinprof.report.fix.sections import FORMS as WRITTEN

    if patch is not None and found.patch:
        with text_output(patch) as file:
            file.write(found.patch)
    form = "json" if as_json else form or form_of(output, FORMATS)
    WRITTEN.of(found).save(form, output, most=most_lines(all_lines=all_lines))
    if patch is not None:
        say(f"Patch: {patch}" if found.patch else "Nothing is kept, so there is no patch.", error=True)
    return 0
