"""Recording for every command that does it: the shared options, and record → seal → finish → present."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from pinprof.cli import ranks
from pinprof.errors import PinprofError
from pinprof.store import NSYS_SQLITE, PERF_DATA, RATES

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

_OPTIONS = (
    click.option("-o", "--output", type=click.Path(path_type=Path), help="The capture (default: NAME-DATE.pinprof)."),
    click.option("--force", is_flag=True, help="Replace a capture of that name."),
    click.option("--frequency", type=int, default=999, show_default=True, help="CPU samples a second and thread."),
    click.option(
        "--call-graph",
        type=click.Choice(["fp", "dwarf", "lbr"]),
        default="fp",
        show_default=True,
        help="How callers are found: frame pointers, copied stacks, last-branch records.",
    ),
    click.option("--fault-period", type=int, default=64, show_default=True, help="One sample for so many page faults."),
    click.option("--no-off-cpu", is_flag=True, help="Do not record what threads wait for."),
    click.option("--no-cuda-calls", is_flag=True, help="Do not trace calls of CUDA's functions."),
    click.option("--system-wide", is_flag=True, help="Sample every CPU: also kernel threads and exit-time teardown."),
    click.option(
        "--python",
        type=click.Choice(["auto", "lines", "trampoline", "both", "off"]),
        default="auto",
        show_default=True,
        help="How Python functions and lines are seen; auto: as well as this machine can.",
    ),
    click.option("--python-rate", type=int, default=1000, show_default=True, help="Looks at Python's frames a second."),
    click.option("--keep-nsys-rep", is_flag=True, help="Keep nsys's report too: it holds the program's environment."),
    click.option("--no-report", is_flag=True, help="Only record; `pinprof report` explains it later."),
)


def recording_options(function: _Decorated) -> _Decorated:
    """Add the options of a recording to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class RecordingOptions:
    """The options of a recording, by the names that `recording_options` gives them."""

    output: Path | None
    force: bool
    frequency: int
    call_graph: str
    fault_period: int
    no_off_cpu: bool
    no_cuda_calls: bool
    system_wide: bool
    python: str
    python_rate: int
    keep_nsys_rep: bool
    no_report: bool


def record(
    collectors: str,
    command: Sequence[str],
    name: str,
    options: RecordingOptions,
    *,
    scenario: bool = False,
    shown: Sequence[str] = (),
    pid: int = 0,
    duration_s: float = 0.0,
) -> int:
    """Record a program, explain what was recorded, and return the program's own exit status.

    A scenario is sampled in its measured region only, and prints its result before the summary on standard output. Any
    other program keeps standard output to itself: the summary goes to standard error. `shown` is stored as the command
    in place of one that only means something on this machine. With `pid` that process is recorded, which runs already,
    for `duration_s` or until it ends.
    """
    from pinprof import collect
    from pinprof.collect import host
    from pinprof.scenario import RANGES_VARIABLE, SCENARIO_VARIABLE
    from pinprof.store import CaptureWriter, default_name, file_name, new_manifest

    names = collect.parse_names(collectors)
    request = collect.RecordRequest(
        command=tuple(command),
        pid=pid,
        duration_s=duration_s,
        region_only=scenario,
        frequency=options.frequency,
        call_graph=options.call_graph,
        fault_period=options.fault_period,
        off_cpu=not options.no_off_cpu,
        cuda_calls=not options.no_cuda_calls,
        system_wide=options.system_wide,
        python=options.python,
        python_rate=options.python_rate,
        keep_report=options.keep_nsys_rep,
    )
    names = collect.resolve(names, request)
    collect.check(names, request)
    manifest = new_manifest(command=tuple(shown or command), host=host.facts(), outcome={"state": "recording"})
    rank = None if pid or options.output else ranks.this_rank(os.environ)
    target = options.output or (ranks.output(file_name(name), rank) if rank else default_name(name))
    writer = CaptureWriter.create(target, manifest, force=options.force)
    try:
        with tempfile.TemporaryDirectory(prefix="pinprof-") as directory:
            facts = Path(directory) / "scenario.json"
            places = {RANGES_VARIABLE: str((writer.path / "ranges.jsonl").resolve())}
            if scenario:
                places[SCENARIO_VARIABLE] = str(facts)
            outcome = collect.record(names, replace(request, environment=places), writer)
            described = _read_facts(facts)
    except BaseException:
        # Nothing recorded is ever lost; a capture without samples, or of no program, would only be in the way.
        if not _has_samples(writer.path):
            shutil.rmtree(writer.path, ignore_errors=True)
        raise
    if scenario and outcome.exit_status and not (writer.path / "ranges.jsonl").exists():
        # The scenario refused to start and has said why.
        shutil.rmtree(writer.path, ignore_errors=True)
        return outcome.exit_status
    writer.release_reserve()
    broken_off: KeyboardInterrupt | None = None
    try:
        notes = (*_seal(writer.path, outcome.collectors), *_keep_rates(writer.path, manifest.host, described))
    except KeyboardInterrupt as error:
        notes, broken_off = ("Symbols were not stored: the recording was broken off then.",), error
    facts_of_outcome = outcome.to_manifest()
    facts_of_outcome["notes"] = (*facts_of_outcome["notes"], *notes)
    if rank:
        facts_of_outcome["rank"] = rank.facts()
    target = writer.finish(
        replace(manifest, scenario=described, collectors=outcome.collectors, outcome=facts_of_outcome)
    )
    if broken_off is not None:
        click.echo(f"Capture: {target}", err=True)
        raise broken_off
    with contextlib.redirect_stdout(sys.stdout if scenario else sys.stderr):
        failed = bool(outcome.exit_status) or outcome.failure is not None
        # Of many ranks the first alone explains itself: the others would print into it.
        quiet = options.no_report or (rank is not None and rank.number > 0)
        _present(target, (*outcome.notes, *notes), no_report=quiet, keep_going=failed)
        if rank and not rank.number:
            click.echo(f"All ranks, once they have ended: pinprof report {target.parent}")
    if outcome.failure is not None:
        if outcome.exit_status == 0:
            raise outcome.failure
        click.echo(f"pinprof: {outcome.failure}", err=True)
    return outcome.exit_status


def _has_samples(directory: Path) -> bool:
    files = (directory / PERF_DATA, directory / NSYS_SQLITE)
    return any(file.exists() and file.stat().st_size > 0 for file in files)


def _read_facts(path: Path) -> Mapping[str, Any]:
    """What the scenario said about itself; empty when it did not come that far."""
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _keep_rates(directory: Path, host: Mapping[str, Any], scenario: Mapping[str, Any]) -> tuple[str, ...]:
    """Put the rates of this machine beside the samples, if `pinprof bench` has measured any; a note where it cannot."""
    from pinprof import rates

    backend = scenario.get("backend")
    try:
        found = rates.load_for(host, backend if isinstance(backend, str) else None)
        if found is not None:
            (directory / RATES).write_text(rates.to_json(found), "utf-8")
    except PinprofError as error:
        return (f"Rates of this machine were not stored: {error.problem}",)
    except OSError as error:
        return (f"Rates of this machine were not stored: {error.strerror}.",)
    return ()


def _seal(directory: Path, collectors: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Store the symbols; a capture that cannot be sealed is kept, with a note why."""
    from pinprof import read
    from pinprof.collect import python

    try:
        processes = read.seal_symbols(directory)
        if any(facts.get("name") == python.TRAMPOLINE for facts in collectors):
            python.remove_maps(processes)
    except PinprofError as error:
        return (f"Symbols were not stored: {error.problem}",)
    except OSError as error:
        return (f"Symbols were not stored: {error.strerror}.",)
    return ()


def _present(target: Path, notes: Sequence[str], *, no_report: bool, keep_going: bool) -> None:
    """Print the notes, the summary and where capture and page are; with `keep_going` a report's error is only said."""
    for note in notes:
        click.echo(f"pinprof: {note}", err=True)
    if not no_report:
        from pinprof import analyze, read
        from pinprof.cli import pipeline

        try:
            analysis = analyze.analyze(read.read(target, read.ReadOptions()))
            pipeline.present([analysis], pipeline.default_page(target))
        except PinprofError as error:
            click.echo(f"Capture: {target}")
            if not keep_going:
                raise
            click.echo(f"pinprof: {error}", err=True)
            return
    click.echo(f"Capture: {target}")
