"""A worker seen from outside: started, asked job by job, ended in any case."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from pinprof.base.errors import ScenarioError

_SILENCE_S = 180.0
"""The longest that one job may take: 4 GiB pinned several times on a slow machine is a matter of seconds."""
_END_S = 20.0
_LAST_WORDS = 400


class Worker:
    """One process of `pinprof.bench.worker`; a context manager that leaves no process behind."""

    def __init__(self, backend: str, device: int) -> None:
        # The first answer shows whether the process came up; its standard error is for the case that it did not.
        self._errors = os.memfd_create("pinprof-bench", os.MFD_CLOEXEC)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pinprof.bench.worker", f"--backend={backend}", f"--device={device}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if error is None:
                # It ends with its input, and frees what it holds.
                self._process.stdin.close()
                self._process.wait(_END_S)
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
            if not self._process.stdin.closed:
                self._process.stdin.close()
            os.close(self._errors)

    def facts(self) -> dict[str, Any]:
        """What the process found; its first answer."""
        facts: dict[str, Any] = self._answer("start")["facts"]
        return facts

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer to a job: `run`, or `left_out`; ScenarioError for what ends the measurement."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            # It is gone; what it said last comes first.
            pass
        return self._answer(job["name"])

    def _answer(self, doing: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._line(doing))
        if "error" in answer:
            error = answer["error"]
            problem = error["problem"] if doing == "start" else f"{doing}: {error['problem']}"
            raise ScenarioError(problem, error["remedy"], error["slug"])
        return answer

    def _line(self, doing: str) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not ready.select(_SILENCE_S):
                    raise self._lost(f"did not answer in {_SILENCE_S:.0f} s", doing)
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise self._lost(f"ended with status {self._process.wait()}", doing)
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _lost(self, how: str, doing: str) -> ScenarioError:
        size = os.fstat(self._errors).st_size
        last = os.pread(self._errors, _LAST_WORDS, max(0, size - _LAST_WORDS)).decode("utf-8", "replace")
        words = " ".join(last.split()) or "nothing"
        return ScenarioError(
            f"The measuring process {how} during {doing!r}. Its last message is: {words}.",
            "Check `dmesg` for messages of the kernel or the GPU driver, or choose other measures with --only.",
            "bench-worker",
        )
