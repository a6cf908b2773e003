"""Processes that reduce chunks of a large recording, one for each processor.

They are started by name and not forked, since whoever reads may have threads, and not by multiprocessing, which runs
the user's script again. Where one can't be started or ends early, its chunks are reduced here.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path

from pinprof.read.perf.chains import ChainGatherer
from pinprof.read.perf.chunk import Reduced, Reducer
from pinprof.read.perf.deferred import DeferredChains
from pinprof.read.perf.mappings import SpaceTable
from pinprof.read.perf.samples import Chunk

_WORTH_IT = 400_000
"""Samples from which processes gain more than their start takes."""
_MOST = 8


@contextmanager
def reducing(
    file: int, spaces: SpaceTable, deferred: DeferredChains, chains: ChainGatherer, samples: int
) -> Iterator[tuple[Callable[[Chunk], Callable[[], Reduced]], int]]:
    """How chunks of an open file are reduced, and how many may be under way; `samples` is how many there are.

    The recording's `chains` grow by those of chunks that are reduced here.
    """
    count = min(len(os.sched_getaffinity(0)), _MOST) if samples >= _WORTH_IT and sys.executable else 1
    if count < 2:
        own = Reducer(file, spaces, deferred, chains)
        yield (lambda chunk: partial(own.reduced, chunk)), 0
        return
    here = Reducer(file, spaces, deferred)
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(file, spaces, deferred)) for _ in range(count)]
        # Of each worker the answers come in the order of the questions.
        turns = cycle([(worker, stack.enter_context(ThreadPoolExecutor(1))) for worker in workers])

        def reduce(worker: _Worker, chunk: Chunk) -> Reduced | None:
            with suppress(OSError, EOFError, pickle.UnpicklingError):
                return worker.reduced(chunk)
            return None

        def begin(chunk: Chunk) -> Callable[[], Reduced]:
            worker, thread = next(turns)
            answer = thread.submit(reduce, worker, chunk)
            return lambda: answer.result() or here.reduced(chunk)

        yield begin, 2 * count


class _Worker:
    """One process, which answers a chunk with what it comes to."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout

    def reduced(self, chunk: Chunk) -> Reduced:
        """EOFError or OSError where the process is gone."""
        pickle.dump(chunk, self._to, 5)
        self._to.flush()
        answer = pickle.load(self._from)  # noqa: S301 — from a process of ours
        assert isinstance(answer, Reduced)
        return answer


@contextmanager
def _worker(file: int, spaces: SpaceTable, deferred: DeferredChains) -> Iterator[_Worker]:
    """A process that ends with the block."""
    package = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        # -P: not what lies in the current directory, where captures of others may be.
        [sys.executable, "-P", "-m", __spec__.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(file,),
        # Numpy's library for matrices would start threads that wait busily.
        env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        worker = _Worker(process)
        with suppress(OSError):
            pickle.dump((file, spaces, deferred), worker._to, 5)
        yield worker
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
