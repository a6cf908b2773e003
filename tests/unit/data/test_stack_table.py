"""Stacks as one prefix tree: which chains hold a frame, and chains that come twice."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pinprof.data.model import KERNEL, NO_NODE, USER, Dso, FrameTable, StackTable

FRAMES = FrameTable(
    ("main", "work", "sys_write"),
    np.zeros(3, np.int32),
    np.array([USER, USER, KERNEL], np.uint8),
    (Dso("/app", "", "file"),),
)


def table(*rows: tuple[int, int]) -> StackTable:
    """Of (parent, frame)."""
    parent, frame = np.array(rows, np.int32).reshape(-1, 2).T
    return StackTable(parent, frame, FRAMES)


@pytest.mark.parametrize(
    ("marked", "roots", "expected"),
    [
        ([True, False, False], False, [True, True, True, False]),
        ([False, True, False], False, [False, True, True, True]),
        ([False, True, False], True, [False, False, False, True]),
        ([False, False, False], False, [False, False, False, False]),
    ],
)
def test_a_chain_is_under_a_frame_that_it_holds(marked: list[bool], roots: bool, expected: list[bool]) -> None:
    found = table((NO_NODE, 0), (0, 1), (1, 2), (NO_NODE, 1)).under(np.array(marked), roots=roots)
    assert found[:-1].tolist() == expected
    assert not found[NO_NODE], "a sample without a chain is under nothing"


def test_each_chain_is_there_once_after_a_merge() -> None:
    merged, node = table((NO_NODE, 0), (NO_NODE, 0), (0, 1), (1, 1), (1, 2)).merged()
    chains = [[int(merged.frame[place]) for place in merged.chain(int(end))] for end in node]
    assert chains == [[0], [0], [1, 0], [1, 0], [2, 0]]
    assert len(merged) == 3


def test_an_empty_table_has_no_chain_to_mark_or_merge() -> None:
    assert table().under(np.zeros(3, np.bool_)).tolist() == [False]
    assert [len(part) for part in table().merged()] == [0, 0]


def test_a_name_matches_as_a_whole() -> None:
    assert FRAMES.named(re.compile("sys_.*|wor")).tolist() == [False, False, True]
