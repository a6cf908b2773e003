"""The page and the table of a measurement: whole, self-contained, and safe with names from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from pinprof.analyze.costs.bench import study
from pinprof.data.rates import Rates
from pinprof.report.bench.data import BenchReport
from pinprof.report.bench.page import render
from pinprof.report.bench.text import print_bench
from pinprof.report.terminal import layout
from tests.support.bench_rates import gpu_rates

HOSTILE = '</script><script>alert(1)</script>\x1b[31m"<b>'


def report(rates: Rates | None = None) -> BenchReport:
    return BenchReport(
        study=study(rates or gpu_rates()),
        device_name="A GPU",
        emulated=False,
        host={"cpu": "A processor", "gpus": [{"name": "A GPU"}]},
        left_out=(("", 8 << 30, "above what is safe"), ("touch.huge", 65536, "smaller than a huge page")),
        unstable={"pin.alloc 1MiB": ("the standard deviation (1 ms) is 20% of the mean (5 ms)",)},
        benchmarks=244,
        processes=8,
        duration_s=500.0,
        command="pinprof bench --quick",
        file="bench.json",
        emulations={},
    )


@pytest.mark.slow
def test_page_is_one_file_that_asks_for_nothing() -> None:
    page = render(report())
    assert "5 copies repay pinning 4\u00a0GiB" in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page)
    found = re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)
    assert found
    plots = json.loads(found[1])["plots"]
    assert set(plots) == {"make", "move", "prefault", "break_even", "kernels"}
    names = [trace["name"] for trace in plots["move"]["data"]]
    assert "PCIe 5.0 x16, theory: 63 GB/s" in names
    assert "best measured: 55.2 GB/s" in names
    for name in plots:
        assert f'data-plot="{name}"' in page


def test_page_and_table_without_measurements_of_a_kind_have_no_such_section(capsys: pytest.CaptureFixture[str]) -> None:
    only = report(gpu_rates("touch.first"))
    page = render(only)
    assert 'id="make"' in page
    for section in ("move", "break-even", "choose"):
        assert f'id="{section}"' not in page
    print_bench(only)
    shown = capsys.readouterr().out
    assert "touch.first" in shown
    assert "Break-even" not in shown


def test_nothing_measured_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = report(Rates({}, "cuda", "", ()))
    assert 'id="plot-script"' not in render(nothing)
    print_bench(nothing)
    assert "costs of memory operations" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "unstable", "reason"), [("host", 0, "Without a GPU"), ("cuda", 244, "benchmarks are unstable")]
)
def test_figures_that_do_not_hold_carry_no_advice(
    backend: str, unstable: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    withheld = replace(report(), study=study(replace(gpu_rates(), backend=backend), unstable))
    print_bench(withheld)
    shown = " ".join(capsys.readouterr().out.split())
    page = render(withheld)
    for text in (shown, page):
        assert "No advice" in text
        assert reason in text
        for advice in ("repay", "allocate it pinned", "prefetch it"):
            assert advice not in text


@pytest.mark.slow
def test_hostile_names_stay_text(capsys: pytest.CaptureFixture[str]) -> None:
    bad = replace(
        report(),
        device_name=HOSTILE,
        command=HOSTILE,
        file=HOSTILE,
        host={"cpu": HOSTILE},
        left_out=(("", None, HOSTILE),),
    )
    page = render(bad)
    assert "<script>alert" not in page
    assert "\x1b" not in page
    print_bench(bad)
    assert "\x1b[31m" not in capsys.readouterr().out


def test_table_has_costs_shares_counts_and_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    print_bench(report())
    shown = capsys.readouterr().out
    for words in ("pin.register-touched", "theory", "theory 63 GB/s", "allocate it pinned", "1 of 244 benchmarks"):
        assert words in shown
    assert "touch.huge at 64 KiB: smaller than a huge page" in shown
    assert "the standard deviation is 10 % of the mean or more: pin.alloc 1MiB" in shown


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_figure_is_cut_where_the_terminal_is_narrow(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "PLAIN_WIDTH", width)
    print_bench(report())
    lines = capsys.readouterr().out.splitlines()
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []
    # malloc does not touch what it returns: its time says nothing of a GiB.
    (malloc,) = [line.split() for line in lines if line.split()[:1] == ["alloc.malloc"]]
    (touch,) = [line.split() for line in lines if line.split()[:1] == ["touch.first"]]
    assert malloc[-1] == "–"
    assert touch[-2:] == ["260", "ms"]
