"""A line that an edit above it moved is the same line."""

from __future__ import annotations

from pinprof.compare.lines import moves

STEP = {("a.py", "step", 10): 50.0, ("a.py", "step", 12): 30.0, ("a.py", "step", 15): 20.0}


def test_lines_of_one_distance_have_moved() -> None:
    after = {(file, function, line + 7): weight for (file, function, line), weight in STEP.items()}
    moved = moves(STEP, after)
    assert moved.before(("a.py", "step", 17)) == ("a.py", "step", 10)
    assert moved.before(("a.py", "other", 17)) == ("a.py", "other", 17)


def test_equal_lines_have_not_moved_whatever_their_times() -> None:
    after = {("a.py", "step", 10): 1.0, ("a.py", "step", 12): 90.0, ("a.py", "step", 15): 1.0}
    assert moves(STEP, after).shifts == {}


def test_another_branch_is_not_the_same_code_elsewhere() -> None:
    assert moves(STEP, {("a.py", "step", 30): 50.0, ("a.py", "step", 31): 40.0}).shifts == {}


def test_a_single_line_moves_only_with_its_time() -> None:
    before = {("a.py", "step", 10): 50.0}
    assert moves(before, {("a.py", "step", 13): 45.0}).shifts == {("a.py", "step"): 3}
    assert moves(before, {("a.py", "step", 13): 5.0}).shifts == {}


def test_functions_without_lines_stay() -> None:
    assert moves({("a.py", "step", 0): 1.0}, {("a.py", "step", 0): 2.0}).before(("a.py", "step", 0))[2] == 0
