"""Recording for every command that does it: the shared options, and what is said of a recording that has ended."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pinprof.base.errors import CollectError, UsageError
from pinprof.base.terminal import say
from pinprof.base.units import format_ns
from pinprof.cli import explained, interrupts, naming, progress, ranks

if TYPE_CHECKING:
    from pinprof.collect.pace import SizeLimits
    from pinprof.collect.run import RecordingHooks

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def _switch_off(name: str, meaning: str) -> Callable[[_Decorated], _Decorated]:
    """`--no-NAME` for a part of the request that is on by default."""
    option = f"--no-{name.replace('_', '-')}"
    return click.option(option, name, is_flag=True, callback=lambda _context, _option, given: not given, help=meaning)


_OPTIONS = (
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="File name of the capture (default: NAME-DATE.pinprof).",
    ),
    click.option("--force", is_flag=True, help="Replace an existing capture."),
    click.option("--frequency", type=int, default=999, show_default=True, help="CPU samples per second and thread."),
    click.option(
        "--call-graph",
        type=click.Choice(["fp", "dwarf", "lbr"]),
        default="fp",
        show_default=True,
        help="How to find callers: frame pointers, copied stacks, or last-branch records.",
    ),
    click.option(
        "--fault-period", type=int, default=64, show_default=True, help="Record one sample every N page faults."
    ),
    _switch_off("off_cpu", "Don't record what threads wait for."),
    _switch_off("cuda_calls", "Don't trace CUDA calls."),
    click.option(
        "--inside",
        type=click.Choice(["auto", "on", "off"]),
        default="auto",
        show_default=True,
        help="Record CUDA calls by a library inside the program: each call with its own line, without special rights. "
        "Where it can't be loaded, or is off, probes record them, which needs root.",
    ),
    click.option(
        "--probe-budget",
        type=click.FloatRange(0, 100, min_open=True),
        default=3.0,
        show_default=True,
        help="Limit for the cost of tracing CUDA calls, in percent of the program's time.",
    ),
    click.option(
        "--gpu",
        type=click.Choice(["auto", "windows", "cupti", "uvm", "off"]),
        default="auto",
        show_default=True,
        help="Record what the GPU does. auto: as long as it costs little and no other tool does; windows: like auto, "
        "then in windows at random times; cupti: always; uvm: like auto, and always record managed memory.",
    ),
    click.option(
        "--system-wide", is_flag=True, help="Sample every CPU, including kernel threads and teardown at exit."
    ),
    click.option(
        "--python",
        type=click.Choice(["auto", "lines", "py-spy", "trampoline", "both", "off"]),
        default="auto",
        show_default=True,
        help="How to find Python functions and lines. auto: the best way on this machine.",
    ),
    click.option(
        "--python-rate",
        type=int,
        show_default="1000; py-spy: 100",
        help="Python samples per second.",
    ),
    click.option(
        "--keep-nsys-rep",
        "keep_report",
        is_flag=True,
        help="Keep the nsys report too. It holds the program's environment.",
    ),
    click.option(
        "--calibrate",
        "calibrate_anew",
        is_flag=True,
        help="Measure memory costs again after the recording, even if pinprof has measured this machine before.",
    ),
    _switch_off("calibrate", "Measure no memory costs after the recording, but use those that are known."),
    click.option("-q", "--quiet", is_flag=True, help="Print only errors and the program's own output."),
    click.option(
        "--strict",
        is_flag=True,
        help="Exit with 1 if pinprof could not record everything and the program itself ends with 0.",
    ),
    click.option("--no-report", is_flag=True, help="Only record. Run `pinprof report` later."),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="NAME=VALUE",
        help="Label the capture, for example with host or job. Repeatable.",
    ),
    click.option(
        "--max-size",
        metavar="SIZE",
        default="2GiB",
        show_default=True,
        help="Size limit for samples and memory over time. pinprof thins them to stay below it.",
    ),
    click.option(
        "--small",
        is_flag=True,
        help="Write a small capture for fleets, at most 1 MB per minute: few samples; no waits, CUDA calls or GPU "
        "work.",
    ),
)

SMALL: Mapping[str, Any] = {
    "frequency": 19,
    "fault_period": 4096,
    "off_cpu": False,
    "cuda_calls": False,
    "gpu": "off",
    "python_rate": 10,
    "calibrate": False,
    "no_report": True,
}
"""What `--small` asks for; an option that is given as well counts."""
SMALL_PER_MINUTE = 600_000
"""Bytes that `--small` lets samples and memory over time take: the rest of its megabyte is for what names them."""
LEAST_SIZE = 64 << 10
_LABEL = re.compile(r"[A-Za-z][\w. -]{0,62}")
_LONGEST_LABEL = 200


def recording_options(function: _Decorated) -> _Decorated:
    """Add the options of a recording to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def record(
    collectors: str,
    command: Sequence[str],
    name: str,
    options: Mapping[str, Any],
    *,
    scenario: bool = False,
    shown: Sequence[str] = (),
    pid: int = 0,
    delay_s: float = 0.0,
    duration_s: float = 0.0,
) -> int:
    """Record a program, explain what was recorded, and return the program's own exit status.

    `options` are those of `recording_options`: the capture's, the report's, and the others by the request's names.

    A scenario is sampled in its measured region only, and prints its result before the summary on standard output. Any
    other program keeps standard output to itself: the summary goes to standard error. `shown` is stored as the command
    in place of one that only means something on this machine. With `pid` that process is recorded, which runs already.
    The recording begins after `delay_s` and takes `duration_s`, or lasts until the program ends.
    """
    from pinprof import collect, recording
    from pinprof.collect.trouble import Trouble
    from pinprof.streams.store import captured

    about_request = dict(options)
    labels, small = labels_of(about_request.pop("labels")), about_request.pop("small")
    if small:
        about_request |= _not_given(SMALL)
    output, force, no_report, calibrate, anew, quiet, strict = (
        about_request.pop(option)
        for option in ("output", "force", "no_report", "calibrate", "calibrate_anew", "quiet", "strict")
    )
    # No program waits for the recording of one that runs already.
    trouble = Trouble(strict=strict or bool(pid), raises=bool(pid))
    names = collect.parse_names(collectors)
    request = collect.RecordRequest(
        tuple(command), names, pid=pid, delay_s=delay_s, duration_s=duration_s, region_only=scenario,
        limits=limits_of(about_request.pop("max_size"), small=small), **about_request,
    )  # fmt: skip
    rank = None if pid else ranks.this_rank(os.environ)
    # Of many ranks the first alone explains itself: the others would print into it.
    unexplained = no_report or (rank is not None and rank.number > 0)
    first, numbered = _names(name, output, rank, force=force)
    request = collect.resolve(replace(request, processors=rank.processors) if rank else request)
    if not quiet and (level := collect.level(request)):
        _say_dimly(level)
    recorded = recording.record(
        request,
        first,
        shown or command,
        trouble,
        force=force,
        numbered=numbered,
        scenario=scenario,
        rank=rank.facts() if rank else None,
        labels=labels,
        reading=None if unexplained else recording.FreshReading(progress.measured("Reading what was recorded")),
        hooks=replace(
            _hooks(pid, duration_s, quiet=quiet),
            needed=() if unexplained else explained.NEEDED,
            wanted=() if unexplained else explained.WANTED,
        ),
        # Of many ranks one measures alone: several at a time would measure each other.
        calibrate=recording.Calibrating(_nothing if quiet else _say_dimly, anew)
        if (calibrate or anew) and not (rank and rank.number)
        else None,
    )
    outcome, target = recorded.outcome, recorded.path
    given = first.parent if rank else captured(output or first)
    if output and target and (target.parent if rank else target).name != given.name:
        taken = CollectError(
            f"{given} exists already, so the capture is {target}.",
            "Give another name with -o, or --force to replace it.",
            "output",
        )
        trouble.met(taken)
    if target is None:
        return trouble.status(outcome.exit_status)
    places = [f"Capture: {target}"]
    with interrupts.keeping(places[0]), contextlib.redirect_stdout(sys.stdout if scenario else sys.stderr):
        if recorded.broken_off is not None:
            missing = "symbols are missing" if unexplained else f"symbols, {explained.ALL}"
            explained.say_missing(recorded.broken_off, missing, target)
        if rank and not rank.number:
            places.append(f"All ranks, after they have ended: pinprof report {target.parent}")
        for note in () if quiet else recorded.notes:
            say(f"pinprof: {note}", error=True)
        trouble.raises = False  # the recording is whole
        if not unexplained and recorded.broken_off is None:
            explained.explain(recorded, target, places, trouble, quiet=quiet)
        elif not quiet:
            say("\n".join(places))
    return trouble.status(outcome.exit_status)


def _names(
    name: str, output: Path | None, rank: ranks.Rank | None, *, force: bool
) -> tuple[Path, Callable[[int], Path]]:
    """Where the capture goes, and where if that is taken: a number says which."""
    from pinprof.streams import store

    if output:
        naming.refuse_page(output)
    if rank and output:
        return ranks.named_output(output, rank, force=force), lambda number: ranks.named_output(output, rank, number)
    if rank:
        return ranks.output(store.file_name(name), rank), lambda number: ranks.output(
            store.file_name(name), rank, number
        )
    first = output or store.default_name(name)
    return first, lambda number: store.numbered_name(first, number)


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Labels written as NAME=VALUE; UsageError for others."""
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not value or not _LABEL.fullmatch(name) or len(value) > _LONGEST_LABEL:
            raise UsageError(
                f"--label {one!r} is not valid.",
                f"Write NAME=VALUE, for example --label host=node7; a value has at most {_LONGEST_LABEL} characters.",
                "label",
            )
        found[name] = value
    return found


def limits_of(size: str, *, small: bool) -> SizeLimits:
    """The size limits of a recording; UsageError for a size that is too small."""
    from pinprof.base.units import parse_bytes
    from pinprof.collect.pace import SizeLimits

    total = parse_bytes(size)
    if total < LEAST_SIZE:
        raise UsageError(
            f"--max-size {size} is too small.", f"Give at least {LEAST_SIZE >> 10} KiB, for example 300MB.", "max-size"
        )
    return SizeLimits(total, SMALL_PER_MINUTE if small else 0)


def _not_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some options that the command line does not have, nor the settings that ask for `--small`."""
    source_of = click.get_current_context().get_parameter_source
    given = {click.core.ParameterSource.COMMANDLINE, source_of("small")}
    return {name: value for name, value in options.items() if source_of(name) not in given}


def _say_dimly(text: str) -> None:
    say(text, style="dim", error=True)


def _hooks(pid: int, duration_s: float, *, quiet: bool) -> RecordingHooks:
    """What is said while a recording goes on: that it does, of a program whose terminal is another one."""
    from pinprof.collect.run import RecordingHooks

    if quiet:
        return RecordingHooks()
    length = f" for {format_ns(duration_s * 1e9)}" if duration_s else ""
    begins = f"Recording {pid}{length}; Ctrl-C ends the recording, not the program."
    return RecordingHooks(
        meanwhile=(lambda: _say_dimly(begins)) if pid else lambda: None,
        program_goes_on=lambda: _say_dimly(
            f"Recorded{length}. The program continues; the summary follows when it ends."
        ),
    )


def _nothing(*_: str) -> None: ...
