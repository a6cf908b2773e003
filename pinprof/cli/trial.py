"""`pinprof try -- CMD …`: run a program as it is and with each cure that needs no change of its code, in turns."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pinprof.cli.progress import working
from pinprof.errors import UsageError
from pinprof.terminal import say

FORMATS = ("text", "markdown", "json", "html")
"""Written out, so that --help imports no report module; a test compares it with `report.trial.formats`."""


@click.command("try", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--cure", "cures", multiple=True, metavar="ID", help="Try this one; may be given several times.")
@click.option("--list", "list_all", is_flag=True, help="Say what can be tried, and what each changes.")
@click.option(
    "--measure",
    default="wall",
    show_default=True,
    metavar="WHAT",
    help="wall, work (the phase), range:NAME, memory (the peak), or 'regex:seconds ([0-9.]+)' of what it prints.",
)
@click.option("--time", "duration", default="5m", show_default=True, metavar="TIME", help="How long it may take.")
@click.option(
    "--error",
    default="2%",
    show_default=True,
    metavar="SHARE",
    help="Rounds go on until every ratio is known as well as this.",
)
@click.option("--no-record", is_flag=True, help="No recorded run: nothing is predicted, and --cure says what to try.")
@click.option("--same-output", is_flag=True, help="With a cure, the program must print the same.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the order of runs.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="What to write (default: what -o ends with, otherwise text)."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write (default: standard output; a page: pinprof-try.html).",
)
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
) -> int:
    """Run a program as it is and with each cure that needs no change of its code, and say what each one saves.

    A first recorded run selects the cures and predicts what they save; --cure chooses others. Runs as it is and with
    each cure alternate, as many as the error needs within the time. The program's own output is not shown.
    """
    if list_all:
        from pinprof.report.trial.text import print_cures

        print_cures()
        return 0
    if not program:
        raise click.UsageError("Missing argument '-- CMD [ARG]…'.")
    from pinprof.cli.pipeline import form_of, page_of

    form = form or form_of(output, FORMATS)
    if form == "html":
        output = page_of(output, "pinprof-try.html")
    from pinprof.trial import measure as measures
    from pinprof.trial import session
    from pinprof.units import parse_duration_ns, parse_share

    request = session.Request(
        command=program,
        cures=cures,
        measure=measures.parse(measure),
        time_s=parse_duration_ns(duration) / 1e9,
        error=parse_share(error),
        same_output=same_output,
        record=not no_record,
        seed=seed,
    )
    if not request.time_s or not request.error:
        raise UsageError("A trial takes time and leaves an error.", "Give --time and --error above 0.", "duration")
    with working("Starting") as tell:
        found = session.trial(request, os.environ, tell)
    from pinprof.report.trial import formats

    formats.write(found, form, output)
    if output is not None:
        say(f"Result: {output}", error=True)
    return 0
