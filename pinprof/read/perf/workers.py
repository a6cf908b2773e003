"""Threads that reduce chunks of a large recording side by side: what takes long is numpy's and the C library's, which
need no lock of Python's.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Condition, Thread

from pinprof.read.perf import kernels
from pinprof.read.perf.addresses import DeferredChains
from pinprof.read.perf.chains import ChainGatherer
from pinprof.read.perf.chunk import Reduced, Reducer
from pinprof.read.perf.mappings import SpaceTable
from pinprof.read.perf.samples import Chunk

_WORTH_IT = 40_000
"""Samples from which threads gain anything: those of two chunks."""
_MOST = 4
"""Of more, putting together what they make is what takes long."""

Pending = Callable[[], Reduced]
"""What a chunk comes to, once it is asked for."""


@contextmanager
def reducing(
    file: int, samples: int, spaces: SpaceTable, deferred: DeferredChains, chains: ChainGatherer
) -> Iterator[tuple[Callable[[Chunk], Pending], int]]:
    """How chunks of an open file of about that many samples are reduced, and at most how many at a time.

    The recording's `chains` grow by those of chunks that are reduced at once. What is under way ends with the block.
    """
    count = min(len(os.sched_getaffinity(0)), _MOST)
    worth = samples >= _WORTH_IT and count > 1 and kernels.library() is not None
    threads = _Threads(Reducer(file, spaces, deferred, number=number) for number in range(count if worth else 0))
    try:
        if threads.started:
            yield threads.begin, 2 * count
        else:
            own = Reducer(file, spaces, deferred, chains)
            yield (lambda chunk: partial(own.reduced, chunk)), 0
    finally:
        threads.end()


class _Threads:
    """One for each reducer. Each takes the next chunk, so that every reducer has its chunks in their order."""

    def __init__(self, reducers: Iterable[Reducer]) -> None:
        self._changed = Condition()
        self._todo: deque[tuple[Chunk, list[Reduced | BaseException]]] = deque()
        self._ended = False
        self.started: list[Thread] = []
        with suppress(RuntimeError):  # no more threads can be started
            for reducer in reducers:
                thread = Thread(target=self._run, args=(reducer,), daemon=True)
                thread.start()
                self.started.append(thread)

    def begin(self, chunk: Chunk) -> Pending:
        """Have a chunk reduced."""
        answer: list[Reduced | BaseException] = []
        with self._changed:
            self._todo.append((chunk, answer))
            self._changed.notify_all()
        return partial(self._wait, answer)

    def end(self) -> None:
        """Leave what is not begun, and wait for the rest."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for thread in self.started:
            thread.join()

    def _wait(self, answer: list[Reduced | BaseException]) -> Reduced:
        with self._changed:
            self._changed.wait_for(lambda: answer)
        if isinstance(answer[0], BaseException):
            raise answer[0]
        return answer[0]

    def _run(self, reducer: Reducer) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._todo or self._ended)
                if self._ended:
                    return
                chunk, answer = self._todo.popleft()
            try:
                made: Reduced | BaseException = reducer.reduced(chunk)
            except BaseException as error:  # whoever waits for it raises it
                made = error
            with self._changed:
                answer.append(made)
                self._changed.notify_all()
