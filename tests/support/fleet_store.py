"""The store of a small fleet, written without captures: two programs, a slow driver, a capture that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pinprof.fleet import tables
from pinprof.fleet.mapping import MappedCapture
from pinprof.fleet.store import CapturePlace, Store

COUNT = 24
WORK_NS = 10**9


def mapped(count: int = COUNT) -> Iterator[MappedCapture]:
    """What captures become; the last one cannot be read, and would be tried again."""
    for number in range(count):
        yield _readable(number)
    row = {"capture": "bad", "state": "unreadable", "reason": "It is empty.", "again": True}
    yield MappedCapture("bad.pinprof", "stamp-bad", "bad", tables.packed({"captures": [row]}), again=True)


@cache
def _readable(number: int) -> MappedCapture:
    name, slow = f"c{number}", number % 3 == 0
    work = WORK_NS + 1_000_000 * (number % 7) + 300_000_000 * slow
    rows: dict[str, list[tables.Row]] = {
        "captures": [
            {
                "capture": name, "state": "read", "reason": "", "again": False, "program": f"app{number % 2}.py",
                "command": "python app.py", "launch": "", "rank": number, "ranks": 24,
                "started_utc": f"2026-03-{1 + number:02d}T10:00:00+00:00", "duration_ns": work, "critical_ns": work,
                "work_ns": work, "samples": 100, "exit_status": 0, "outcome": "complete", "answer": "Copies wait.",
                "pinprof": "0.1.0", "bytes": 1000,
            }
        ],
        "facts": [{"capture": name, "dimension": "driver", "value": "570" if slow else "560"}],
        "work": [{"capture": name, "unit": "step", "count": 10.0}],
        "costs": [
            {
                "capture": name, "measure": "wall", "unit": "ns", "phase": "work", "cause": cause, "range": "step",
                "file": "app.py", "line": 12, "function": "step", "call": "cudaMemcpy", "weight": weight, "samples": 50,
            }
            for cause, weight in (("copy.pageable", work // 2), ("fault.anon", work // 3))
        ],
        "calls": [
            {
                "capture": name, "call": "cudaMemcpy", "purpose": "copy", "count": 10, "total_ns": work // 2,
                "median_ns": work // 20, "most_ns": work // 10, "bytes": None, "failures": 0,
            }
        ],
        "opportunities": [
            {
                "capture": name, "rank": 1, "title": "Copies of pageable memory", "place": "app.py:12",
                "function": "step", "phase": "work", "cure": "pin", "advice": "Pin it.", "causes": "copy.pageable",
                "count": 10, "bytes": 1 << 20, "cost_ns": work // 2, "saving_ns": work // 4,
                "saving_low_ns": work // 8, "saving_high_ns": work // 3,
            }
        ],
        "losses": [{"capture": name, "what": "lost_samples", "count": 2}],
    }  # fmt: skip
    return MappedCapture(f"/captures/{name}.pinprof", f"stamp-{name}", name, tables.packed(rows))


def write(folder: Path) -> Path:
    """Write it; the folder that has the files."""
    found = list(mapped())
    places = [CapturePlace(one.path, one.capture, one.stamp) for one in found]
    places.append(CapturePlace("/captures/copy.pinprof", "c1", "stamp-copy", "/captures/c1.pinprof"))
    with Store(folder) as store:
        for one in found:
            store.add(one)
        store.finish(places)
    return folder / tables.KEY
