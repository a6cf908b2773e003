"""Runs py-spy beside the program and keeps what it sees: the process that `py_spy.PySpy` starts.

usage: python -m pinprof.collect.py_spy_keeper PY_SPY PID RATE OUTPUT < LIFELINE

The program may be Python, become Python, or start it later, so py-spy begins when a process of the program runs an
interpreter, and again when that has ended. py-spy holds its trace in memory, which grows; so one follows another,
with an overlap, and each trace becomes a gzip member of OUTPUT (a line of JSON) as soon as it is written. SIGINT or the
end of the lifeline ask for the last one.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from pinprof.base import files
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect import clocks
from pinprof.collect.proc import alive, contents, tree
from pinprof.collect.py_spy_trace import segment

SEGMENT_S = 60.0
OVERLAP_S = 2.0
"""For py-spy to find the interpreter and begin."""
LOOK_S = 0.02
"""Between two looks for an interpreter, at first; each look doubles it, up to LOOK_SELDOM_S."""
LOOK_SELDOM_S = 1.0
TRIES = 10
"""py-spy may come too early or too late for a process; so often in a row does not happen by accident."""
FINISH_S = 30.0

_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z ")
_LOOKS = re.compile(rb"Samples: (\d+)")
_NAMED = re.compile(r"(python|pypy)[\d.]*t?d?|uwsgi")
_CLOCK_GUESS_NS = 20_000_000
"""Within which py-spy starts, where its log does not say."""
_CLOCK_READ_NS = 1_000_000
"""Between the first line of its log and the start of its trace's clock."""
_SLEWED_NS = 50_000_000
"""By which a system clock that nobody sets may run ahead or behind while py-spy is at work."""


class GaveUp(Exception):
    """py-spy cannot do its work here; the text says why."""


@dataclass
class Spy:
    """One py-spy at work."""

    process: subprocess.Popen[bytes]
    folder: Path
    started_ns: int
    utc_offset_ns: int

    @classmethod
    def start(cls, py_spy: str, pid: int, rate: int, folder: Path) -> Spy:
        """Begin to sample a process and all its children."""
        folder.mkdir(files.PRIVATE_FOLDER)
        options = ["--format", "chrometrace", "--rate", str(rate), "--nonblocking", "--subprocesses", "--idle"]
        options += ["--full-filenames", "--threads", "--output", str(folder / "trace")]
        with os.fdopen(files.create(folder / "log"), "wb") as log:
            started = time.monotonic_ns()
            process = subprocess.Popen(
                [py_spy, "record", "--pid", str(pid), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "RUST_LOG": "info", "RUST_LOG_STYLE": "never"},
            )
        return cls(process, folder, started, clocks.utc_offset_ns())

    def clock(self) -> tuple[int, int]:
        """Where the trace's time begins on CLOCK_MONOTONIC, and how far that may be off."""
        if stamp := _STAMP.search(self._log()):
            seconds = datetime.fromisoformat(stamp[1].decode()).replace(tzinfo=UTC).timestamp()
            begun = int(seconds) * 10**9 + int(stamp[2]) - self.utc_offset_ns
            now_ns = time.monotonic_ns()
            # Otherwise the system clock was set meanwhile. On a busy machine py-spy may begin seconds late.
            was_set = abs(time.time_ns() - now_ns - self.utc_offset_ns) > _SLEWED_NS
            if not was_set and self.started_ns <= begun <= now_ns:
                return begun, _CLOCK_READ_NS
        return self.started_ns, _CLOCK_GUESS_NS

    def complaint(self) -> str:
        """Its last words."""
        lines = [re.sub(r"[^ -~]", "", line) for line in self._log().decode("utf-8", "replace").splitlines()]
        complaints = [line.strip() for line in lines if line.strip() and not line.startswith(("[", " ", "}"))]
        return "; ".join(dict.fromkeys(complaints))[:300]

    def harvest(self, output: Path, rate: int) -> bool:
        """Add what it has written to the output, if it has."""
        try:
            text = (self.folder / "trace").read_text("utf-8", "replace")
        except OSError:
            return False
        counts = _LOOKS.findall(self._log())
        looks = int(counts[-1]) if counts else 0
        made = segment(text, *self.clock(), 10**9 // rate, looks)
        with os.fdopen(files.append(output), "ab") as stream:
            stream.write(gzip.compress(json.dumps(made, separators=(",", ":")).encode() + b"\n", 6, mtime=0))
        (self.folder / "trace").unlink()
        return True

    def _log(self) -> bytes:
        return (self.folder / "log").read_bytes()


class Keeper:
    """The whole run: one py-spy after another."""

    def __init__(self, py_spy: str, pid: int, rate: int, output: Path, folder: Path) -> None:
        self.py_spy, self.pid, self.rate, self.output, self.folder = py_spy, pid, rate, output, folder
        self.stopping = False
        self._count = self._failures = 0

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Finish soon."""
        self.stopping = True

    def run(self) -> None:
        """Until the program has ended, or a signal asks to stop; GaveUp when py-spy cannot work."""
        pause = LOOK_S
        while not self._over():
            if has_interpreter(self.pid):
                self._sample()
                pause = LOOK_S
            self._pause(pause)
            pause = min(2 * pause, LOOK_SELDOM_S)

    def _sample(self) -> None:
        """From now until no interpreter is left."""
        spy: Spy | None = self._spy()
        while spy is not None:
            until = time.monotonic() + SEGMENT_S
            while spy.process.poll() is None and not self._over() and time.monotonic() < until:
                self._pause(0.05)
            following = None
            if spy.process.poll() is None and not self._over():
                following = self._spy()
                self._pause(OVERLAP_S)
            self._finish(spy)
            spy = following

    def _spy(self) -> Spy:
        self._count += 1
        return Spy.start(self.py_spy, self.pid, self.rate, self.folder / str(self._count))

    def _finish(self, spy: Spy) -> None:
        if spy.process.poll() is None:
            # It ends by itself soon after the last interpreter.
            if not alive(self.pid):
                _wait(spy.process, 0.5)
            spy.process.send_signal(signal.SIGINT)
            if not _wait(spy.process, FINISH_S):
                spy.process.kill()
                spy.process.wait()
        status = spy.process.returncode
        if spy.harvest(self.output, self.rate):
            self._failures = 0
            return
        complaint = spy.complaint()
        self._failures += 1
        if not alive(self.pid) or self.stopping:
            return
        if status < 0:
            raise GaveUp(f"it was ended by {signal.Signals(-status).name}")
        if "ermission" in complaint or self._failures >= TRIES:
            raise GaveUp(complaint or f"it ended with status {status}")

    def _over(self) -> bool:
        return self.stopping or not alive(self.pid)

    def _pause(self, seconds: float) -> None:
        """Wait, but no longer than the lifeline holds."""
        until = time.monotonic() + seconds
        while not self._over() and (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([0], [], [], min(left, 0.05))
            if ready and not os.read(0, 64):
                self.stop()


def has_interpreter(pid: int) -> bool:
    """Whether a process or one of its descendants runs Python.

    Not before it is the program itself: until then it is a copy of pinprof, our parent, and a Python of its own.
    """
    if contents(f"/proc/{pid}/cmdline") == contents(f"/proc/{os.getppid()}/cmdline"):
        return False
    for process in tree(pid):
        try:
            name = Path(f"/proc/{process}/exe").readlink().name
        except OSError:
            continue
        if _NAMED.fullmatch(name) or b"/libpython" in contents(f"/proc/{process}/maps"):
            return True
    return False


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Whether it ends in time."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def main() -> int:
    """0 when everything was kept that py-spy saw."""
    py_spy, pid, rate, output = sys.argv[1:]
    with files.temporary_folder() as folder:
        keeper = Keeper(py_spy, int(pid), int(rate), Path(output), folder)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, keeper.stop)
        try:
            keeper.run()
        except GaveUp as reason:
            print(f"py-spy: {reason}", flush=True)
            return 1
        except OSError as error:
            print(f"py-spy: {error.strerror}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
