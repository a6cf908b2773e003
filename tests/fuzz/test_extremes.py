"""One time or weight that no clock and no counter shows, in every format: through all outputs, and parts of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyze.selection import Selection
from pinprof.base.errors import UsageError
from pinprof.read import ReadOptions, read
from tests.fuzz import check, seeds, slim, texts
from tests.fuzz.check import Known, Thorough
from tests.support import perf_file as pf

EXTREMES = (0, -1, 2**61, 2**62, 2**63 - 1, -(2**63), 2**64 - 1)
PARTS = (None, Selection(after_ns=1), Selection(until_ns=2**63 - 1), Selection(0, 10**9), Selection(threads=("7",)))


def perf_data(value: int) -> Mapping[str, bytes]:
    spec = pf.Spec(sample_type=pf.BASIC, ids=(1,))
    records = [pf.comm(spec, "app", exec_=True), pf.mmap2(spec, 0x400000, 0x10000, "/bin/app")]
    records += [pf.sample(spec, time=time % 2**64, period=1000) for time in (100, 200, value)]
    records.append(pf.sample(spec, time=300, period=value % 2**64))
    return {"a.perf.data": pf.file_mode([spec], b"".join(records), pf.Features().command("app"))}


def perf_data_alone(value: int) -> Mapping[str, bytes]:
    spec = pf.Spec(sample_type=pf.BASIC, ids=(1,))
    return {"a.perf.data": pf.file_mode([spec], pf.sample(spec, time=value % 2**64), pf.Features().command("app"))}


def wakeups(value: int) -> Mapping[str, bytes]:
    data, one = seeds.wakeups_by_hand(system_wide=False), (1000 + 100_000 * 11 + 620).to_bytes(8, "little")
    assert one in data
    return {"a.perf.data": data.replace(one, (value % 2**64).to_bytes(8, "little"))}


def script(value: int) -> Mapping[str, bytes]:
    late = f"app 7 {abs(value)}.5: 999 cpu-clock: 401000 main (/app)\n\n"
    heavy = f"app 7 38.5: {abs(value)} cpu-clock: 401000 main (/app)\n\n"
    return {"a.txt": (texts.PERF_SCRIPT + "\n" + late + heavy).encode()}


def folded(value: int) -> Mapping[str, bytes]:
    return {"a.folded": f"main;memcpy {value}\nmain;clear_page_erms_[k] 5\n".encode()}


def speedscope(value: int) -> Mapping[str, bytes]:
    document = json.loads(texts.EVENTED)
    document["profiles"][0]["events"][-1]["at"] = value
    document["profiles"][0]["endValue"] = value
    document["profiles"][1]["weights"][0] = value
    return {"a.json": json.dumps(document).encode()}


def trace(key: str) -> Callable[[int], Mapping[str, bytes]]:
    def make(value: int) -> Mapping[str, bytes]:
        document = json.loads(json.dumps(texts.TORCH_TRACE))
        document["traceEvents"][5][key] = value
        return {"a.json": json.dumps(document).encode()}

    return make


def nsys(column: str) -> Callable[[int], Mapping[str, bytes]]:
    def make(value: int) -> Mapping[str, bytes]:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
            base.deserialize(slim.sqlite(seeds.xz("h200/uvm.sqlite")))
            for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                names = [row[1] for row in base.execute(f'PRAGMA table_info("{table}")')]
                if column in names:
                    first = f'(SELECT min(rowid) FROM "{table}")'
                    stored: Any = value if -(2**63) <= value < 2**63 else str(value)
                    base.execute(f'UPDATE "{table}" SET {column} = ? WHERE rowid = {first}', (stored,))
            return {"a.sqlite": base.serialize()}

    return make


def side(name: str, change: Callable[[dict[str, Any], int], None]) -> Callable[[int], Mapping[str, bytes]]:
    """A capture whose file of JSON, or its last line, is changed."""

    def make(value: int) -> Mapping[str, bytes]:
        files = dict(seeds.capture("h200/pinned-native", "ranges.jsonl", "memory.jsonl", "rates.json"))
        path = next(path for path in files if path.endswith(name))
        *before, last = [files[path]] if name.endswith(".json") else files[path].splitlines(keepends=True)
        row = json.loads(last)
        change(row, value)
        files[path] = b"".join([*before, json.dumps(row).encode() + b"\n"])
        return files

    return make


def set_range(row: dict[str, Any], value: int) -> None:
    row["end_ns"] = value


def set_memory(row: dict[str, Any], value: int) -> None:
    row["t"] = value


def set_outcome(row: dict[str, Any], value: int) -> None:
    row["outcome"].update(duration_ns=value, recorded_ns=[0, value])


def set_rate(row: dict[str, Any], value: int) -> None:
    for rate in row["rates"]:
        rate["median_ns"] = value


FORMATS: Mapping[str, Callable[[int], Mapping[str, bytes]]] = {
    "perf.data": perf_data,
    "perf.data of one sample": perf_data_alone,
    "wake-ups": wakeups,
    "perf script": script,
    "folded": folded,
    "speedscope": speedscope,
    "trace, begin": trace("ts"),
    "trace, duration": trace("dur"),
    "nsys, start": nsys("start"),
    "nsys, end": nsys("end"),
    "nsys, bytes": nsys("bytes"),
    "ranges": side("ranges.jsonl", set_range),
    "memory": side("memory.jsonl", set_memory),
    "manifest": side("manifest.json", set_outcome),
    "rates": side("rates.json", set_rate),
}


@pytest.mark.parametrize("name", FORMATS)
def test_any_number_goes_through_all_outputs(name: str, tmp_path: Path) -> None:
    for value in EXTREMES:
        (tmp_path / f"{value}").mkdir()
        path = seeds.write(FORMATS[name](value), tmp_path / f"{value}")
        for part in PARTS:
            whole = part is None
            check.report(path, Thorough(text=whole, page=whole, exports=whole, part=part), Known())


def test_a_time_beyond_all_clocks_is_said(tmp_path: Path) -> None:
    capture = read(seeds.write(perf_data(2**63 - 1), tmp_path), ReadOptions())
    assert any("beyond 73 years" in note for note in capture.losses.notes)
    assert capture.samples.time_ns.max() == 2**61


def test_times_of_clocks_are_left_as_they_are(tmp_path: Path) -> None:
    capture = read(seeds.write(perf_data(2**60), tmp_path), ReadOptions())
    assert capture.samples.time_ns.tolist() == [100, 200, 2**60]
    assert not any("73 years" in note for note in capture.losses.notes)


def test_a_part_that_ends_after_all_time_is_the_rest(tmp_path: Path) -> None:
    from pinprof.analyze import analyze

    capture = read(seeds.write(perf_data(1000), tmp_path), ReadOptions())
    until = analyze(capture, selection=Selection(until_ns=10**40))
    assert len(until.capture.samples) == len(capture.samples) == 4
    with pytest.raises(UsageError):
        analyze(capture, selection=Selection(after_ns=10**40))
