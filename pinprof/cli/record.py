"""`pinprof record -- CMD …`: record any program and explain where its time went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pinprof.base.errors import UsageError
from pinprof.cli import naming
from pinprof.cli.recording import record, recording_options


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--with",
    "collectors",
    default="auto",
    show_default=True,
    metavar="auto|native|perf|timers|nsys|native,nsys",
    help="Recorders to use. auto: pinprof's own, perf if it records more, or timers inside the program.",
)
@recording_options
@click.option("--demo", is_flag=True, help="Record a small program with a known problem, and see what pinprof says.")
@click.option("--pid", type=click.IntRange(1), help="Record a running process. Ctrl-C ends the recording.")
@click.option("--delay", metavar="TIME", help="Start recording after this time, for example 30s.")
@click.option("--duration", metavar="TIME", help="How long to record, for example 10s. The program continues.")
@click.option(
    "--ring",
    metavar="TIME",
    help="Flight recorder: keep the last TIME, for example 60s, and make a capture of it at each --trigger.",
)
@click.option(
    "--trigger",
    "triggers",
    multiple=True,
    metavar="WHAT",
    help="When to make one: 'range:NAME>250ms', 'range:NAME>p99', 'psi:memory>10%', 'pinned>4GiB', "
    "signal:USR2, crash. Repeatable.  [default: signal:USR2, crash]",
)
@click.option(
    "--captures-per-hour", type=click.IntRange(1), default=6, show_default=True, help="The most captures of --ring."
)
@click.option(
    "--metrics",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what the program spends as a text file of Prometheus, refreshed every 10 s or more (--ring).",
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD [ARG]…")
def command(
    program: tuple[str, ...],
    collectors: str,
    demo: bool,
    pid: int | None,
    delay: str | None,
    duration: str | None,
    ring: str | None,
    triggers: tuple[str, ...],
    captures_per_hour: int,
    metrics: Path | None,
    **options: Any,
) -> int:
    """Record any program and explain where its host-memory time went.

    The program keeps its standard streams. pinprof prints its summary to standard error and exits with the program's
    status. Ctrl-C ends the program; pinprof keeps the recording and reports on it.

    Python programs can mark their phases: `with pinprof.phase("load"):`.

    Under torchrun, mpirun or srun, pinprof records all ranks into one folder: NAME-DATE.ranks.
    """
    if triggers and ring is None:
        raise UsageError("--trigger belongs to a flight recorder.", "Give --ring as well, for example 60s.", "trigger")
    if metrics and ring is None:
        raise UsageError("--metrics belongs to a flight recorder.", "Give --ring as well, for example 60s.", "metrics")
    if demo:
        return _demo(program, pid, collectors, options)
    if pid is None and not program:
        raise click.UsageError("Missing argument '-- CMD [ARG]…'.")
    if pid is not None and program:
        raise UsageError("--pid records a running process, not a command.", "Leave out the command, or --pid.", "pid")
    delay_s, duration_s = _seconds("--delay", delay), _seconds("--duration", duration)
    words, name = program, naming.name_of(program)
    if pid is not None:
        from pinprof.collect import attach

        words = attach.command_of(pid)
        name = naming.name_of(words) or attach.name_of(pid)
    if ring is not None:
        from pinprof.cli.ring import RingOptions, record_ring

        asked = RingOptions.of(ring, triggers, captures_per_hour, metrics, running=pid is not None)
        return record_ring(asked, collectors, words, name, options, pid or 0, delay_s, duration_s)
    return record(collectors, words, name, options, pid=pid or 0, delay_s=delay_s, duration_s=duration_s)


def _demo(program: tuple[str, ...], pid: int | None, collectors: str, options: dict[str, Any]) -> int:
    """Record the program that comes with pinprof, and say what to do next."""
    from pinprof.base.terminal import say
    from pinprof.cli import demo

    if program or pid is not None:
        raise UsageError("--demo records a program of its own.", "Leave out the command and --pid.", "demo")
    words = demo.command()
    if not options["quiet"]:
        say(demo.ABOUT, style="dim", error=True)
    status = record(collectors, words, naming.name_of(words), options)
    if not options["quiet"]:
        say(demo.NEXT, error=True)
    return status


def _seconds(option: str, text: str | None) -> float:
    from pinprof.base.units import parse_duration_ns

    length_ns = parse_duration_ns(text) if text is not None else 0
    if text is not None and not length_ns:
        raise UsageError(f"{option} must be above 0.", f"For example, give {option} 10s.", "duration")
    return length_ns / 1e9
