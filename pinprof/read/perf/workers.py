"""Processes that reduce chunks of a large recording, one for each processor.

They are started by name and not forked, since whoever reads may have threads, and not by multiprocessing, which runs
the user's script again. Where one can't be started, ends early or does not answer, its chunks are reduced here.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import cycle
from typing import Self

from pinprof.machine.children import finding_pinprof
from pinprof.read.perf.addresses import DeferredChains
from pinprof.read.perf.chains import ChainGatherer
from pinprof.read.perf.chunk import Reduced, Reducer
from pinprof.read.perf.mappings import SpaceTable
from pinprof.read.perf.samples import Chunk

_WORTH_IT = 400_000
"""Samples from which processes gain more than their start takes."""
_SAMPLE_BYTES = 200
"""What a sample takes in a file, about: it has a chain of some twenty addresses."""
_MOST = 8
PATIENCE_S = 120.0
"""A worker that takes longer to answer is ended: a chunk takes a second."""


class Workers:
    """The processes for one open file, started as soon as they are known to be worth it; they end with the block."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._stack = ExitStack()
        self._each: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def expect(self, samples: int = 0, *, size_bytes: int = 0) -> None:
        """Start, if there are as many samples as make it worth it, or bytes that may be theirs."""
        if self._each or max(samples, size_bytes // _SAMPLE_BYTES) < _WORTH_IT or not sys.executable:
            return
        count = min(len(os.sched_getaffinity(0)), _MOST)
        if count > 1:
            self._each = [self._stack.enter_context(_worker(self._file)) for _ in range(count)]

    def reducing(
        self, spaces: SpaceTable, deferred: DeferredChains, chains: ChainGatherer
    ) -> tuple[Callable[[Chunk], Callable[[], Reduced]], int]:
        """How chunks of the file are reduced, and how many may be under way; once.

        The recording's `chains` grow by those of chunks that are reduced here.
        """
        if not self._each:
            own = Reducer(self._file, spaces, deferred, chains)
            return (lambda chunk: partial(own.reduced, chunk)), 0
        from concurrent.futures import ThreadPoolExecutor

        here = Reducer(self._file, spaces, deferred)
        # Of each worker the answers come in the order of the questions.
        each = [(worker, self._stack.enter_context(ThreadPoolExecutor(1))) for worker in self._each]
        known = pickle.dumps((self._file, spaces, deferred), 5)
        for worker, thread in each:
            thread.submit(worker.begin, known)
        turns = cycle(each)

        def reduce(worker: _Worker, chunk: Chunk) -> Reduced | None:
            with suppress(OSError, EOFError, pickle.UnpicklingError):
                return worker.reduced(chunk)
            return None

        def begin(chunk: Chunk) -> Callable[[], Reduced]:
            worker, thread = next(turns)
            answer = thread.submit(reduce, worker, chunk)

            def reduced() -> Reduced:
                try:
                    return answer.result(PATIENCE_S) or here.reduced(chunk)
                except TimeoutError:
                    worker.end()
                    return here.reduced(chunk)

            return reduced

        return begin, 2 * len(self._each)


class _Worker:
    """One process, which answers a chunk with what it comes to."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from, self.end = process.stdin, process.stdout, process.kill

    def begin(self, known: bytes) -> None:
        """Tell what is known of the whole recording."""
        with suppress(OSError):
            self._to.write(known)

    def reduced(self, chunk: Chunk) -> Reduced:
        """EOFError or OSError where the process is gone."""
        pickle.dump(chunk, self._to, 5)
        self._to.flush()
        answer = pickle.load(self._from)  # noqa: S301 — from a process of ours
        assert isinstance(answer, Reduced)
        return answer


@contextmanager
def _worker(file: int) -> Iterator[_Worker]:
    """A process that ends with the block."""
    process = subprocess.Popen(
        # -P: not what lies in the current directory, where captures of others may be.
        [sys.executable, "-P", "-m", __spec__.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(file,),
        # Numpy's library for matrices would start threads that wait busily.
        env=finding_pinprof() | {"OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        yield _Worker(process)
    finally:
        process.kill()
        process.communicate()


def _serve() -> None:
    """Answer chunks from standard input until it ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    reducer = Reducer(*pickle.load(source))  # noqa: S301 — from the process that started this one
    while True:
        try:
            chunk = pickle.load(source)  # noqa: S301 — likewise
        except EOFError:
            return
        pickle.dump(reducer.reduced(chunk), target, 5)
        target.flush()


if __name__ == "__main__":
    _serve()
