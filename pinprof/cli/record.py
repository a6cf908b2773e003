"""`pinprof record -- CMD …`: record any program and explain where its time went."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import click

from pinprof.cli.recording import record, recording_options
from pinprof.errors import UsageError


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--with",
    "collectors",
    default="auto",
    show_default=True,
    metavar="auto|native|perf|nsys|native,nsys",
    help="Recorders to use. auto: pinprof's own, or perf where that records more.",
)
@recording_options
@click.option("--pid", type=click.IntRange(1), help="Record a running process. Ctrl-C ends the recording.")
@click.option(
    "--duration",
    metavar="TIME",
    help="With --pid: how long to record, for example 10s (default: until the process ends).",
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD [ARG]…")
def command(program: tuple[str, ...], collectors: str, pid: int | None, duration: str | None, **options: Any) -> int:
    """Record any program and explain where its host-memory time went.

    The program keeps its standard streams and its exit status, which is also pinprof's; the summary goes to standard
    error. Ctrl-C ends the program, not the recording: what was recorded is kept and explained.

    Python programs can mark their phases: `from pinprof.scenario import phase`.

    Under torchrun, mpirun or srun every rank is recorded into one folder: NAME-DATE.ranks.
    """
    if pid is not None:
        return _attach(collectors, program, pid, duration, options)
    if not program:
        raise click.UsageError("Missing argument '-- CMD [ARG]…'.")
    if duration is not None:
        raise UsageError(
            "--duration works only with --pid.",
            "pinprof records a program that it starts until the program ends.",
            "duration",
        )
    return record(collectors, program, PurePath(program[0]).name, options)


def _attach(collectors: str, program: tuple[str, ...], pid: int, duration: str | None, options: dict[str, Any]) -> int:
    """Record a process that runs already."""
    from pinprof.collect import attach
    from pinprof.units import parse_duration_ns

    if program:
        raise UsageError("--pid records a running process, not a command.", "Leave out the command, or --pid.", "pid")
    length_ns = parse_duration_ns(duration) if duration is not None else 0
    if duration is not None and not length_ns:
        raise UsageError("--duration must be above 0.", "For example, give --duration 10s.", "duration")
    command = attach.command_of(pid)
    name = attach.name_of(pid) or PurePath(command[0]).name
    return record(collectors, command, name, options, pid=pid, duration_s=length_ns / 1e9)
