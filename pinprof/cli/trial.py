"""`pinprof try -- CMD …`: alternate runs of a program with and without each cure that needs no code changes."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pinprof.base.terminal import say
from pinprof.cli.answers import ALL_LINES, FILE, form_option, most_lines
from pinprof.cli.forms import form_of, page_of
from pinprof.cli.progress import working
from pinprof.cli.rounds import ERROR, SEED, TIME, bounds

FORMATS = ("text", "markdown", "json", "html")
"""Written out, so that --help imports no report module; a test compares it with `report.trial.sections`."""


@click.command("try", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--cure", "cures", multiple=True, metavar="ID", help="A cure to try. Repeatable.")
@click.option("--list", "list_all", is_flag=True, help="List the cures and what each one changes.")
@click.option(
    "--measure",
    default="wall",
    show_default=True,
    metavar="WHAT",
    help="What to measure: wall, work (the phase), range:NAME, memory (the peak), or a number that the program "
    "prints, for example 'regex:seconds ([0-9.]+)'.",
)
@TIME
@ERROR
@click.option(
    "--no-record", is_flag=True, help="Skip the recorded run. There is no prediction, and --cure is required."
)
@click.option("--same-output", is_flag=True, help="Require the same output with each cure.")
@SEED
@form_option(FORMATS)
@click.option("-o", "--output", type=FILE, help="Where to write (default: standard output; html: pinprof-try.html).")
@ALL_LINES
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD [ARG]…")
def command(
    program: tuple[str, ...],
    cures: tuple[str, ...],
    list_all: bool,
    measure: str,
    duration: str,
    error: str,
    no_record: bool,
    same_output: bool,
    seed: int,
    form: str | None,
    output: Path | None,
    *,
    all_lines: bool,
) -> int:
    """Run a program with and without each cure that needs no code changes, and measure what it saves.

    A first, recorded run selects the cures and predicts their savings; --cure selects others. Then runs with and
    without each cure alternate until the error is small enough or the time is up. The output of the program is not
    shown.
    """
    if list_all:
        from pinprof.report.trial.sections import print_cures

        print_cures()
        return 0
    if not program:
        raise click.UsageError("Missing argument '-- CMD [ARG]…'.")

    form = form or form_of(output, FORMATS)
    if form == "html":
        output = page_of(output, "pinprof-try.html")
    from pinprof.trial import measure as measures
    from pinprof.trial import session

    time_s, share = bounds(duration, error)
    request = session.TrialRequest(
        command=program,
        cures=cures,
        measure=measures.parse(measure),
        time_s=time_s,
        error=share,
        same_output=same_output,
        record=not no_record,
        seed=seed,
    )
    with working("Starting") as tell:
        found = session.trial(request, os.environ, tell)
    from pinprof.report.trial.sections import FORMS as WRITTEN

    WRITTEN.of(found).save(form, output, most=most_lines(all_lines=all_lines))
    if output is not None:
        say(f"Result: {output}", error=True)
    return 0
