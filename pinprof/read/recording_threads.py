"""Threads that record what the GPU does, inside the program: pinprof's own, and CUPTI's workers.

They are no part of the program: their samples are left out, and a note says what they took. pinprof's is known by its
name (inside/cupti.c gives it), CUPTI's, which have the name of whoever started them, by the library that
their stacks begin in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.base.columns import ascending, pack
from pinprof.base.units import format_ns
from pinprof.data.model import USER, Bool, Capture, StackTable, UInt8, clock_event

NAME = "pinprof-gpu"
_LIBRARY = "libcupti.so"
_STARTS_THREADS = ("libc.so", "libc-2.", "libpthread", "ld-linux", "libpinprof_inside.", "[")
"""What lies around the function that a thread runs; code without a file says nothing."""
_UNDECIDED, _RECORDS, _OTHER = range(3)
_MOST_OTHER = 0.1
"""Stacks of a worker that begin elsewhere, because they were cut, of those that begin in its library."""


def without_recording_threads(capture: Capture) -> Capture:
    """The capture without the samples and names of such threads."""
    chosen = _samples(capture)
    names = {thread for thread, name in capture.threads.items() if name == NAME}
    if not chosen.any() and not names:
        return capture
    samples = capture.samples
    left = set(zip(samples.pid[chosen].tolist(), samples.tid[chosen].tolist(), strict=True)) | names
    event = clock_event(capture.events)
    taken = int(samples.weight[chosen & (samples.event == event)].sum()) if event is not None else 0
    note = f"The recorder's own threads in the program took {format_ns(taken)} of CPU time, which is left out."
    return replace(
        capture.with_notes(*([note] if taken else [])),
        samples=samples.take(np.flatnonzero(~chosen)),
        threads={thread: name for thread, name in capture.threads.items() if thread not in left},
        inherited=capture.inherited - left,
        renamed={thread: names for thread, names in capture.renamed.items() if thread not in left},
    )


def _samples(capture: Capture) -> Bool:
    """Per sample, whether a recording thread took it."""
    samples = capture.samples
    thread = pack(samples.pid, samples.tid)
    begins = np.append(_beginnings(capture.stacks), np.uint8(_UNDECIDED))[samples.stack]
    threads, number = np.unique(thread, return_inverse=True)
    records, other = (
        np.bincount(number.reshape(-1)[begins == which], minlength=len(threads)) for which in (_RECORDS, _OTHER)
    )
    main = ascending(thread[samples.pid == samples.tid])
    workers = threads[(records > 0) & (other <= _MOST_OTHER * records) & ~np.isin(threads, main)]
    named = [key for key, name in capture.threads.items() if name == NAME]
    pids, tids = (np.array([key[part] for key in named], np.int32) for part in (0, 1))
    return np.isin(thread, np.append(workers, pack(pids, tids)))


def _beginnings(stacks: StackTable) -> UInt8:
    """Per node, what the outermost function is that the thread was started for."""
    frames = stacks.frames
    names = [dso.name for dso in frames.dsos]
    of_dso = [
        _RECORDS if name.startswith(_LIBRARY) else _UNDECIDED if name.startswith(_STARTS_THREADS) else _OTHER
        for name in names
    ]
    of_frame = np.array([*of_dso, _UNDECIDED], np.uint8)[frames.dso]
    of_frame[frames.mode != USER] = _UNDECIDED
    begins = of_frame[stacks.frame].astype(np.uint8)
    for nodes in stacks.levels():
        above = stacks.parent[nodes]
        known = np.where(above >= 0, begins[above], _UNDECIDED)
        begins[nodes] = np.where(known != _UNDECIDED, known, begins[nodes])
    return begins
