"""Stacks of threads that begin to wait in a pause of sampling, copied from outside while they wait.

In a pause no stack is taken when a thread leaves its processor (switching.py). Whoever stays away for long is seen not
to have run between two looks, and /proc says where its stack begins. The copy becomes a sample of switches, which is
completed as all are; reading finds the wait that it lies in (`read/perf/pauses.py`).

The kernel's part of the stack is the function of its system call.

Source: proc(5), /proc/PID/task/TID/syscall; fs/proc/base.c (proc_pid_schedstat).
"""

from __future__ import annotations

import contextlib
import platform
import re
import threading
import time
from pathlib import Path

from pinprof.collect.native import existing, unwinding
from pinprof.collect.native.events import EventSpec
from pinprof.collect.proc import contents, threads
from pinprof.collect.python_frames.memory import Gone, gather
from pinprof.data.system_calls import kernel_functions

EACH_NS = 50_000_000
"""Between two looks."""
LINGERS_NS = 200_000_000
"""How long looks go on behind a pause: for waits that begin at its end."""
_COPIED = 16 << 10
"""How much of a stack is copied."""
_SYMBOLS = Path("/proc/kallsyms")
_PIECE = 1 << 16
_ENTRY = re.compile(rb"^([0-9a-f]+) [tT] (\w*sys_\w+)$", re.MULTILINE)


class Standing:
    """The threads of a program and its processes, as they are seen at looks."""

    def __init__(self, spec: EventSpec, number: int, pid: int) -> None:
        """`spec` is the event of switches as it was opened, `number` one of its ids."""
        self._spec, self._number, self._pid = spec, number, pid
        self._ran: dict[int, bytes] = {}
        """What the kernel said at the last look of how long each thread has run."""
        self._copied: dict[int, bytes] = {}
        """The same of threads whose stack was copied, at that time."""
        self._looked_ns = 0
        self._entries: dict[int, int] = {}
        """Where the kernel's functions for system calls are; found beside the first looks, since that takes a while."""

    def look(self) -> bytes:
        """Samples of those that have not run since the last look; empty unless it is time for one."""
        now = time.monotonic_ns()
        if now - self._looked_ns < EACH_NS:
            return b""
        if not self._looked_ns:
            threading.Thread(target=_note_entries, args=[self._entries], daemon=True).start()
        self._looked_ns = now
        before, self._ran = self._ran, {}
        records = []
        for pid in existing.descendants(self._pid):
            for tid in threads(pid):
                ran = self._ran[tid] = contents(f"/proc/{pid}/task/{tid}/schedstat")
                if ran and ran == before.get(tid) and ran != self._copied.get(tid):
                    self._copied[tid] = ran
                    records.append(self._sample(pid, tid))
        self._copied = {tid: ran for tid, ran in self._copied.items() if tid in self._ran}
        return b"".join(records)

    def _sample(self, pid: int, tid: int) -> bytes:
        """A thread's stack as it is now; empty where the thread runs, or may not be looked at."""
        call = contents(f"/proc/{pid}/task/{tid}/syscall").split()
        if len(call) < 3:
            return b""
        number, stack, instruction = (int(word, 0) for word in (call[0], *call[-2:]))
        try:
            held = gather(pid, [(stack, _COPIED)])
        except Gone:
            return b""
        held = held[: len(held) // 8 * 8]
        place = 0, stack, instruction
        thread, now = (pid, tid), time.monotonic_ns()
        kernel = self._entries.get(number, 0)
        return unwinding.copied_sample(self._spec, self._number, thread, now, place, held, kernel)


def _note_entries(found: dict[int, int]) -> None:
    """Put in where the kernel has its functions for system calls, by number; nothing where it hides its addresses."""
    names = {name.encode(): number for number, name in kernel_functions(platform.machine()).items()}
    rest = b""
    with contextlib.suppress(OSError), _SYMBOLS.open("rb", buffering=0) as symbols:
        while piece := symbols.read(_PIECE):
            whole, _, rest = (rest + piece).rpartition(b"\n")
            found.update((names[name], int(address, 16)) for address, name in _ENTRY.findall(whole) if name in names)
