"""Files beside the samples, whoever wrote them: with any value or byte changed they are read, or named."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyperf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.costs.bench import study
from pinprof.analyze.memory import summarise_memory
from pinprof.base.errors import CaptureError, PinprofError
from pinprof.bench.compare import compare
from pinprof.bench.suite import load_suite, rates_of
from pinprof.data import rates
from pinprof.read.memory import read_memory
from pinprof.read.python import stacks as python_stacks
from tests.support.examples import examples
from tests.support.stacks import CLOCK, FAULTS, Sample, capture

ODD = [
    None, True, -1, 0, 2**31, 2**63 - 1, 2**63, 10**40, -(2**63), 1e308, float("inf"), float("nan"), "", "x", "\ud800",
    [], [[]], {}, {"a": []},
]  # fmt: skip

LOOKS = [
    {"t": time, "machine": {"pgfault": time, "nr_free_pages": 9}, "processes": [{"pid": 7, "name": "app", "rss": 5}]}
    for time in (10, 20)
]
SEGMENT = {
    "start_ns": 10, "end_ns": 99, "uncertainty_ns": 5, "frames": [["main", "/app/a.py", 3]], "stacks": [[-1, 0]],
    "threads": [{"pid": 7, "tid": 9, "name": "T", "times": [1, 2], "stacks": [0, -1]}], "unnamed_threads": 0,
}  # fmt: skip
"""Of py-spy."""
LOOKED = SEGMENT | {
    "threads": [
        {
            "pid": 7,
            "tid": 9,
            "name": "T",
            "times": [1, 2],
            "lasts": [0, 5],
            "stacks": [0, -1],
            "windows": [[-2], [1], [3]],
        }
    ],
    "looks": {"7": [1, 2]},
}
ROW = {"measure": "memcpy.host", "size_bytes": 1 << 20, "median_ns": 5e4, "low_ns": 4e4, "high_ns": 6e4}
RATES = {"schema_version": 1, "machine": {"cpu": "A"}, "backend": "host", "measured_utc": "2026", "rates": [ROW, ROW]}
METADATA = {"name": "memcpy.host 1MiB", "measure": "memcpy.host", "size_bytes": 1 << 20, "loops": 2, "unit": "second"}


def bench() -> Any:
    runs = [pyperf.Run([0.1, 0.2], metadata=METADATA, collect_metadata=False) for _ in range(2)]
    return json.loads(_dumped(pyperf.BenchmarkSuite([pyperf.Benchmark(runs)])))


def _dumped(suite: Any) -> str:
    stream = io.StringIO()
    suite.dump(stream)
    return stream.getvalue()


def see_memory(path: Path) -> None:
    log = read_memory(path)
    if log is not None:
        assert all(len(values) == len(log.time_ns) for values in log.machine.values())
        summarise_memory(replace(capture([Sample(("main",))], events=(CLOCK, FAULTS)), memory=log))


def see_stacks(path: Path) -> None:
    found = python_stacks.load(path)
    for pid, tid in found.threads:
        times, stacks, _ = found.looks(pid, tid)
        assert len(times) == len(stacks)
        assert len(set(map(len, found.windows(pid, tid)))) == 1
        for stack in set(stacks.tolist()):
            assert all(frame < len(found.frames) for frame in found.chain(stack))
    for pid, tid in found.changes:
        for stack in set(found.at(pid, tid, np.array([0, 11, 99])).tolist()):
            assert all(frame < len(found.frames) for frame in found.chain(stack))


def see_rates(path: Path) -> None:
    study(rates.read(path))


def see_bench(path: Path) -> None:
    study(rates_of(load_suite(path), {}, "host"))
    compare(path, path)


CASES: dict[str, tuple[Any, Callable[[Path], None], bool]] = {
    "memory.jsonl": (LOOKS, see_memory, True),
    "python-stacks.jsonl.gz": ([SEGMENT, LOOKED], see_stacks, True),
    "rates.json": (RATES, see_rates, False),
    "bench.json": (bench(), see_bench, False),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    made = copy.deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return made


def written(value: Any, *, lines: bool) -> bytes:
    entries = value if lines and isinstance(value, list) else [value]
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def look(name: str, content: bytes, folder: Path) -> None:
    path = folder / name
    path.write_bytes(gzip.compress(content, 1, mtime=0) if name.endswith(".gz") else content)
    with contextlib.suppress(PinprofError):
        CASES[name][1](path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_odd_value_anywhere_is_more_than_an_error_in_words(name: str, tmp_path: Path) -> None:
    value, _, lines = CASES[name]
    look(name, written(value, lines=lines), tmp_path)
    for place in places(value):
        for odd in ODD:
            look(name, written(changed(value, place, odd), lines=lines), tmp_path)
    look(name, b"[" * 200_000, tmp_path)
    look(name, b'{"schema_version": ' * 50_000, tmp_path)


@pytest.mark.parametrize("name", CASES)
@examples(60)
@given(data=st.data())
def test_no_change_of_bytes_is_more_than_an_error_in_words(name: str, tmp_path: Path, data: st.DataObject) -> None:
    value, _, lines = CASES[name]
    raw = bytearray(written(value, lines=lines))
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b'\x00\xff"{}[],:-9eE\\.tn '))
    look(name, bytes(raw[: data.draw(st.integers(0, len(raw)))]), tmp_path)


def test_counters_and_fields_without_end_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    many = {"t": 1, "machine": {f"c{n}": n for n in range(5000)}, "processes": [{"pid": 1, "rss": 2, "mine": 3}]}
    path.write_text("".join(json.dumps(many | {"t": time}) + "\n" for time in range(1, 4)))
    log = read_memory(path)
    assert log is not None
    assert len(log.machine) == 256
    assert list(log.processes[0].values) == ["rss"]


@pytest.mark.slow
def test_a_line_that_unpacks_without_end_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_stacks, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "stacks"
    path.write_bytes(gzip.compress(written([SEGMENT, LOOKED], lines=True) + b"[" + bytes(64 << 20)))
    loaded = python_stacks.load(path)
    assert loaded.damaged
    assert list(loaded.threads) == list(loaded.changes) == [(7, 9)]


@pytest.mark.parametrize("size", [1 << 63, -1])
def test_a_size_that_no_memory_has_is_no_rate(size: int, tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(changed(RATES, ("rates", 0, "size_bytes"), size)))
    with pytest.raises(CaptureError, match="size_bytes is not a whole number"):
        rates.read(path)
