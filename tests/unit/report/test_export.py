"""Folded stacks: one line per distinct stack of one event, exact weights, nothing heavy imported."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace

import pytest

from pinprof.base.errors import UsageError
from pinprof.data.activity import Activity
from pinprof.data.model import KERNEL, NO_NODE, USER, Capture
from pinprof.report.export.plain import write_folded
from tests.support.small_capture import small_capture


def folded(source: Capture, event: str | None = None) -> list[str]:
    stream = io.StringIO()
    write_folded(source, stream, event)
    return stream.getvalue().splitlines()


SYMBOLS = [("main", USER), ("work", USER), ("clear_page", KERNEL)]
PARENTS = [(NO_NODE, 0), (0, 1), (1, 2)]


def test_stacks_read_root_first_with_kernel_functions_marked() -> None:
    source = small_capture([(0, 5, 2), (0, 6, 2), (0, 1, 0)], SYMBOLS, PARENTS)
    assert folded(source) == ["main;work;clear_page_[k] 11", "main 1"]


def test_inner_nodes_with_own_samples_are_lines_of_their_own() -> None:
    source = small_capture([(0, 2, 1), (0, 9, 2)], SYMBOLS, PARENTS)
    assert folded(source) == ["main;work;clear_page_[k] 9", "main;work 2"]


def test_events_are_never_added_up() -> None:
    source = small_capture([(0, 5, 0), (1, 700, 1)], SYMBOLS, PARENTS)
    assert folded(source) == ["main 5"]
    assert folded(source, "page-faults:u") == folded(source, "page-faults") == ["main;work 700"]


def test_an_unknown_event_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(UsageError, match="cpu-clock/freq=999/, page-faults:u"):
        folded(small_capture([], SYMBOLS, PARENTS), "cycles")


def test_a_trace_says_why_there_is_nothing_to_fold() -> None:
    nothing = replace(small_capture([], [], []), events=())
    with pytest.raises(UsageError, match="no events"):
        folded(nothing)
    with pytest.raises(UsageError, match="is a trace") as error:
        folded(replace(nothing, activity=Activity("torch.profiler")))
    assert (error.value.slug, "Record it again" in str(error.value)) == ("no-samples", False)


def test_samples_without_callchain_are_kept() -> None:
    assert folded(small_capture([(0, 4, NO_NODE)], [], [])) == ["[no callchain] 4"]


def test_separators_inside_names_are_replaced() -> None:
    source = small_capture([(0, 1, 0)], [("a;b\nc\r\u2028d", USER)], [(NO_NODE, 0)])
    assert folded(source) == ["a:b c  d 1"]


def test_equal_lines_from_different_libraries_become_one() -> None:
    source = small_capture([(0, 1, 0), (0, 2, 1)], [("main", USER), ("main", USER)], [(NO_NODE, 0), (NO_NODE, 1)])
    assert folded(source) == ["main 3"]


def test_weights_beyond_floating_point_stay_exact() -> None:
    source = small_capture([(0, 2**60, 0), (0, 1, 0)], SYMBOLS, PARENTS)
    assert folded(source) == [f"main {2**60 + 1}"]


def test_folding_imports_no_template_engine_terminal_library_or_plotting() -> None:
    code = (
        "import sys; from pinprof.report import export\n"
        "sys.exit(str({'jinja2', 'rich', 'plotly', 'pandas', 'markupsafe'} & set(sys.modules) or ''))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.strip() == ""
