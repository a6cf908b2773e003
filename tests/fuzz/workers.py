"""Processes that run inputs: an input costs milliseconds, and none can hang, fill the memory or kill what runs it.

Worker W of N runs the inputs W, W + N, W + 2 N, … of a round. Where one dies or hangs, the input it was at has failed,
and another goes on behind it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import json
import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import NoReturn

import numpy as np

from pinprof.read.perf import stream
from tests.fuzz import keep
from tests.fuzz.check import Known, Thorough
from tests.fuzz.seeds import Files, write
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.undamaged import Undamaged

MOST_SECONDS = 10
"""Of CPU time: a busy machine makes no input slow."""
MOST_BYTES = 2 << 30
"""Beyond what the process has before its first input."""
_HUNG_SECONDS = 300
_MEMORY = Path("/dev/shm")
_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: a worker ends with the process that started it."""
_COLLECTED = 50
"""Inputs between two looks for garbage, of which each leaves little."""
_EXAMPLES = 2
"""Inputs of one failure that are stored."""

RUN, READ, FAILED = range(3)


class TooLong(BaseException):
    """An input took more than MOST_SECONDS; no reader catches it."""


@dataclass(frozen=True)
class Round:
    """Inputs first … last - 1 of a seed, of some targets."""

    seed: int
    first: int
    last: int
    targets: Sequence[Target]
    folder: Path
    """Where inputs that fail are written, and failures.jsonl."""
    known: Known
    undamaged: Undamaged
    workers: int = 2

    def run(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Per target of TARGETS the inputs that were run, that were read, and that failed."""
        shape = (self.workers, len(TARGETS) + 1, 3)
        shared = np.frombuffer(mmap.mmap(-1, int(np.prod(shape)) * 8), np.int64).reshape(shape)
        running = {self._fork(shared[worker], self.first + worker): worker for worker in range(self.workers)}
        # A worker's last row: the number of its input, and when that began in ms.
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid and status:
                worker = running.pop(pid)
                number = int(shared[worker, -1, 0])
                self._died(shared[worker], number, os.waitstatus_to_exitcode(status))
                running[self._fork(shared[worker], number + self.workers)] = worker
            elif pid:
                running.pop(pid)
            else:
                for pid, worker in running.items():
                    if time.monotonic_ns() // 1_000_000 - shared[worker, -1, 1] > 1000 * _HUNG_SECONDS:
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)
        return np.asarray(shared[:, :-1].sum(axis=0))

    def _fork(self, counts: np.ndarray[tuple[int, int], np.dtype[np.int64]], begin: int) -> int:
        counts[-1, :2] = begin, time.monotonic_ns() // 1_000_000
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            self._work(counts, begin)
        return pid

    def _work(self, counts: np.ndarray[tuple[int, int], np.dtype[np.int64]], begin: int) -> NoReturn:
        """Run every N-th input from `begin` on, and end the process."""
        status = 3
        folder = Path(tempfile.mkdtemp(prefix="pinprof-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
            _limit()
            # Inputs that read alike have one path in every process.
            os.chdir(folder)
            place = Place(Path(), self.undamaged)
            for number in range(begin, self.last, self.workers):
                if number // self.workers % _COLLECTED == 0:
                    gc.collect()
                counts[-1, :2] = number, time.monotonic_ns() // 1_000_000
                random = Random(f"{self.seed}:{number}")
                target, seed, damage = chosen(random, self.targets)
                row = counts[TARGETS.index(target)]
                row[RUN] += 1
                try:
                    row[READ] += one(target, place.written(target, seed, damage), random, self.known)
                except Exception as error:
                    row[FAILED] += 1
                    self._failed(number, target, seed, damage, error)
                except TooLong as error:
                    row[FAILED] += 1
                    self._failed(number, target, seed, damage, error)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            sys.stderr.flush()
            os._exit(status)

    def _died(self, counts: np.ndarray[tuple[int, int], np.dtype[np.int64]], number: int, code: int) -> None:
        """Count and store the input that ended a worker."""
        target, seed, damage = chosen(Random(f"{self.seed}:{number}"), self.targets)
        counts[TARGETS.index(target), FAILED] += 1
        self._failed(number, target, seed, damage, RuntimeError(f"the process ended with {code}"))

    def _failed(self, number: int, target: Target, seed: int, damage: Files, error: BaseException) -> None:
        where, words = signature(error)
        digest = hashlib.sha256(f"{target.name} {where}".encode()).hexdigest()[:10]
        stored = list((self.folder / target.name).glob(f"{digest}*"))
        if len(stored) < _EXAMPLES:
            place = keep.save(damage, self.folder, target, seed, f"{digest}-{number}")
            line = {"target": target.name, "input": number, "where": where, "error": words, "file": str(place)}
            with (self.folder / "failures.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")


class Place:
    """Inputs as files: those of a seed are written once, and only what was damaged is written again."""

    def __init__(self, folder: Path, undamaged: Undamaged | None = None) -> None:
        self._folder = folder
        self._changed: dict[Path, Files] = {}
        self._undamaged = undamaged or Undamaged()

    def written(self, target: Target, seed: int, damage: Files) -> Path:
        """The path to read."""
        files = target.seeds[seed]
        folder = self._folder / str(TARGETS.index(target)) / str(seed)
        back = self._changed.get(folder, files)
        self._changed[folder] = {name: files[name] for name in damage}
        self._undamaged.note(folder, files, damage)
        folder.mkdir(parents=True, exist_ok=True)
        path = write({**back, **damage}, folder)
        return folder / next(iter(files)).split("/")[0] if path else path


def chosen(random: Random, targets: Sequence[Target]) -> tuple[Target, int, Files]:
    """The target, the number of the seed and the damaged files of an input."""
    (target,) = random.choices(targets, [target.weight for target in targets])
    seed = target.chosen(random)
    return target, seed, target.damaged(random, target.seeds[seed])


def one(target: Target, path: Path, random: Random, known: Known) -> bool:
    """Check one input within its time."""
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        return target.check(path, Thorough.drawn(random), known)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def signature(error: BaseException) -> tuple[str, str]:
    """(type, function and line of pinprof's that raised it): failures alike in it have one cause; and its words."""
    frames = [entry for entry in traceback.extract_tb(error.__traceback__) if "/pinprof/" in entry.filename]
    last = frames[-1] if frames else None
    where = f"{Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno} {last.name}" if last else ""
    return f"{type(error).__name__} {where}", str(error)[:300]


def warm(targets: Sequence[Target], folder: Path) -> Undamaged:
    """Make and read the seeds, and use every module, so that no process does it again: those of a round are forked
    from here. `test_every_seed_is_read` writes what is made of each.
    """
    import pyarrow as pa

    # Its threads share two processors with the other workers, and small files are read faster by one.
    pa.set_cpu_count(1)
    undamaged = Undamaged()
    undamaged.install()
    place, used = Place(Path(), undamaged), False
    with contextlib.chdir(folder):
        for target in targets:
            for seed in range(len(target.seeds)):
                thorough = Thorough(*(not used,) * 4)
                used = target.check(place.written(target, seed, {}), thorough, Known())
    gc.collect()
    gc.freeze()
    return undamaged


def _limit() -> None:
    """End an input that takes too long or too much memory with an exception."""
    signal.signal(signal.SIGPROF, _too_long)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_BYTES,) * 2)
    os.environ["XDG_DATA_HOME"] = "/nonexistent"
    gc.disable()
    # The first touch of a buffer of 4 MiB takes longer than all else that is done with an input.
    stream.CHUNK_BYTES = 1 << 17


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise TooLong(f"more than {MOST_SECONDS} s")
