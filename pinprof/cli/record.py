"""`pinprof record -- CMD …`: record any program and explain where its time went."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import click

from pinprof.cli.recording import RecordingOptions, record, recording_options


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--with",
    "collectors",
    default="auto",
    show_default=True,
    metavar="auto|native|perf|nsys|native,nsys",
    help="Which recorders; auto: pinprof's own, or perf where that sees more.",
)
@recording_options
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD [ARG]…")
def command(program: tuple[str, ...], collectors: str, **options: Any) -> int:
    """Record any program and explain where its host-memory time went.

    The program keeps its standard streams and its exit status, which is also pinprof's; the summary goes to standard
    error. Ctrl-C ends the program, not the recording: what was recorded is kept and explained.

    Python programs can mark their phases: `from pinprof.workload import phase`.
    """
    return record(collectors, program, PurePath(program[0]).name, RecordingOptions(**options))
