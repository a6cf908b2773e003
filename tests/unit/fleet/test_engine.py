"""Processes that read captures: a terminal's Ctrl-C is for the command, which ends them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pinprof.fleet import engine
from pinprof.fleet.mapping import MappedCapture
from pinprof.fleet.sources import Source

ASKS = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def test_processes_that_begin_inside_ignore_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGINT)
    with engine._deaf_children():
        said = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True).stdout
    assert said == "True\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_nothing_is_changed() -> None:
    seen = []

    def look() -> None:
        with engine._deaf_children():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


@pytest.mark.parametrize(
    ("count", "each_s", "workers", "memory", "here"),
    [
        (13, 0.3, None, "", 13),  # 3.6 s are left after the first
        (60, 0.5, None, "", 1),
        (3, 20, None, "", 1),
        (60, 5, 0, "", 60),
        (3, 0.1, 2, "", 0),
        (3, 0.1, None, "1GB", 0),
    ],
)
def test_other_processes_begin_when_the_rest_takes_longer_than_starting_them(
    count: int, each_s: float, workers: int | None, memory: str, here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    given: list[tuple[str, int, str, list[str]]] = []

    def map_source(source: Source) -> MappedCapture:
        done.append(source.path)
        return MappedCapture(source.path, source.stamp, source.path)

    @contextlib.contextmanager
    def client(scheduler: str, processes: int, limit: str) -> Iterator[tuple[str, int, str]]:
        yield scheduler, processes, limit

    def distributed(client: tuple[str, int, str], sources: list[Source]) -> Iterator[MappedCapture]:
        given.append((*client, [source.path for source in sources]))
        yield from (MappedCapture(source.path, source.stamp, source.path) for source in sources)

    monkeypatch.setattr(engine, "map_source", map_source)
    monkeypatch.setattr(engine, "_client", client)
    monkeypatch.setattr(engine, "_distributed", distributed)
    monkeypatch.setattr(engine, "has", lambda _: True)
    monkeypatch.setattr(engine.os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(engine.time, "process_time_ns", lambda: round(len(done) * each_s * 1e9))
    sources = [Source(str(number), f"s{number}") for number in range(count)]
    assert [one.path for one in engine.mapped(sources, "", workers, memory)] == [one.path for one in sources]
    assert len(done) == here
    rest = [one.path for one in sources[here:]]
    assert given == ([("", min(workers or 8, len(rest)), memory, rest)] if rest else [])
