"""Two measurements: the same one never differs from itself, and a clear difference is found."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyperf
import pytest

from pinprof.base.errors import CaptureError
from pinprof.bench import suite as bench_suite
from pinprof.bench.compare import compare
from pinprof.bench.suite import load_suite, rates_of, spread_out, unstable

STEADY = (1.00e-3, 1.01e-3, 0.99e-3, 1.00e-3, 1.02e-3, 0.98e-3)


def written(path: Path, benchmarks: dict[str, tuple[float, ...]], **common: str) -> Path:
    suite = []
    for name, values in benchmarks.items():
        measure, size = name.split()
        metadata = {"name": name, "measure": measure, "size_bytes": int(size), "loops": 2, **common}
        suite.append(pyperf.Benchmark([pyperf.Run(values, metadata=metadata, collect_metadata=False)]))
    pyperf.BenchmarkSuite(suite).dump(str(path))
    return path


@pytest.mark.parametrize("values", [STEADY, (1e-3,), (1e-3, 1e-3), (1e-3, 9e-3)])
def test_a_run_does_not_differ_from_itself(tmp_path: Path, values: tuple[float, ...]) -> None:
    file = written(tmp_path / "a.json", {"pin.alloc 65536": values})
    (row,) = compare(file, file).rows
    assert not row.significant
    assert row.ratio == 1


@pytest.mark.parametrize("count", [6, 4])
def test_a_clear_difference_is_found_also_between_different_counts(tmp_path: Path, count: int) -> None:
    before = written(
        tmp_path / "a.json", {"pin.alloc 65536": STEADY, "h2d.pinned 65536": STEADY, "d2h.pinned 1": STEADY}
    )
    after = {"pin.alloc 65536": tuple(2 * value for value in STEADY[:count]), "h2d.pinned 65536": STEADY[::-1]}
    found = compare(before, written(tmp_path / "b.json", after, pinprof_backend="cuda"))
    assert {row.name: row.significant for row in found.rows} == {"pin.alloc 65536": True, "h2d.pinned 65536": False}
    assert found.rows[0].ratio == pytest.approx(2, rel=0.05)
    assert found.only_before == ("d2h.pinned 1",)
    assert found.different == ("Different backends: unknown and cuda.",)


def test_steady_values_that_are_not_the_same_differ(tmp_path: Path) -> None:
    before = written(tmp_path / "a.json", {"pin.alloc 65536": (1e-3, 1e-3)})
    after = written(tmp_path / "b.json", {"pin.alloc 65536": (2e-3, 2e-3, 2e-3)})
    assert compare(before, after).rows[0].significant


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", float("-inf")), ("name", 7), ("measure", None), ("size_bytes", -1), ("values", [10**400, 1]),
     ("values", [1e-3, float("nan")]), ("values", [0.0]), ("warmups", [[2]])],
)  # fmt: skip
def test_values_that_no_benchmark_has_are_refused(tmp_path: Path, field: str, value: object) -> None:
    path = written(tmp_path / "a.json", {"pin.alloc 65536": STEADY, "h2d.pinned 65536": STEADY})
    document = json.loads(path.read_text())
    run = document["benchmarks"][1]["runs"][0]
    (run if field in ("values", "warmups") else document["benchmarks"][1]["metadata"])[field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(CaptureError, match=r"a\.json cannot be read"):
        compare(path, path)


def test_compressed_files_are_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(tmp_path / "a.json", {"pin.alloc 65536": STEADY}).read_bytes()
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(text))
    assert compare(packed, packed).rows
    monkeypatch.setattr(bench_suite, "MOST_BYTES", 1 << 20)
    packed.write_bytes(gzip.compress(text + b" " * (8 << 20)))
    with pytest.raises(CaptureError, match="more than 1 MiB of text"):
        compare(packed, packed)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"benchmarks": 1}', '{"version": "1.0", "benchmarks": []}', "\x00"]
)
def test_a_file_of_something_else_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(CaptureError, match=r"other\.json cannot be read"):
        load_suite(path)


def test_a_missing_file_and_one_of_other_benchmarks_are_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        load_suite(tmp_path / "none.json")
    with pytest.raises(CaptureError, match="none of its benchmarks comes from"):
        load_suite(written(tmp_path / "a.json", {"telco 1": STEADY}))


def test_rates_are_median_and_percentiles_in_nanoseconds(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path / "a.json", {"pin.alloc 65536": STEADY}))
    (rate,) = rates_of(suite, {}, "host").rates
    assert (rate.measure, rate.size_bytes) == ("pin.alloc", 65536)
    assert rate.median_ns == pytest.approx(1e6)
    assert 0.98e6 <= rate.low_ns < rate.median_ns < rate.high_ns <= 1.02e6


def test_warnings_are_those_of_pyperf(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path / "a.json", {"pin.alloc 65536": (1e-3, 4e-3), "h2d.pinned 65536": (1e-3,) * 9}))
    found = unstable(suite)
    assert set(found) == {"pin.alloc 65536"}
    assert found["pin.alloc 65536"][0].startswith("the standard deviation")
    assert spread_out(found) == 1


def test_few_or_short_values_alone_are_no_unstable_machine() -> None:
    few, short = "Not enough samples to get a stable result (95%", "the shortest raw value is only 600 us"
    assert spread_out({"a": (few,), "b": (short,), "c": (few, "the maximum (3 ms) is 60% greater than the mean")}) == 1
