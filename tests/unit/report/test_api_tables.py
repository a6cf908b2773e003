"""Tables from Python."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import pinprof
from pinprof.base.errors import ToolMissing
from pinprof.report.figures import as_plotly
from pinprof.report.palette import level_colour

pytest.importorskip("pandas", reason="pandas is not installed")
CAPTURE = Path(__file__).parents[2] / "data/cases/long_pin_blocks.pinprof.tar.xz"
DOCUMENT = Path(__file__).parents[3] / "docs/python.md"


@pytest.mark.slow
def test_documented_columns_are_those_of_the_tables() -> None:
    run = pinprof.open(CAPTURE)
    rows = re.findall(r"^\| `run\.(\w+)` \|[^|]*\|(.*)\|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    documented = {name: re.findall(r"`([a-z_, ]+)`", text) for name, text in rows}
    assert len(documented) == 11
    for name, texts in documented.items():
        columns = list(getattr(run, name).columns)
        named = [word for text in texts for word in text.split(", ")]
        assert named[: len(columns)] == columns, name


@pytest.mark.slow
def test_blame_and_ledger_are_tables() -> None:
    run = pinprof.open(CAPTURE)
    held = run.blame.iloc[0]
    assert (held.wait, held.file, held.line) == ("wait.lock", "long_pin_blocks.py", 26)
    assert (held.holder_kind, held.holder_file, held.holder_line) == ("thread", "long_pin_blocks.py", 16)
    assert held.certainty == "busy meanwhile"
    assert "shmem_get_folio_gfp" in held.holder_stack
    ledger = run.ledger.iloc[0]
    assert (ledger.kind, ledger.api, ledger.line) == ("pinned", "cudaHostAlloc", "pin (long_pin_blocks.py:16)")
    assert ledger.peak_bytes == ledger.granted_bytes == 4 << 30
    assert run.ledger.granted_bytes.sum() >= 4112 << 20
    curve = run.figures()["ledger"].data[0]
    assert max(curve.y) >= 4
    assert curve.line.color == level_colour(curve.meta, dark=False)


@pytest.mark.slow
def test_samples_have_their_range_and_line_and_lines_their_weight() -> None:
    run = pinprof.open(CAPTURE)
    samples = run.samples
    # Lines and samples are two ways to the same weight.
    for row in run.lines.itertuples():
        mine = samples[(samples.event == row.event) & (samples.line == f"{row.file}:{row.line}")]
        assert mine.weight.sum() >= row.weight > 0  # two functions may share a line
    assert "long_pin_blocks.py:16" in set(samples.line)
    first = run.lines.iloc[0]
    assert first.leaf_weight <= first.weight
    assert 0 < first.share <= 1


@pytest.mark.slow
def test_a_sample_belongs_to_its_innermost_range() -> None:
    run = pinprof.open(CAPTURE.parents[1] / "h200/pinned-native.pinprof.tar.xz")
    samples, ranges = run.samples, run.ranges
    assert samples.range.any()
    for sample in samples[samples.range != ""].itertuples():
        innermost = ranges[(ranges.start_ns <= sample.time_ns) & (sample.time_ns < ranges.end_ns)]
        assert sample.range.rpartition(" > ")[2] in set(innermost[innermost.depth == innermost.depth.max()].name)
    outside = samples[samples.range == ""]
    for sample in outside.itertuples():
        assert ranges[(ranges.start_ns <= sample.time_ns) & (sample.time_ns < ranges.end_ns)].empty


@pytest.mark.slow
def test_empty_tables_have_their_columns(tmp_path: Path) -> None:
    folded = tmp_path / "stacks.folded"
    folded.write_text("main;work 3\n")
    run = pinprof.open(folded)
    full = pinprof.open(CAPTURE)
    for name in ("calls", "gpu_ops", "ledger", "blame", "opportunities", "lines", "ranges", "findings"):
        table = getattr(run, name)
        assert list(table.columns) == list(getattr(full, name).columns) != [], name
    assert run.calls.empty
    assert run.ledger.empty


def test_errors_are_worded_for_python(tmp_path: Path) -> None:
    perf = tmp_path / "kallsyms"
    perf.write_text("")
    with pytest.raises(pinprof.PinprofError) as caught:
        pinprof.open(tmp_path / "missing.pinprof")
    assert "--" not in str(caught.value)


def test_figures_without_plotly_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ToolMissing, match=r"pip install 'pinprof\[figures\]'"):
        as_plotly({})
