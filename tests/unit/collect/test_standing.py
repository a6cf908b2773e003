"""Threads that stand still between two looks are copied once, as samples that the recorder's library completes."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator

import pytest

from pinprof.collect.native import events, perf_event, unwinding
from pinprof.collect.native import standing as module
from pinprof.collect.native.standing import EACH_NS, Standing
from pinprof.data import perf_format as perf

pytestmark = pytest.mark.skipif(not unwinding.supported(), reason="the library does not know this machine's registers")

NUMBER = 7


@pytest.fixture
def waiting() -> Iterator[int]:
    """A thread that waits for a lock."""
    done, begun = threading.Lock(), threading.Event()
    done.acquire()
    thread = threading.Thread(target=lambda: (begun.set(), done.acquire()))
    thread.start()
    begun.wait()
    assert thread.native_id is not None
    yield thread.native_id
    done.release()
    thread.join()


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch, waiting: int) -> Standing:
    now = [EACH_NS]

    def tick() -> int:
        now[0] += EACH_NS
        return now[0]

    monkeypatch.setattr(module.existing, "descendants", lambda pid: [pid])
    monkeypatch.setattr(module, "threads", lambda _: [waiting])
    monkeypatch.setattr(module.time, "monotonic_ns", tick)
    switches = events.standard(frequency=999, fault_period=64, off_cpu=True, kernel=True)[2]
    assert switches.attr.flags & perf_event.CONTEXT_SWITCH
    (spec,) = unwinding.with_copies([switches], 1 << 20)
    return Standing(spec, NUMBER, os.getpid())


def settled(standing: Standing) -> bytes:
    """What looks find of a thread, once it has come to rest."""
    return next(found for _ in range(1000) if (found := standing.look()))


def test_a_thread_that_stands_is_copied_once(standing: Standing, waiting: int) -> None:
    (found,) = perf.records(settled(standing))
    kind, misc, start, end = found
    assert (kind, misc) == (perf.RECORD_SAMPLE, perf.MISC_USER)
    assert end - start > 512
    assert [standing.look() for _ in range(3)] == [b"", b"", b""]


def test_the_copy_is_laid_out_as_its_event_says(standing: Standing, waiting: int) -> None:
    record = settled(standing)
    pid, tid = struct.unpack_from("<ii", record, 8 + 16)
    assert struct.unpack_from("<Q", record, 8)[0] == NUMBER
    assert (pid, tid) == (os.getpid(), waiting)
    (size,) = struct.unpack_from("<Q", record, len(record) - 8)
    assert 0 < size <= len(record)


def test_looks_come_no_more_often_than_they_may(standing: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: 2 * EACH_NS)
    standing.look()
    seen: list[int] = []
    monkeypatch.setattr(module, "threads", lambda pid: seen.append(pid) or [])
    standing.look()
    assert not seen
