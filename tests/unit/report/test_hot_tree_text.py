"""Names in the hot tree are whole where they fit."""

from __future__ import annotations

import pytest

from pinprof.report.sections.causes.hot_tree_text import _chain

LONG = "BaseEventLoop.run_forever (base_events.py:607)"


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (80, f"_start › main › {LONG}"),
        (61, f"_start › … › {LONG}"),
        (51, f"… › {LONG}"),
    ],
)
def test_calls_are_left_out_before_a_name_is_cut(room: int, said: str) -> None:
    assert _chain(["_start", "main", "main", LONG], room) == said
