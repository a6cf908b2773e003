"""Who maps captures: this process, processes of this machine, or those of a Dask scheduler elsewhere.

One capture is one task, and a bounded number of them is with the scheduler at a time, so its memory does not grow with
the fleet. A worker that dies costs what it was working on, which others do again; a capture that kills every worker
that reads it becomes a row that says so.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pinprof.base.errors import CollectError, PinprofError
from pinprof.fleet import tables
from pinprof.fleet.mapping import MappedCapture, map_source, unreadable
from pinprof.fleet.packages import has, package
from pinprof.fleet.sources import Source

START_NS = 10_000_000_000
"""What starting processes takes of the CPU, and some more: captures that take less are mapped in this process."""
AHEAD = 64
"""Tasks that a scheduler has at least, and for each thread of its workers `_EACH`."""
_EACH = 8
_WHAT = "Mapping captures by Dask"


def mapped(sources: Sequence[Source], scheduler: str, workers: int | None, memory: str) -> Iterator[MappedCapture]:
    """What every source becomes, in the order in which they are done.

    `scheduler` is the address of a Dask scheduler, empty for processes of this machine: as many as `workers`, 0 for
    this process alone. None begins here, and starts one on each processor once the captures that are left would take
    longer than starting does. `memory` limits each process, so with it they start at once.
    """
    alone = not scheduler and (workers == 0 or (workers is None and not has("distributed")))
    others = not alone and bool(scheduler or workers or memory)
    began, done = time.process_time_ns(), 0
    while done < len(sources) and not others:
        yield map_source(sources[done])
        done += 1
        others = not alone and (time.process_time_ns() - began) / done * (len(sources) - done) > START_NS
    if left := sources[done:]:
        count = workers or len(os.sched_getaffinity(0))
        with _client(scheduler, min(count, len(left)), memory) as client:
            yield from _distributed(client, left)


@contextmanager
def _client(scheduler: str, workers: int, memory: str) -> Iterator[Any]:
    distributed = package("distributed", _WHAT)
    if scheduler:
        try:
            client = distributed.Client(scheduler, timeout="20s", set_as_default=False)
        except Exception as error:
            raise CollectError(
                f"The scheduler {scheduler} does not answer: {error}.",
                "Start one with `dask scheduler`, and give its address.",
                "fleet-scheduler",
            ) from error
        with client:
            yield client
        return
    with _deaf_children():
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory or "auto",
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that begin inside ignore a terminal's Ctrl-C, which is for this one: it ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _distributed(client: Any, sources: Sequence[Source]) -> Iterator[MappedCapture]:
    distributed = package("distributed", _WHAT)
    ahead = max(AHEAD, _EACH * sum(client.nthreads().values()))
    left = iter(sources)
    under_way: dict[str, Source] = {}

    def submit(source: Source) -> Any:
        future = client.submit(map_source, source, tables.KEY, pure=False, retries=1)
        under_way[future.key] = source
        return future

    first = [submit(source) for _, source in zip(range(ahead), left, strict=False)]
    futures = distributed.as_completed(first, loop=client.loop)
    for future in futures:
        source = under_way.pop(future.key)
        yield _result(future, source)
        future.release()
        following = next(left, None)
        if following is not None:
            futures.add(submit(following))


def _result(future: Any, source: Source) -> MappedCapture:
    distributed = package("distributed", _WHAT)
    try:
        result = future.result()
    except PinprofError:
        raise
    except distributed.KilledWorker:
        return unreadable(source, "", "Every worker that read it died. It may need more memory.", again=True)
    except Exception as error:
        return unreadable(source, "", f"Its worker failed: {type(error).__name__}: {error}", again=True)
    assert isinstance(result, MappedCapture)
    return result
