"""docs/formats.md says how much of each format is read at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinprof.base import shapes
from pinprof.bench import suite
from pinprof.read import memory
from pinprof.read.formats import folded, json_source, pprof
from pinprof.read.python import stacks
from pinprof.read.symbols import kallsyms, perf_map, sealed

DOCUMENT = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "Mi": 1 << 20}


@pytest.mark.parametrize(
    ("what", "bounds"),
    [
        ("`manifest.json`, `rates.json`", (shapes.MOST_BYTES,)),
        ("a file of `pinprof bench`", (suite.MOST_BYTES,)),
        ("speedscope, pprof", (json_source._WHOLE_LIMIT,)),
        ("speedscope, pprof", (pprof._LIMIT,)),
        ("an event of a trace", (json_source._ELEMENT_LIMIT,)),
        ("a line of folded stacks", (folded._MAX_LINE,)),
        ("`symbols.json.gz`", (sealed.MAX_BYTES,)),
        ("kallsyms", (kallsyms.MAX_BYTES,)),
        ("`perf-PID.map`", (perf_map.MAX_BYTES,)),
        ("`python-stacks.jsonl.gz`", (stacks.MAX_BYTES, stacks.MAX_LINE_BYTES)),
        ("a line of `memory.jsonl`", (memory._MOST_LINE,)),
    ],
)
def test_bounds_are_those_of_the_document(what: str, bounds: tuple[int, ...]) -> None:
    row = next(line for line in DOCUMENT.splitlines() if line.startswith(f"| {what} |"))
    assert tuple(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+) (MiB|GiB|Mi)\b", row)) == bounds
