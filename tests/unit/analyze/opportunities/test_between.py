"""Data that processes pass each other through pipes; what goes through shared memory is not meant."""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.analyze.opportunities import between
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.search import search
from tests.support.scenes import MS, ran, recorded, scene, waited
from tests.support.stacks import Sample

PYTHON = "/usr/lib/python3.12"
LINE = "main (train.py:7)@/app/train.py"
POOL = f"Pool._handle_results (pool.py:579)@{PYTHON}/multiprocessing/pool.py"
RECEIVES = (POOL, f"Connection._recv_bytes (connection.py:400)@{PYTHON}/multiprocessing/connection.py")
READS = (*RECEIVES, "read@/usr/lib/libc.so.6", "ksys_read", "vfs_read", "anon_pipe_read", "copy_folio_to_iter",
         "_copy_to_iter")  # fmt: skip
LOADS = (*RECEIVES, "_pickle_loads@/usr/bin/python3.12", "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault",
         "do_anonymous_page")  # fmt: skip
WAITS = (LINE, f"ApplyResult.wait (pool.py:768)@{PYTHON}/multiprocessing/pool.py", "futex_wait_queue", "schedule")
DUMPS = (f"ForkingPickler.dumps (reduction.py:51)@{PYTHON}/multiprocessing/reduction.py",)
TENSORS = "reduce_storage (reductions.py:400)@/venv/lib/python3.12/site-packages/torch/multiprocessing/reductions.py"
SHARED = (*DUMPS, TENSORS, "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_fault", "__do_fault",
          "shmem_fault")  # fmt: skip


def received(pipe: int, *parts: Sequence[str], steps: int = 5, tid: int = 200) -> list[Sample]:
    """In each step the line waits for 100 ms while a thread receives, as long as `pipe` through a pipe."""
    made = []
    for step in range(steps):
        at = 200 * step
        made += waited(at, at + 100, WAITS)
        made += ran(at, at + pipe, READS, tid=tid) if pipe else []
        rest = (100 - pipe) // len(parts)
        for number, stack in enumerate(parts):
            made += ran(at + pipe + number * rest, at + pipe + (number + 1) * rest, stack, tid=tid)
        made += ran(at + 100, at + 200, (LINE,))
    return sorted(made, key=lambda sample: sample.time_ns)


def found(made: list[Sample]) -> list[Candidate]:
    return list(between.pickled(scene(recorded(made))))


def test_results_through_a_pipe_are_shared_at_the_line_that_waits() -> None:
    (one,) = found(received(10, LOADS))
    assert (one.site.place, one.cure.id) == ("train.py:7", "share-memory")
    assert abs(one.cost_ns - 500 * MS) <= 10 * MS
    assert 0.5 * one.cost_ns < one.saving.low_ns < one.saving.likely_ns < one.saving.high_ns <= one.cost_ns
    assert "The pipe" not in one.title
    assert one.evidence[0].text.startswith("Of that, the pipe takes 50 ms (10 %)")


def test_small_messages_are_not_what_takes_the_time() -> None:
    assert found(received(1, LOADS)) == []
    assert found(received(0, LOADS)) == []


def test_tensors_in_shared_memory_are_not_passed_through_the_pipe() -> None:
    assert found(received(0, SHARED)) == []
    (one,) = found(received(10, SHARED))
    assert one.cost_ns <= 60 * MS


def test_pickling_is_the_cause_and_not_the_memory_that_it_fills() -> None:
    first, *_ = search(scene(recorded(received(10, LOADS)))).found
    assert first.cure.id == "share-memory"
