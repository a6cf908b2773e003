"""A capture directory that nsys recorded into, alone or beside perf.

nsys traces the whole process, so a scenario is restricted here to its measured region, from the first range of
ranges.jsonl to the end of the last. Those count on CLOCK_MONOTONIC and nsys from the start of its session; the
collector notes UTC minus CLOCK_MONOTONIC, and nsys the UTC of its start (2.4 µs apart on an H200).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from pinprof.base.units import format_count
from pinprof.data.activity import Activity
from pinprof.data.manifest import Manifest
from pinprof.data.model import NO_NODE, Capture, Losses, SampleTable
from pinprof.data.time_window import TimeWindow
from pinprof.read.directory import Reading
from pinprof.read.nsys import export as nsys_export
from pinprof.read.ranges import read_ranges
from pinprof.read.symbols.resolver import Resolver
from pinprof.streams import store

_MARGIN_NS = 100_000
"""By which the two clocks may disagree."""


def with_trace(capture: Capture | None, path: Path, reading: Reading) -> Capture:
    """Perf's samples with what nsys recorded beside them (`traced`), or what nsys recorded alone."""
    if capture is None:
        return _read(path, reading, alone=True)
    traced = _read(path, reading, alone=False)
    # The manifest describes both collectors already.
    return replace(capture, traced=replace(traced, manifest=replace(traced.manifest, command=(), collectors=())))


def _read(path: Path, reading: Reading, *, alone: bool) -> Capture:
    options, manifest, directory = reading.options, reading.manifest, reading.directory
    # perf's own addresses are sealed where it sampled.
    resolver = reading.resolver if alone else Resolver(kallsyms=reading.kallsyms, symfs=options.symfs)
    capture = nsys_export.read(path, replace(options, ranges=None), resolver)
    known = {key: value for key, value in manifest.host.items() if value not in (None, [], ())}
    capture = replace(capture, path=str(directory), manifest=replace(manifest, host={**capture.manifest.host, **known}))
    offset = _offset(manifest, capture.activity)
    given = options.ranges or store.part(directory, store.RANGES)
    if offset is None or given is None:
        return capture
    loaded = read_ranges(given)
    ranges = loaded.table.moved(-offset)
    if alone and len(ranges) > len(capture.ranges):
        # nsys 2022.4 misses those of Python's nvtx since 0.2.17. Beside perf, joining chooses.
        capture = replace(capture, ranges=ranges).with_notes(*loaded.notes)
    if manifest.scenario and len(ranges):
        window = TimeWindow(int(ranges.start_ns.min()) - _MARGIN_NS, int(ranges.end_ns.max()) + _MARGIN_NS)
        capture = _restricted(capture, window)
    return capture


def _offset(manifest: Manifest, activity: Activity | None) -> int | None:
    """What moves nsys's times onto CLOCK_MONOTONIC; None where either side did not note its time."""
    noted = next((entry.get("utc_offset_ns") for entry in manifest.collectors if entry.get("name") == "nsys"), None)
    if not isinstance(noted, int) or activity is None or activity.start_utc_ns is None:
        return None
    return activity.start_utc_ns - noted


def _restricted(capture: Capture, window: TimeWindow) -> Capture:
    """What began inside a window."""
    assert capture.activity is not None

    samples, within = capture.samples.within(window.start_ns, window.end_ns), window.begun(capture)
    activity = within.activity
    assert activity is not None
    left_out = len(capture.samples) - len(samples)
    left_out += sum(len(table) - len(activity.tables[name]) for name, table in capture.activity.tables.items())
    note = f"{format_count(left_out)} events of nsys before and after the measured iterations were left out."
    restricted = replace(within, samples=samples, losses=_losses_in(capture, samples))
    return restricted.with_notes(note) if left_out else restricted


def _losses_in(capture: Capture, samples: SampleTable) -> Losses:
    """What could not be used of some of the samples. Which chains are cut is not known by then: their share is kept."""
    table, losses = capture.stacks, capture.losses
    names = table.frames.function
    nameless = np.array([name.startswith("[") and name.endswith("]") for name in names], np.int64)
    on_stack = nameless[table.frame]
    for level in table.levels():
        parent = table.parent[level]
        on_stack[level] += np.where(parent != NO_NODE, on_stack[parent], 0)
    stacked = samples.stack[samples.stack != NO_NODE]
    share = len(samples) / len(capture.samples) if len(capture.samples) else 0.0
    return replace(
        losses,
        truncated_chains=round(share * losses.truncated_chains),
        unresolved_frames=int(on_stack[stacked].sum()),
        missing_stacks=len(samples) - len(stacked),
    )
