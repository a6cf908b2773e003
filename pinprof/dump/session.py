"""The steps of a dump: see for a moment who runs, look at everything, say what it means.

first      a look at all threads, to see who runs
watch      samples of those that do, for WATCHED_S; repeatedly Python's stacks, and a copy of the stack of each
           thread that does not run then and goes on like that meanwhile
explain    stacks become frames and causes, waits get their words (explain.py)
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from pinprof.base.errors import CollectError
from pinprof.collect import permission
from pinprof.collect.attach import command_of
from pinprof.collect.proc import alive, tree
from pinprof.collect.python_frames.interpreter import SegmentTables
from pinprof.collect.python_frames.memory import Gone
from pinprof.dump import explain, system, waits, watched
from pinprof.dump.chains import ChainCompleter, RunningThreads, ThreadSample
from pinprof.dump.results import Dump
from pinprof.dump.seen import SeenStack
from pinprof.dump.system import ThreadLook
from pinprof.dump.watched import WatchedProcess
from pinprof.machine.whereabouts import here

FIRST_S, WATCHED_S, _ROUND_S = 0.02, 0.1, 0.01
"""How long it is watched who runs; how long those are sampled; between two looks."""
MOST_PROCESSES, MOST_SAMPLED = 64, 64


def dump(pid: int) -> Dump:
    """What every thread of a process and of its descendants does now; CollectError where there is no such process."""
    command_of(pid)
    return _DumpSession(pid).run()


class _DumpSession:
    def __init__(self, pid: int) -> None:
        present = [one for one in tree(pid) if one != os.getpid()]
        self._notes: list[str] = []
        if len(present) > MOST_PROCESSES:
            self._notes.append(f"{len(present) - MOST_PROCESSES} of {len(present)} processes are left out.")
        self._tables = SegmentTables()
        self._processes = [one for each in present[:MOST_PROCESSES] if (one := watched.begin(each))]
        self._notes += [problem for one in self._processes for problem in one.problems]
        if not self._processes:
            raise CollectError(f"Process {pid} has ended.", "Give the PID of a running program, as ps shows it.", "pid")

    def run(self) -> Dump:
        began = time.monotonic_ns()
        for process in self._processes:
            process.look_at_python(self._tables)
        time.sleep(FIRST_S)
        running = self._sampling(self._busiest())
        completer = ChainCompleter([one.pid for one in self._processes], running.events if running else ())
        try:
            until = time.monotonic() + WATCHED_S
            while time.monotonic() < until:
                time.sleep(_ROUND_S)
                for process in self._processes:
                    self._look(process, completer)
                if running:
                    running.drain()
        finally:
            if running:
                running.close()
        for process in self._processes:
            process.look_at_python(self._tables)
            process.end()
            if not process.places:
                self._unreadable(process.pid)
        ended = time.monotonic_ns()
        samples = completer.samples(running.records) if running else []
        processes = explain.explained(self._processes, samples, self._tables)
        return Dump(processes, ended - began, tuple(dict.fromkeys(self._notes)))

    def _busiest(self) -> list[int]:
        """The threads that have run most since the first look, then those that have run most before."""
        used: dict[int, tuple[int, int]] = {}
        for process in self._processes:
            for tid, before in process.first.items():
                now = system.look(process.pid, tid)
                if now:
                    used[tid] = now.cpu_ns - before.cpu_ns, now.cpu_ns
        return sorted(used, key=lambda tid: used[tid], reverse=True)[:MOST_SAMPLED]

    def _sampling(self, tids: Sequence[int]) -> RunningThreads | None:
        """What samples them, the kernel's part too where that is permitted; None where nothing is."""
        pid = self._processes[0].pid
        why = _refused(pid, kernel=True)
        if why and (not_even := _refused(pid, kernel=False)):
            self._notes.append(f"Threads that run have no native stacks. {not_even}")
            return None
        if why:
            self._notes.append(f"What the kernel does for threads that run is not seen. {why}")
        try:
            return RunningThreads(tids, kernel=not why)
        except OSError as error:
            self._notes.append(f"Threads that run have no native stacks: perf_event_open: {error.strerror}.")
            return None

    def _look(self, process: WatchedProcess, completer: ChainCompleter) -> None:
        """The Python stacks of a process, and the whole ones of its threads that wait now and were not seen to."""
        process.look_at_python(self._tables)
        for tid in process.unsettled():
            look = system.look(process.pid, tid)
            if look is None or not look.call:
                continue
            stack = self._copied(process, look, completer)
            again = system.look(process.pid, tid)
            if again and again.stands_as(look):
                process.stood(look, stack)

    def _unreadable(self, pid: int) -> None:
        if not alive(pid):
            return
        why, remedy = permission.forbidden(), permission.allow()
        if not why:
            why, remedy = "it belongs to another user or has more privileges", permission.others()
        self._notes.append(f"Stacks and waits of process {pid} are not readable: {why}. {remedy}")

    def _copied(self, process: WatchedProcess, look: ThreadLook, completer: ChainCompleter) -> SeenStack:
        pid, tid = process.pid, look.tid
        now = time.monotonic_ns()
        try:
            sample = completer.copied(pid, tid, now, look.call[-2:], process.places)
        except Gone:
            self._unreadable(pid)
            sample = ThreadSample(pid, tid, now, 0, ())
        sleeps_in = system.wchan(pid, tid)
        try:
            kernel = system.kernel_stack(pid, tid, sleeps_in)
        except OSError as error:
            kernel = []
            if isinstance(error, PermissionError):
                self._notes.append(f"Stacks show one or two functions of the kernel. {here().flags('SYS_ADMIN')}")
        if not kernel:
            # What it called, and where in the kernel it sleeps, tell the cause as well.
            kernel = system.with_lock([(name, "") for name in (sleeps_in, look.kernel_function) if name])
        return SeenStack(sample, waits=True, look=look, noted=waits.noted(pid, look), kernel=tuple(kernel))


def _refused(pid: int, *, kernel: bool) -> str:
    """Why a process may not be sampled, and what permits it; empty where it may."""
    try:
        permission.require_process(pid, kernel=kernel)
    except CollectError as error:
        return str(error)
    number = permission.sampling_errno(kernel=kernel, of=pid)
    return str(permission.refusal(number, system_wide=False, user=not kernel)) if number else ""
