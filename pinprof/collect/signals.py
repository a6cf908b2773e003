"""Signals that come later than they arrive, and waiting for some without ever taking an interrupted wait for one.

`signal.sigtimedwait` of CPython 3.11 to 3.14 returns what happened to lie in memory when SIGCONT (also the freezer of a
control group: `docker pause`) interrupts it and its time is up meanwhile: it ends its loop without a result and still
hands out the structure. So the C library's function is called here, whose return value decides.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import signal
import threading
from collections.abc import Collection, Iterator

from pinprof.base.lazy_dataclass import dataclass

_SIGSET_BYTES = _SIGINFO_BYTES = 128
"""sigset_t and siginfo_t of glibc and musl."""
_Signals, _Information = ctypes.c_char * _SIGSET_BYTES, ctypes.c_int * (_SIGINFO_BYTES // 4)
"""Types that Python would not forget at once, were they made for each wait."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    """struct timespec."""

    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


@dataclass(frozen=True)
class Arrived:
    """A signal that was taken."""

    number: int
    code: int
    """siginfo's si_code: who sent it (sigaction(2))."""


@contextlib.contextmanager
def postponed(numbers: Collection[int]) -> Iterator[None]:
    """What of the signals arrives in the block is handled when it ends, so no exception breaks it off.

    Handlers of Python only: whoever has none is ended without an exception anyway. They run in the main thread, so no
    other one is broken off. Handlers are replaced and not held back, because a signal that another thread takes is
    handled in the main one too.
    """
    arrived: list[int] = []
    numbers = numbers if threading.current_thread() is threading.main_thread() else ()
    try:
        with contextlib.ExitStack() as restored:
            for number in numbers:
                if callable(handler := signal.getsignal(number)):
                    restored.callback(signal.signal, number, handler)
                    signal.signal(number, lambda caught, _: arrived.append(caught))
            yield
    finally:
        for number in arrived:
            signal.raise_signal(number)


def wait_for(numbers: Collection[int], timeout_s: float) -> Arrived | None:
    """The first of the signals that is pending or arrives within `timeout_s`; None when none did, or earlier.

    The calling thread must hold them back. None comes early when another signal is handled or the process was stopped.
    """
    chosen, information = _Signals(), _Information()
    _LIBC.sigemptyset(chosen)
    for number in numbers:
        _LIBC.sigaddset(chosen, int(number))
    fraction, whole = math.modf(max(timeout_s, 0.0))
    taken = _LIBC.sigtimedwait(chosen, information, ctypes.byref(_Time(int(whole), int(fraction * 1e9))))
    if taken >= 0:
        return Arrived(taken, information[2])
    if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
        raise OSError(number, os.strerror(number))
    return None
