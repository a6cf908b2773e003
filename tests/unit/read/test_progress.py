"""Readers tell how far they are: nobody is told less than before, and the whole at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pinprof import read
from pinprof.read import ReadOptions, byte_source
from pinprof.read.nsys import source
from pinprof.read.perf import stream
from pinprof.read.reader import portion
from tests.support import nsys_file
from tests.support.perf_file import Spec, file_mode, sample

SCRIPT = "prog 7/7 [000] 1.{:06}: 1000 cpu-clock:\n\t            1000 work (/bin/prog)\n\n"


def perf_data(folder: Path) -> Path:
    path = folder / "perf.data"
    spec = Spec()
    path.write_bytes(file_mode([spec], b"".join(sample(spec, time=100 + number) for number in range(900))))
    return path


def perf_script(folder: Path) -> Path:
    path = folder / "script.txt"
    path.write_text("".join(SCRIPT.format(number) for number in range(400)))
    return path


def folded(folder: Path) -> Path:
    path = folder / "folded.txt"
    path.write_text("".join(f"main;work_{number} 3\n" for number in range(2000)))
    return path


def chrome_trace(folder: Path) -> Path:
    path = folder / "trace.json"
    events = [{"ph": "X", "name": "step", "ts": number, "dur": 1, "pid": 7, "tid": 7} for number in range(600)]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def nsys_export(_folder: Path) -> Path:
    return nsys_file.real("both.sqlite")


@pytest.mark.parametrize("made", [perf_data, perf_script, folded, chrome_trace, nsys_export])
def test_the_parts_grow_up_to_the_whole(
    made: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(byte_source, "CHUNK", 1 << 12)
    monkeypatch.setattr(source, "LEAST_BYTES", 0)
    parts: list[float] = []
    read.read(made(tmp_path), ReadOptions(progress=parts.append))
    assert parts == sorted(parts)
    assert len(set(parts)) > 3
    assert parts[0] > 0
    assert parts[-1] == 1


def test_a_portion_lies_where_it_is_said_to() -> None:
    parts: list[float] = []
    told = portion(portion(parts.append, 0.5, 1), 0, 0.5)
    for part in (0, 0.5, 1):
        told(part)
    assert parts == [0.5, 0.625, 0.75]
