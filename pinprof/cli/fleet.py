"""`pinprof fleet`: many captures, what stands out among them, and what would save most."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.base.errors import UsageError
from pinprof.base.terminal import say
from pinprof.cli import interrupts
from pinprof.cli.answers import FILE, form_option
from pinprof.cli.forms import form_of, page_of
from pinprof.cli.progress import working

if TYPE_CHECKING:
    from pinprof.fleet.results import Answer

FORMATS = ("html", "text", "json", "markdown")
_PAGE = "pinprof-fleet.html"
STORE = "pinprof-fleet"


@click.command()
@click.argument("given", nargs=-1, required=True, metavar="PATH…")
@click.option("--store", type=FILE, default=STORE, show_default=True, help="Folder that keeps the results of reading.")
@click.option(
    "--scheduler", default="", metavar="ADDRESS", help="Address of a Dask scheduler whose workers read the captures."
)
@click.option(
    "--workers",
    type=click.IntRange(0),
    help="Processes that read captures (default: one per CPU where it pays; 0: only this process).",
)
@click.option("--memory", default="", metavar="SIZE", help="Memory limit of each process, for example 4GB.")
@form_option(FORMATS, "html")
@click.option("-o", "--output", type=FILE, help=f"Where to write (default: {_PAGE}; others: standard output).")
@click.option(
    "--pages",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Write a separate page for up to this many outliers.",
)
@click.option("--sql", metavar="QUERY", help="Run this SQL query on the tables (see docs/fleet.md).")
def command(
    given: tuple[str, ...],
    store: Path,
    scheduler: str,
    workers: int | None,
    memory: str,
    form: str | None,
    output: Path | None,
    pages: int,
    sql: str | None,
) -> None:
    """Read many captures and find the outliers, their reasons, and the largest savings.

    PATH is a folder, a glob, a capture, or a URL of an object store (s3://, gs://). --store keeps the results, so the
    next run reads only new captures. A capture that cannot be read gets a row with the reason.
    """
    from pinprof.base.units import parse_bytes
    from pinprof.fleet import answer, database, session

    if sql is not None and form not in (None, "text", "json"):
        raise UsageError("--sql writes a table.", "Write text or json.", "format")
    if memory:
        parse_bytes(memory)
    form = form or form_of(output, FORMATS, "html" if sql is None else "text")
    kept = interrupts.keeping(f"What was read is kept in {store}; the next run goes on from there.")
    with kept, working("Looking for captures") as tell:
        session.gather(given, store, scheduler, workers, memory, tell)
        tell("Asking the tables")
        connection = database.connect(store)
        if sql is None:
            found = answer.answer_of(connection)
    if sql is not None:
        from pinprof.report.fleet import rows

        rows.write(database.query(connection, sql), form, output)
        return
    _write(found, form, output, pages)


def _write(found: Answer, form: str, output: Path | None, pages: int) -> None:
    from pinprof.report.fleet.sections import FORMS as WRITTEN

    if form != "html":
        WRITTEN.of(found).save(form, output)
        return
    from pinprof.report.fleet.drilldown import with_pages

    target = page_of(output, _PAGE)
    with working("Writing the pages of outliers") as tell:
        found = with_pages(found, target, pages, tell)
    answer = WRITTEN.of(replace(found, brief=True))
    answer.save("html", target)
    answer.save("text")
    say(f"Page: {target}")
