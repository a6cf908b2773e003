"""`python -m pinprof.collect.native ORDERS`: the collector's process (sampler.py)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pinprof.collect.native import tracefs
from pinprof.collect.native.call_cost import EmptyFunction
from pinprof.collect.native.events import CALL_ENTER, CALL_LEAVE, call_events
from pinprof.collect.native.sampler import SAID, STOP_SIGNALS, Orders, Refused, Sampler


def main(orders: Path) -> int:
    """Record until told to end; the exit status, an errno when writing failed. Signals end it as they end perf."""
    stopped: list[int] = []
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda caught, _: stopped.append(caught))
    with contextlib.ExitStack() as probes:
        status = _record(orders, stopped, wake, probes)
    if stopped and not status:
        signal.signal(stopped[0], signal.SIG_DFL)
        os.kill(os.getpid(), stopped[0])
    return status


def _record(place: Path, stopped: list[int], wake: int, probes: contextlib.ExitStack) -> int:
    """From orders to the finished file; probes are removed when `probes` closes, after the events that use them."""
    try:
        orders = Orders.load(place)
        empty = None
        if orders.probes:
            empty = _empty_function(orders.unwinding)
            sites = (*orders.probes, empty.site) if empty else orders.probes
            tracepoints = probes.enter_context(tracefs.probes(sites))
            orders = replace(orders, events=(*call_events(tracepoints), *orders.events))
        sampler = Sampler(orders)
    except Refused as error:
        _say(refused=error.what, errno=error.number)
        return 1
    except OSError as error:
        _say(failed=error.strerror or str(error), errno=error.errno)
        return 1
    try:
        sampler.run(wake, stopped)
        said = sampler.finish()
        if empty and sampler.happened(CALL_ENTER):
            said |= _overhead(empty, sampler)
        _say(**said)
    except OSError as error:
        _say(failed=error.strerror or str(error), errno=error.errno)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG):
            sampler.save_what_is_written()
        return error.errno or 1
    finally:
        sampler.close()
    return 0


def _empty_function(library: str) -> EmptyFunction | None:
    """What the cost of probes is measured with, where that can be had."""
    try:
        return EmptyFunction(library) if library else None
    except (OSError, LookupError):
        return None


def _overhead(empty: EmptyFunction, sampler: Sampler) -> dict[str, Any]:
    """`call_overhead_ns`, where it can be measured: the recording is whole without."""
    try:
        found = empty.overhead([sampler.spec(name) for name in (CALL_ENTER, CALL_LEAVE)])
    except OSError:
        found = None
    return {"call_overhead_ns": found} if found else {}


def _say(**facts: Any) -> None:
    with contextlib.suppress(OSError):  # the log may lie on the disk that is full
        os.write(2, f"{SAID}{json.dumps(facts)}\n".encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
