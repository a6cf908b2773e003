"""A program and its recorders under way: who gets which signal, and who is waited for."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from pinprof.collect.collector import Tool, Waiter
from pinprof.collect.idle import Preparation
from pinprof.collect.program import HeldSignals, Program
from pinprof.collect.recorder import STOP_SIGNALS
from pinprof.collect.signals import wait_for

_WATCHED = (*STOP_SIGNALS, signal.SIGCHLD)

PASS_ON_AFTER_S = 0.5
"""A terminal's Ctrl-C reaches the program too; one sent by kill may have reached only pinprof: it is passed on then."""

_SENT_BY_KERNEL = 0x80
"""siginfo's si_code SI_KERNEL: the terminal sent it, to the whole foreground group (sigaction(2))."""


class Session(Waiter):
    """Waits for all processes and the user's signals in one place, so nothing interrupts anything."""

    def __init__(self, program: Program, tools: Sequence[Tool], signals: HeldSignals) -> None:
        super().__init__(tools)
        self.program = program
        self._strays = signals.strays
        self._pass_on: tuple[float, int] | None = None
        """When to send the program which signal."""

    def wait(self, timeout_s: float) -> None:
        """Wait for one event at most `timeout_s`, then note who has ended."""
        arrived = wait_for(_WATCHED, timeout_s)
        if arrived is not None and arrived.number != signal.SIGCHLD:
            self._interrupted(arrived.number, from_terminal=arrived.code == _SENT_BY_KERNEL)
        while self._strays:
            self._interrupted(self._strays.pop(0), from_terminal=False)
        # Recorders first: when one ends because the program did, the program is found to have ended as well.
        ended = [recorder for recorder in self.recorders if recorder.reap()]
        running = not self.program.reap()
        for recorder in ended:
            # One that exits with 0 has seen the program's exit before wait(2) shows it: CUDA's clean-up comes in
            # between. One that somebody's signal ended has not, even if the program has ended too by this look.
            recorder.died_first |= recorder.ended_by_others or (running and recorder.wait_status != 0)
        if self._pass_on and time.monotonic() >= self._pass_on[0]:
            self.program.send(self._pass_on[1])
            self._pass_on = None

    def until_program_ends(self, preparation: Preparation, watch: Callable[[], float] = lambda: float("inf")) -> None:
        """The program's whole run, or as much of it as is to be recorded, with what is done meanwhile."""
        while not self.program.over:
            due = min([self.program.left_s(), preparation.due_s(), watch(), *(tool.watch() for tool in self.tools)])
            self.wait(min(due, 0.1 if self._pass_on else 1.0))
            preparation.look()

    def until_over(self) -> None:
        """The same without a look at any tool."""
        while not self.program.over:
            self.wait(min(self.program.left_s(), 0.1 if self._pass_on else 1.0))

    def until_gone(self, at_most_s: float = float("inf")) -> None:
        """What of its run is not recorded, or a part of that."""
        until = time.monotonic() + at_most_s
        while self.program.wait_status is None and (left := until - time.monotonic()) > 0:
            self.wait(min(left, 0.1 if self._pass_on else 1.0))

    def finish_recorders(self, meanwhile: Callable[[Callable[[], bool]], object] = lambda _: None) -> None:
        """Ask the recorders to write what they still hold and wait; a second Ctrl-C, or their time-out, kills them.

        `meanwhile` is called in between, with what says whether any of them goes on.
        """
        for recorder in self.recorders:
            recorder.finish()
            recorder.died_first |= recorder.ended_by_others
        meanwhile(lambda: not all(recorder.reap() for recorder in self.recorders))
        patience = self.interruptions + 2
        while any(recorder.wait_status is None for recorder in self.recorders):
            self.wait(1.0)
            for recorder in self.recorders:
                had_s = recorder.had_s()
                late = had_s > recorder.finish_timeout_s
                if late or recorder.stalled(had_s) or self.interruptions >= patience:
                    recorder.send(signal.SIGKILL)

    def _interrupted(self, number: int, *, from_terminal: bool) -> None:
        """First: the program ends itself, as without pinprof. Second: it is asked to. From the third: it must."""
        self.interruptions += 1
        if self.interruptions == 1:
            self.interrupted_by = number
            if not self.program.in_foreground:
                self.program.send(number)
            elif not from_terminal:
                self._pass_on = (time.monotonic() + PASS_ON_AFTER_S, number)
        else:
            self.program.send(signal.SIGTERM if self.interruptions == 2 else signal.SIGKILL)


@contextlib.contextmanager
def signals_held() -> Iterator[HeldSignals]:
    """Hold back the watched signals for Session.wait to take, in the main thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    strays: list[int] = []
    handlers = {number: signal.signal(number, lambda caught, _: strays.append(caught)) for number in STOP_SIGNALS}
    # Ignored, it would be as if nobody ever ended: no signal, and nothing to wait for (wait(2)).
    handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ignored = tuple(number for number, handler in handlers.items() if handler is signal.SIG_IGN)
    try:
        yield HeldSignals(frozenset(signal.Signals(number) for number in before), ignored, strays)
    finally:
        # One that arrived after the last wait has had its effect: everything it could end has ended.
        while wait_for(_WATCHED, 0) is not None:
            pass
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
