"""pyperf's data: runs into a suite, a file into a suite, a suite into rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyperf
from pyperf._cli import format_checks

from pinprof.base.errors import CaptureError, FormatError
from pinprof.base.shapes import ANYTHING, COUNT, TEXT, Each, Facts, Real, Record, RowShape, Shape, Whole, parsed
from pinprof.bench.plan import Job
from pinprof.data.rates import Rate, Rates, is_measure
from pinprof.read.byte_source import ByteSource

MOST_BYTES = 32 << 20
"""A file's text: that of a whole machine has 0.2 MB. pyperf holds it as Python's objects, some ten times larger."""

_SECONDS = Real(1e-30, 2.0**60)
_METADATA: dict[str, Shape] = {"name": TEXT, "measure": TEXT, "unit": TEXT, "size_bytes": COUNT, "loops": COUNT}
_RUN = Record(
    {},
    optional={
        "metadata": Record({}, _METADATA),
        "values": Each(_SECONDS),
        "warmups": Each(RowShape((Whole(1), Real(0, 2.0**60)))),
    },
)
_SHAPE = Record(
    {
        "version": TEXT,
        "benchmarks": Each(Record({"runs": Each(_RUN)}, optional={"metadata": Record({}, _METADATA)})),
    },
    optional={"metadata": Facts(others=ANYTHING)},
)
"""What pyperf takes for granted of its files; the values of its own metadata it checks itself."""

_SPREAD = ("the standard deviation", "the minimum", "the maximum")
"""How pyperf's warnings about values that lie far apart begin."""


def suite_of(jobs: Sequence[Job], common: Mapping[str, str]) -> Any:
    """A pyperf.BenchmarkSuite of what the jobs' processes answered."""
    return pyperf.BenchmarkSuite([pyperf.Benchmark([_run(run, common) for run in job.runs]) for job in jobs])


def load_suite(path: Path) -> Any:
    """The pyperf.BenchmarkSuite in a file; CaptureError when there is none."""
    try:
        text = ByteSource(path).whole(MOST_BYTES)
        _SHAPE.fit(parsed(text))
        suite = pyperf.BenchmarkSuite.loads(text.decode("utf-8-sig"))
    except FormatError:
        reason = f"it holds more than {MOST_BYTES >> 20} MiB of text"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it is not a pyperf result ({error})"
    else:
        if any(_measures(suite)):
            return suite
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
    """How many benchmarks have values that lie far apart; others have too few, or very short ones."""
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
