"""ranges.jsonl and NVTX together: a phase that is in both counts once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinprof.data.model import RangeTable
from pinprof.read import range_sources
from pinprof.read.nvtx.file import NvtxKind
from pinprof.read.ranges import parse_ranges
from tests.support.nvtx_events import Writer


def line(name: str, start: int, end: int, depth: int = 0, tid: int = 100) -> str:
    said = {"name": name, "domain": "pinprof", "start_ns": start, "end_ns": end, "pid": 100, "tid": tid, "depth": depth}
    return json.dumps(said) + "\n"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A program with phases; the first is measured, `killed` was open when the program ended."""
    lines = [line("load", 101, 199), line("load", 112, 149, 1), line("load", 301, 399), line("load", 105, 106, tid=7)]
    (tmp_path / "ranges.jsonl").write_text("".join(lines))
    writer = Writer()
    writer.say(NvtxKind.DOMAIN, 1, "pinprof", value=1)
    for kind, time, text, domain in [
        (NvtxKind.PUSH, 50, "warm-up", 0),
        (NvtxKind.POP, 60, None, 0),
        (NvtxKind.PUSH, 100, "load", 1),
        (NvtxKind.PUSH, 111, "load", 1),
        (NvtxKind.PUSH, 120, "library", 0),
        (NvtxKind.POP, 130, None, 0),
        (NvtxKind.POP, 150, None, 1),
        (NvtxKind.PUSH, 160, "load", 0),
        (NvtxKind.POP, 170, None, 0),
        (NvtxKind.POP, 200, None, 1),
        (NvtxKind.PUSH, 301, "load", 1),
        (NvtxKind.POP, 399, None, 1),
        (NvtxKind.PUSH, 450, "killed", 1),
        (NvtxKind.PUSH, 460, "load", 1),
    ]:
        writer.say(kind, time, text, domain=domain)
    (tmp_path / "nvtx").mkdir()
    (tmp_path / "nvtx/100-1.bin").write_bytes(writer.bytes())
    return tmp_path


def rows(table: RangeTable) -> list[tuple[str, str, int, int]]:
    return list(zip(table.domain, table.name, table.start_ns.tolist(), table.depth.tolist(), strict=True))


def test_each_phase_counts_once_and_what_the_file_lacks_stays(capture: Path) -> None:
    found = range_sources.load(capture, None, measured_only=False)
    assert rows(found.table) == [
        ("", "warm-up", 50, 0),
        ("pinprof", "load", 101, 0),
        ("pinprof", "load", 105, 0),
        ("pinprof", "load", 112, 1),
        ("", "library", 120, 2),
        ("", "load", 160, 1),
        ("pinprof", "load", 301, 0),
        ("pinprof", "killed", 450, 0),
        ("pinprof", "load", 460, 1),
    ]
    assert found.notes == ("2 NVTX ranges without an end: assumed to end with the process.",)


def test_of_a_scenario_only_what_was_measured_counts(capture: Path) -> None:
    table = range_sources.load(capture, None, measured_only=True).table
    assert [name for _, name, _, _ in rows(table)] == ["load", "load", "load", "library", "load", "load"]


def test_a_file_that_is_given_takes_the_place_of_both(capture: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.jsonl"
    given.write_text(line("given", 1, 2))
    assert rows(range_sources.load(capture, given, measured_only=False).table) == [("pinprof", "given", 1, 0)]


def test_either_alone_is_enough(capture: Path) -> None:
    (capture / "ranges.jsonl").unlink()
    assert len(range_sources.load(capture, None, measured_only=True).table) == 8
    (capture / "nvtx/100-1.bin").unlink()
    assert len(range_sources.load(capture, None, measured_only=False).table) == 0
    assert not range_sources.doubles(parse_ranges(b"").table, parse_ranges(b"").table).size
