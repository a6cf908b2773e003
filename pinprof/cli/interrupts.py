"""SIGTERM and SIGHUP end a command as Ctrl-C does: what it began is tidied up, and the exit status names the signal."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Ended(KeyboardInterrupt):
    """A class of our own: CPython ends by SIGINT after a plain one that went through `exec`, although it was caught."""


@contextlib.contextmanager
def as_exceptions() -> Iterator[None]:
    """Raise KeyboardInterrupt, with the signal's number, wherever the block is; a signal that is ignored stays so."""
    owner = os.getpid()
    arrived: list[int] = []

    def caught(number: int, _: FrameType | None) -> None:
        if os.getpid() != owner:
            # A forked child ends as it would without us.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        arrived.append(number)
        raise _Ended(number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    ours = [number for number in _ENDING if before[number] in (signal.SIG_DFL, signal.default_int_handler)]
    for number in ours:
        signal.signal(number, caught)
    try:
        yield
    except Exception as error:
        if arrived:  # import turns an exception from within it into others
            raise _Ended(arrived[0]) from error
        raise
    finally:
        for number in ours:
            signal.signal(number, before[number])


@contextlib.contextmanager
def keeping(what: str) -> Iterator[None]:
    """Where a signal ends the block, the command says this of what is kept."""
    try:
        yield
    except BaseException as error:  # a library may have made another one of the signal's
        error.add_note(what)
        raise


def said(error: BaseException) -> str:
    """That a signal ended the command, and what is kept."""
    noted: list[str] = []
    raised: BaseException | None = error
    while raised is not None:
        noted += getattr(raised, "__notes__", ())
        raised = raised.__cause__
    return " ".join(("pinprof: stopped.", *(noted or ["Nothing was written."])))


def exit_status(error: BaseException) -> int:
    """As a shell reports the signal behind a KeyboardInterrupt, or behind what was raised from one."""
    for raised in (error, error.__cause__):
        if isinstance(raised, KeyboardInterrupt) and raised.args:
            return 128 + int(raised.args[0])
    return 128 + signal.SIGINT
