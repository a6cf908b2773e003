"""pyperf's data: runs into a suite, a file into a suite, a suite into rates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyperf
from pyperf._cli import format_checks

from pinprof.bench.plan import Job
from pinprof.errors import CaptureError
from pinprof.rates import Rate, Rates, is_measure

_SPREAD = ("the standard deviation", "the minimum", "the maximum")
"""How pyperf's warnings about values that lie far apart begin."""


def suite_of(jobs: Sequence[Job], common: Mapping[str, str]) -> Any:
    """A pyperf.BenchmarkSuite of what the jobs' processes answered."""
    return pyperf.BenchmarkSuite([pyperf.Benchmark([_run(run, common) for run in job.runs]) for job in jobs])


def load_suite(path: Path) -> Any:
    """The pyperf.BenchmarkSuite in a file; CaptureError when there is none."""
    try:
        suite = pyperf.BenchmarkSuite.load(str(path))
    except OSError as error:
        reason = error.strerror
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError, RecursionError) as error:
        reason = f"it is no result of pyperf ({error})"
    else:
        if not all(math.isfinite(value) for one in suite.get_benchmarks() for value in one.get_values()):
            reason = "it holds a value that is no time"
        elif any(_measures(suite)):
            return suite
        else:
            reason = "none of its benchmarks comes from `pinprof bench`"
    raise CaptureError(f"{path} cannot be read: {reason}.", "Give a file that `pinprof bench -o` wrote.", "bench-file")


def rates_of(suite: Any, machine: Mapping[str, Any], backend: str) -> Rates:
    """Median, 10th and 90th percentile of every benchmark."""
    rates = [
        Rate(measure, size, *(1e9 * value for value in (one.median(), one.percentile(10), one.percentile(90))))
        for one, measure, size in _measures(suite)
    ]
    return Rates(machine, backend, datetime.now(UTC).isoformat(timespec="seconds"), tuple(rates))


def unstable(suite: Any) -> dict[str, tuple[str, ...]]:
    """Benchmark → pyperf's reasons to distrust it; stable ones are not in it."""
    distrusted = {}
    for benchmark in suite.get_benchmarks():
        # Between the reasons, pyperf explains its own commands.
        reasons = tuple(line[2:] for line in format_checks(benchmark) if line.startswith("* "))
        if reasons:
            distrusted[benchmark.get_name()] = reasons
    return distrusted


def spread_out(distrusted: Mapping[str, Sequence[str]]) -> int:
    """Of so many benchmarks (`unstable`) the values lie far apart; others have too few, or very short ones."""
    return sum(any(reason.startswith(_SPREAD) for reason in reasons) for reasons in distrusted.values())


def _measures(suite: Any) -> Iterator[tuple[Any, str, int]]:
    """(benchmark, measure, bytes) of those that pinprof wrote; a file may come from elsewhere."""
    for benchmark in suite.get_benchmarks():
        metadata = benchmark.get_metadata()
        measure, size = metadata.get("measure"), metadata.get("size_bytes")
        if isinstance(measure, str) and is_measure(measure) and isinstance(size, int) and benchmark.get_nvalue():
            yield benchmark, measure, size


def _run(run: Mapping[str, Any], common: Mapping[str, str]) -> Any:
    warmups = [(int(loops), float(value)) for loops, value in run["warmups"]]
    metadata = {**common, **run["metadata"]}
    return pyperf.Run(run["values"], warmups=warmups, metadata=metadata, collect_metadata=False)
