"""`pinprof bench`: what memory operations cost on this machine; `pinprof bench compare`: two such measurements."""

from __future__ import annotations

import importlib
import shlex
import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pinprof.base.errors import CollectError, PinprofError, unwritable
from pinprof.cli.answers import FILE
from pinprof.cli.backend import BACKEND, DEVICE
from pinprof.cli.progress import working

if TYPE_CHECKING:
    from pinprof.bench.plan import BenchRequest
    from pinprof.bench.session import Results
    from pinprof.data.rates import Rates
    from pinprof.report.bench.data import BenchReport


class _Group(click.Group):
    """Without a subcommand it measures."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The next word is a subcommand; any other word is an error, most likely a measure without --only."""
        if args and args[0] not in self.commands:
            raise click.UsageError(f"There is no `bench {args[0]}`. To choose measures, use --only {args[0]}.", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, invoke_without_command=True)
@click.option("--quick", is_flag=True, help="Measure three sizes with few values, within two minutes.")
@click.option("--size-min", metavar="SIZE", help="Smallest size (default: 64KiB; quick: 1MiB).")
@click.option(
    "--size-max", metavar="SIZE", help="Largest size (default: 4GiB, quick: 256MiB; less if memory is short)."
)
@BACKEND
@DEVICE
@click.option(
    "--only",
    multiple=True,
    metavar="MEASURE",
    help="Measure only this: a measure such as pin.alloc, or a family such as h2d.",
)
@click.option("--time", "duration", metavar="TIME", help="Time limit (default: 10min; quick: 100s).")
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Where to write the pyperf JSON; the page goes next to it (default: bench-DATE.json).",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--no-page", is_flag=True, help="Print the tables, but write no page.")
@click.pass_context
def command(
    ctx: click.Context,
    quick: bool,
    size_min: str | None,
    size_max: str | None,
    backend: str,
    device: int,
    only: tuple[str, ...],
    duration: str | None,
    output: Path | None,
    force: bool,
    no_page: bool,
) -> int | None:
    """Measure the cost of allocating, touching, pinning, copying and migrating memory on this machine, by size.

    pyperf takes the measurements in several processes. It can read the result (pyperf stats, pyperf compare_to).
    pinprof also stores the rates, and reports use them to predict what a change would save.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from pinprof.base.units import parse_bytes, parse_duration_ns
    from pinprof.bench.plan import BenchRequest

    request = BenchRequest(
        backend=backend,
        device=device,
        only=only,
        size_min=parse_bytes(size_min) if size_min else None,
        size_max=parse_bytes(size_max) if size_max else None,
        quick=quick,
        time_s=parse_duration_ns(duration) / 1e9 if duration else None,
    )
    _check_packages(with_page=not no_page)
    file = output or Path(f"bench-{datetime.now().astimezone():%Y%m%d-%H%M%S}.json")
    page = None if no_page else file.parent / f"{file.stem}.html"
    _check_output(file, page, force=force)
    words = ctx.command_path.split() + _given(ctx)
    _run(request, file, page, shlex.join(words))
    return 0


@command.command(short_help="Compare two measurements, benchmark by benchmark.")
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
def compare(before: Path, after: Path) -> int:
    """Compare two measurements: the ratio of the means of each benchmark, and whether it is significant."""
    from pinprof.bench import compare as comparison
    from pinprof.report.bench.text import print_comparison

    print_comparison(comparison.compare(before, after))
    return 0


def _run(request: BenchRequest, file: Path, page: Path | None, words: str) -> None:
    """Measure, write the file first, then show everything."""
    from pinprof import __version__
    from pinprof.bench import session, suite
    from pinprof.collect import host
    from pinprof.data import rates
    from pinprof.report.export import streams

    facts = host.facts()
    with working("Starting") as say:
        results = session.measure(request, {"pinprof_version": __version__}, say)
    with streams.text_output(file) as stream:
        results.suite.dump(stream)
    measured = suite.rates_of(results.suite, rates.machine_of(facts), results.backend)
    stored = _store(measured)
    report = _report(results, measured, facts, words, file)
    from pinprof.report.bench.text import print_bench

    print_bench(report)
    say(f"\nResults: {file}")
    say(stored)
    if page is not None:
        from pinprof.report.bench.page import write_page

        write_page(report, page)
        say(f"Page: {page}")


def _report(results: Results, measured: Rates, facts: dict[str, Any], words: str, file: Path) -> BenchReport:
    from pinprof.analyze.costs.bench import study
    from pinprof.bench import session, suite
    from pinprof.report.bench.data import BenchReport

    distrusted = suite.unstable(results.suite)
    return BenchReport(
        study=study(measured, suite.spread_out(distrusted)),
        device_name=results.device_name,
        emulated=results.emulated,
        host=facts,
        left_out=tuple((one.measure, one.size_bytes, one.reason) for one in results.left_out),
        unstable=distrusted,
        benchmarks=len(measured.rates),
        processes=results.processes,
        duration_s=results.duration_s,
        command=words,
        file=file.name,
        emulations=session.emulations(results),
    )


def _store(measured: Rates) -> str:
    """Keep the rates for reports, and say where; a home that cannot be written to costs no result."""
    from pinprof.data import rates

    try:
        older = rates.load_for(measured.machine, measured.backend)
    except PinprofError:
        # Unreadable ones are replaced.
        older = None
    try:
        path = rates.save(older.updated(measured) if older else measured)
    except OSError as error:
        return f"The rates were not stored for reports: {error.strerror}: {error.filename}"
    return f"Rates of this machine: {path}"


def _check_packages(*, with_page: bool) -> None:
    """Import what shows the results before anything is measured, where it may be missing."""
    for name in ("rich", *(("jinja2",) if with_page else ())):
        importlib.import_module(name)


def _check_output(file: Path, page: Path | None, *, force: bool) -> None:
    """CollectError for what could not be written, before anything is measured."""
    for path in (file, *([page] if page else [])):
        if path.is_dir():
            raise CollectError(f"{path} is a directory.", "Name a file with -o, for example -o bench.json.", "output")
        if path == file and page == file:
            raise CollectError(f"{path} is the name of the page.", "Give a name that ends in .json with -o.", "output")
        if path.exists() and not force:
            raise CollectError(
                f"{path} exists already.", "Give another name with -o, or --force to replace it.", "output"
            )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise unwritable(file, error) from error


def _given(ctx: click.Context) -> list[str]:
    """The options that were given, as they would be typed."""
    words: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE or name in ("output", "force"):
            continue
        value = ctx.params[name]
        option = parameter.opts[-1]
        values = value if isinstance(value, tuple) else (value,)
        words += [option] if value is True else [word for one in values for word in (option, str(one))]
    return words
