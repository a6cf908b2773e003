"""What a traced call costs on this machine: measured in the collector, with a function that does nothing.

The function is probed like CUDA's, at the same two tracepoints, and calls of it are recorded with the same events, of
this process alone, into a ring that is thrown away. What a call's own interval holds of the probes' time is the time
between the records of an empty call; what the program loses is the whole slowdown of such a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from pinprof.collect.native import perf_event
from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.ring import Ring, share
from pinprof.collect.native.tracefs import ProbeSite
from pinprof.data import perf_format as perf

_CALLS, _ROUNDS = 40, 25
"""Programs that call often have everything in the caches: the best rounds are those that count."""
_RING_BYTES = 512 << 10
"""Room for one round's records, with their copies of the stack."""
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) ")
_TIME = 32
"""`{ header; u64 identifier; u64 ip; u32 pid, tid; u64 time; … }` (events.IDENTITY)."""


class EmptyFunction:
    """The function, and how to call it many times."""

    def __init__(self, library: str) -> None:
        """From the library that completes stacks; OSError or LookupError where it has no such function.

        It must not be probed yet: how long an untraced call takes is measured here.
        """
        loaded = ctypes.CDLL(library)
        try:
            address = ctypes.cast(loaded.pinprof_unwind_nothing, ctypes.c_void_p).value or 0
            self._call = loaded.pinprof_unwind_call_nothing
        except AttributeError as error:
            raise LookupError(str(error)) from error
        self.site = ProbeSite(str(Path(library).resolve()), _offset(address))
        self._untraced = min(self._took() for _ in range(_ROUNDS))

    def overhead(self, specs: Sequence[EventSpec]) -> dict[str, int] | None:
        """`inside` and `around` in ns, traced by the events for entering and leaving; None where that is unknown.

        OSError when the events cannot be opened.
        """
        with contextlib.ExitStack() as opened:
            files = []
            for spec in specs:
                # A ring of an event on no particular CPU cannot be inherited.
                attr = spec.having(flags=spec.attr.flags & ~perf_event.INHERIT).attr
                files.append(perf_event.open_event(attr, os.getpid(), -1))
                opened.callback(os.close, files[-1])
            ring = Ring(files[0], _RING_BYTES)
            opened.callback(ring.close)
            share(files, ring)
            enter, leave = map(perf_event.event_id, files)
            for file in files:
                perf_event.enable(file)
            rounds: list[int] = []
            inside: list[float] = []
            for _ in range(_ROUNDS):
                rounds.append(self._took())
                if found := _intervals(b"".join(ring.pending()), enter, leave):
                    inside.append(sorted(found)[len(found) // 2])
                ring.release()
        if not inside:
            return None
        return {
            "inside": round(min(inside)),
            "around": max(round((min(rounds) - self._untraced) / _CALLS), 0),
        }

    def _took(self) -> int:
        begun = time.monotonic_ns()
        self._call(ctypes.c_size_t(_CALLS))
        return time.monotonic_ns() - begun


def _offset(address: int) -> int:
    """Where in its file the code at an address of this process lies."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if (mapping := _MAPPING.match(line)) and int(mapping[1], 16) <= address < int(mapping[2], 16):
            return address - int(mapping[1], 16) + int(mapping[3], 16)
    raise LookupError(f"nothing at {address:#x}")


def _intervals(records: bytes, enter: int, leave: int) -> list[int]:
    """From each record of an entry to that of the return after it."""
    found, begun = [], None
    for kind, _, position, end in perf.records(records):
        if kind == perf.RECORD_SAMPLE and position + _TIME + 8 <= end:
            number, when = (struct.unpack_from("<Q", records, position + at)[0] for at in (8, _TIME))
            if number == enter:
                begun = when
            elif number == leave and begun is not None:
                found.append(when - begun)
                begun = None
    return found
