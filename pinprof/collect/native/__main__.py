"""`python -m pinprof.collect.native ORDERS`: the collector's process (sampler.py)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinprof.collect.native import tracefs
from pinprof.collect.native.events import call_events, wakeups
from pinprof.collect.native.opened import EventRefused
from pinprof.collect.native.sampler import SAID, STOP_SIGNALS, Orders, Sampler
from pinprof.collect.native.wakeups import SCHED_WAKING, Wakeups


def main(arguments: Sequence[str]) -> int:
    """Record until told to end; the exit status, an errno when writing failed. Signals end it as they end perf."""
    orders = Path(arguments[0])
    stopped: list[int] = []
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda caught, _: stopped.append(caught))
    with contextlib.ExitStack() as definitions:
        status = _record(orders, stopped, wake, definitions)
    if stopped and not status:
        signal.signal(stopped[0], signal.SIG_DFL)
        os.kill(os.getpid(), stopped[0])
    return status


def _record(place: Path, stopped: list[int], wake: int, definitions: contextlib.ExitStack) -> int:
    """From orders to the finished file; every event is closed when this returns, before `definitions` are removed."""
    with contextlib.ExitStack() as held:
        try:
            orders = Orders.load(place)
            if orders.probes:
                points = definitions.enter_context(tracefs.probes(orders.probes))
                # The rings belong to the first event, which must stay open: calls come behind it.
                orders = replace(orders, events=(*orders.events, *call_events(points)))
            orders, governor = _with_wakeups(orders)
            sampler = Sampler(orders, governor)
            held.callback(sampler.close)
        except EventRefused as error:
            _say(refused=error.what, errno=error.number)
            return 1
        except OSError as error:
            _say(failed=error.strerror or str(error), errno=error.errno)
            return 1
        try:
            sampler.run(wake, stopped)
            _say(**sampler.finish())
        except OSError as error:
            _say(failed=error.strerror or str(error), errno=error.errno)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG):
                sampler.save_what_is_written()
            return error.errno or 1
    return 0


def _with_wakeups(orders: Orders) -> tuple[Orders, Wakeups | None]:
    """The orders with the event of wake-ups, and what governs it; without where it is not wanted, or not allowed."""
    point = tracefs.tracepoint(SCHED_WAKING) if orders.wakeups else None
    if point is None:
        return orders, None
    return replace(orders, events=(*orders.events, wakeups(point))), Wakeups()


def _say(**facts: Any) -> None:
    with contextlib.suppress(OSError):  # the log may lie on the disk that is full
        os.write(2, f"{SAID}{json.dumps(facts)}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
