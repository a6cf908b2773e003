"""`pinprof dump --pid N`: what every thread of a program does now."""

from __future__ import annotations

from pathlib import Path

import click

from pinprof.cli.answers import FILE, form_option
from pinprof.cli.forms import form_of

FORMATS = ("text", "json", "markdown")


@click.command()
@click.option("--pid", type=click.IntRange(1), required=True, help="A running program.")
@form_option(FORMATS)
@click.option("-o", "--output", type=FILE, help="Where to write (default: standard output).")
def command(pid: int, form: str | None, output: Path | None) -> None:
    """Show what every thread of a program and of its children does now.

    A thread has its Python, native and kernel stack, the cause of what it does, what it waits for and on whom, the CUDA
    call that it is in, and its page faults; a process has its memory.

    The program is not stopped. One look takes about a tenth of a second, in which threads that run are sampled.
    """
    from pinprof import dump
    from pinprof.report.dump.sections import FORMS

    form = form or form_of(output, FORMATS, "text")
    FORMS.of(dump.dump(pid)).save(form, output)
