"""Wake-ups from a file written by hand: who woke whom, in which context, and what of a process outside is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof.analyze import analyze
from pinprof.analyze.blame.results import HolderKind
from pinprof.data.model import BY_INTERRUPT, BY_SOFTIRQ, BY_THREAD, NO_NODE, Capture
from pinprof.read import read
from tests.fuzz.seeds import wakeups_by_hand


def capture(folder: Path, *, system_wide: bool) -> Capture:
    path = folder / "perf.data"
    path.write_bytes(wakeups_by_hand(system_wide=system_wide))
    return read(path)


@pytest.mark.parametrize("system_wide", [False, True])
def test_each_wake_up_counts_once_with_its_context(tmp_path: Path, system_wide: bool) -> None:
    found = capture(tmp_path, system_wide=system_wide).wakeups
    assert found is not None
    assert len(found) == 12  # half of them came twice
    assert found.woken.tolist() == [7, 8] * 6
    contexts = [BY_THREAD, BY_SOFTIRQ, BY_THREAD, BY_INTERRUPT]
    assert found.context.tolist() == contexts * 3
    inside = found.pid == 7
    assert inside.tolist() == [True, True, False, True] * 3
    assert (found.stack[(found.context == BY_THREAD) & inside] != NO_NODE).all()
    assert (found.stack[found.context == BY_INTERRUPT] == NO_NODE).all()


def test_a_process_outside_has_a_stack_and_a_thread_in_a_recording_of_the_whole_machine_alone(tmp_path: Path) -> None:
    for system_wide in (False, True):
        found = capture(tmp_path, system_wide=system_wide).wakeups
        assert found is not None
        outside = found.pid != 7
        assert (found.stack[outside] != NO_NODE).all() == system_wide
        assert set(found.tid[outside].tolist()) == ({99} if system_wide else {-1})


def test_waits_are_charged_to_who_ended_them(tmp_path: Path) -> None:
    found = analyze(capture(tmp_path, system_wide=True)).blame
    assert found is not None
    assert found.recorded
    kinds = {row.holder.kind for row in found.rows}
    assert kinds >= {HolderKind.THREAD, HolderKind.KERNEL}
    for row in found.rows:
        if row.holder.kind is HolderKind.THREAD:
            assert {row.waiter.tid, row.holder.tid} == {7, 8}
