"""Stacks of two sides as one tree; two columns as FlameGraph's difffolded.pl writes them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pinprof.analyze.attribution.attribute import attribute
from pinprof.compare.stacks import compared_stacks, event_stacks, unmatched
from pinprof.data.model import KERNEL, NO_NODE, USER
from tests.support.command import pinprof
from tests.support.small_capture import small_capture


def folded_difference(before: str, after: str) -> list[str]:
    """What difffolded.pl is documented to do: counts of equal stacks of each file are summed, a stack that a file lacks
    counts 0 there, and each stack comes out once with both counts. In the order of bytes.
    """
    counts: list[Counter[str]] = []
    for text in (before, after):
        count: Counter[str] = Counter()
        for line in text.splitlines():
            stack, _, number = line.rpartition(" ")
            count[stack] += int(number)
        counts.append(count)
    return sorted(f"{stack} {counts[0][stack]} {counts[1][stack]}" for stack in {**counts[0], **counts[1]})


def some_stacks(seed: int) -> str:
    """Stacks that share their outer functions, as profiles do."""
    chosen = random.Random(seed)
    names = ["main", "fill<int>", "fill<float>", "copy.isra.0", "copy", "handle_mm_fault_[k]", "λ", "operator<", "a b"]
    stacks = [";".join(["main", *chosen.choices(names, k=chosen.randrange(1, 6))]) for _ in range(60)]
    return "".join(f"{stack} {chosen.randrange(1, 1000)}\n" for stack in stacks)


def folded(before: Path, after: Path, *options: str) -> list[str]:
    output = before.with_name("difference.folded")
    result = pinprof("diff", before, after, "--format", "folded", "-o", output, *options)
    assert result.returncode == 0, result.stderr
    return output.read_text().splitlines()


@pytest.mark.parametrize("seed", range(4))
def test_two_columns_are_those_of_difffolded(tmp_path: Path, seed: int) -> None:
    before, after = tmp_path / "before.folded", tmp_path / "after.folded"
    before.write_text(some_stacks(seed))
    after.write_text(some_stacks(seed + 100))
    assert sorted(folded(before, after)) == folded_difference(before.read_text(), after.read_text())


def test_functions_that_are_compared_as_one_fold_as_one_if_asked_for(tmp_path: Path) -> None:
    (tmp_path / "before.folded").write_text("main;copy.isra.0 5\nmain;void fill<int>(int) 2\n")
    (tmp_path / "after.folded").write_text("main;copy 7\nmain;void fill<float>(float) 3\n")
    sides = tmp_path / "before.folded", tmp_path / "after.folded"
    assert len(folded(*sides)) == 4
    assert folded(*sides, "--merge-names") == ["main;copy 5 7", "main;void fill<float>(float) 2 3"]


# main → fill, and main → copy; a fault of the kernel below fill.
SYMBOLS = [("main", USER), ("fill", USER), ("copy.isra.0", USER), ("clear_page", KERNEL)]
TREE = [(NO_NODE, 0), (0, 1), (0, 2), (1, 3)]


def test_weights_are_means_of_runs_per_unit_and_add_up() -> None:
    one = small_capture([(0, 10, 1), (0, 30, 2), (1, 1, 3)], SYMBOLS, TREE)
    two = small_capture([(0, 20, 1), (0, 5, NO_NODE)], SYMBOLS, TREE)
    after = small_capture([(0, 8, 1), (0, 4, 2)], [("main", USER), ("fill", USER), ("copy", USER)], TREE[:3])
    sides = [[event_stacks(capture, attribute(capture), str) for capture in side] for side in ([one, two], [after])]
    name = one.events[0].name
    found = compared_stacks(
        name, [run.get(name) for run in sides[0]], [run.get(name) for run in sides[1]], ([1.0, 2.0], [4.0])
    )
    frames = found.frames
    weights = {
        frames.key[frame].rpartition(":")[2]: (before, after)
        for frame, before, after in zip(found.frame.tolist(), found.before.tolist(), found.after.tolist(), strict=True)
    }
    assert weights == {
        "main": (0, 0),
        "fill": (10 / 2 + 20 / 2 / 2, 8 / 4),
        "copy": (30 / 2, 4 / 4),
        "[no callchain]": (5 / 2 / 2, 0),
    }
    assert found.before_samples.sum() == 4
    assert found.weights.weight.sum() == 65 + 12
    assert sorted(set(found.weights.run.tolist())) == [0, 1, 2]
    apart = unmatched(found)
    assert apart["renamed"] == (15.0, 1.0)
    assert apart["only"] == (1.25, 0.0)
    assert (np.append(found.parent, NO_NODE) < np.arange(len(found) + 1)).all()


def test_events_stay_apart() -> None:
    capture = small_capture([(0, 10, 1), (1, 1, 3)], SYMBOLS, TREE)
    found = event_stacks(capture, attribute(capture), str)
    assert {name: stacks.rows.weight.sum() for name, stacks in found.items()} == {
        "cpu-clock/freq=999/": 10, "page-faults:u": 1,
    }  # fmt: skip
