"""From a path to a Capture: a bare perf.data, the text of `perf script`, or the samples and calls of a capture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pinprof.base.columns import ascending
from pinprof.base.errors import CaptureError, FormatError, PinprofError
from pinprof.base.units import format_counted
from pinprof.data.activity import GivenUp
from pinprof.data.manifest import Manifest
from pinprof.data.model import Capture, RangeTable, SampleTable
from pinprof.read.byte_source import ByteSource, ends_early
from pinprof.read.directory import Reading
from pinprof.read.perf import data as perf_data
from pinprof.read.perf import program_memory, script_text, stack_copies
from pinprof.read.perf.header import is_perf_data
from pinprof.read.perf.processes import IDLE_PID, program_tree, still_running
from pinprof.read.ranges import parse_ranges, read_ranges
from pinprof.read.reader import ReadOptions, Sealed
from pinprof.read.recording_threads import without_recording_threads
from pinprof.read.symbols.lines import SECONDS
from pinprof.read.symbols.resolver import Resolver
from pinprof.streams import store

_KALLSYMS = Path("/proc/kallsyms")


def read_file(path: Path, options: ReadOptions) -> Capture:
    """A bare perf.data; kernel symbols of this machine serve where they are those of the recording boot."""
    recording = perf_data.load(path, options.progress)
    kallsyms = options.kallsyms or own_kallsyms(recording)
    resolver = Resolver(kallsyms=kallsyms, symfs=options.symfs)
    ranges, notes = _ranges(options.ranges)
    if kallsyms is None:
        notes = (*notes, "Kernel functions have no names. Give the kallsyms of the recording boot with --kallsyms.")
    return _finish(recording, resolver, None, ranges, notes, options)


def read_script(path: Path, options: ReadOptions) -> Capture:
    """The text of `perf script`, plain or gzip."""
    from pinprof.read.perf.script import read_perf_script

    resolver = Resolver(kallsyms=options.kallsyms, symfs=options.symfs) if options.kallsyms else None
    ranges, notes = _ranges(options.ranges)
    source = ByteSource(path, options.progress)
    capture = read_perf_script(script_text.lines(source.chunks()), str(path), resolver, ranges=ranges)
    return capture.with_notes(*notes).with_damage(ends_early(source.damage))


def with_samples(_capture: None, path: Path, reading: Reading) -> Capture:
    """The samples of a capture."""
    notes = reading.ranges.notes
    if reading.resolver.kernel_hidden:
        notes = (
            *notes,
            "Kernel addresses were hidden during the recording (kptr_restrict), so kernel functions have no names.",
        )
    recording = perf_data.load(path, reading.options.progress, placed=reading.fresh)
    if reading.fresh and recording.needs_perf:
        script_text.store_text(recording, reading.directory / store.PERF_SCRIPT)
    capture = _finish(recording, reading.resolver, reading.manifest, reading.ranges.table, notes, reading.options)
    if reading.fresh:
        reading.recordings[store.PERF_DATA] = recording
        reading.sampled = frozenset(ascending(capture.samples.pid).tolist())
    return replace(capture, path=str(reading.directory))


def with_calls(capture: Capture, path: Path, reading: Reading) -> Capture:
    """The capture with its CUDA calls, and what must be said about them."""
    from pinprof.read.perf import call_tracing, cuda_calls

    try:
        recording = perf_data.load(path, placed=reading.fresh)
    except PinprofError as error:
        called = cuda_calls.unreadable(error)
    else:
        called = cuda_calls.calls_of(recording, reading.resolver, call_tracing.given_up(reading.manifest))
        if reading.fresh:
            reading.recordings[store.CALLS_DATA] = recording
    activity = replace(called.activity, call_overhead=call_tracing.overhead(reading.manifest))
    return replace(capture.with_notes(*called.notes), activity=activity, call_stacks=called.stacks)


def finished(capture: Capture, reading: Reading) -> Capture:
    """The capture with what must be said once its streams are read, without the threads that recorded it."""
    if capture.activity and capture.activity.given_up:
        capture = capture.with_notes(*_given_up(capture.activity.given_up, capture.samples, reading.manifest))
    return without_recording_threads(capture.with_notes(*_lines_left(reading.resolver)))


def _given_up(parts: Sequence[GivenUp], samples: SampleTable, manifest: Manifest) -> tuple[str, ...]:
    """What must be said of calls that were not traced, or without their callers."""
    from pinprof.read.perf import call_tracing

    begun = int(samples.time_ns.min(initial=parts[0].start_ns))
    return call_tracing.notes(parts, begun, call_tracing.budget_percent(manifest))


def _lines_left(resolver: Resolver) -> tuple[str, ...]:
    """What must be said where the time for looking up lines was not enough."""
    if not resolver.lines.left:
        return ()
    what = format_counted(resolver.lines.left, "address has", "addresses have")
    return (f"{what} no source line, because the search for lines stops after {SECONDS:.0f} seconds.",)


def refuse_pieces(directory: Path) -> None:
    """CaptureError where a directory is what `perf record --threads` writes in place of a file."""
    try:
        first = directory / "data"
        if not first.is_file():  # to open a FIFO would wait for a writer
            return
        with first.open("rb") as stream:
            head = stream.read(8)
    except OSError:
        return
    if is_perf_data(head):
        raise CaptureError(
            f"{directory} is a recording of `perf record --threads`, which has several files.",
            "Record without --threads, or give pinprof the output of `perf script -i`.",
            "not-a-capture",
        )


def sealed(reading: Reading) -> Sealed:
    """Overwrite what of the program's memory is left in a fresh capture that was read, and name its processes."""
    recording = reading.recordings.get(store.PERF_DATA)
    if recording and store.part(reading.directory, store.PERF_SCRIPT):
        stack_copies.blank(recording.path, recording.header)
    for each in reading.recordings.values():
        program_memory.blank(each)
    if recording is None:
        return Sealed()
    roots = {pid for pid in reading.sampled if pid > IDLE_PID}
    tree = program_tree(recording.raw.tasks, roots, reading.manifest.command)
    return Sealed(tree, still_running(recording.raw.tasks, recording.raw.exits, tree))


def own_kallsyms(recording: perf_data.PerfRecording) -> Path | None:
    """This machine's kallsyms if it runs the recorded kernel, at the recorded address; None otherwise.

    The kernel's address is random at every boot where KASLR is on; the release tells kernels apart where it is off.
    """
    symbol, address = recording.raw.kernel_reference
    if not symbol or recording.header.features.facts.get("kernel") != os.uname().release:
        return None
    try:
        with _KALLSYMS.open("rb") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) >= 3 and fields[2] == symbol.encode():
                    return _KALLSYMS if int(fields[0], 16) == address else None
    except (OSError, ValueError):
        pass
    return None


def _finish(
    recording: perf_data.PerfRecording,
    resolver: Resolver,
    manifest: Manifest | None,
    ranges: RangeTable,
    notes: tuple[str, ...],
    options: ReadOptions,
) -> Capture:
    """The capture of a recording, through `perf script` where only perf can make its call chains."""
    if not recording.needs_perf:
        return perf_data.to_capture(recording, resolver, manifest, ranges).with_notes(*notes)
    from pinprof.read.perf.script import read_perf_script

    clock = perf_data.clock_of(recording.header.sources)
    # What perf is asked now it answers from the kernel of this machine.
    named = script_text.stored(recording) is not None or own_kallsyms(recording) is not None
    text = script_text.ScriptText(recording, options.symfs)
    with closing(text.lines()) as lines:
        capture = read_perf_script(
            lines, str(recording.path), resolver, ranges=ranges, clock=clock.source, kernel_named=named
        )
    if not len(capture.samples):
        # An older perf may not know what a newer one recorded.
        why = script_text.STOPPED if text.stopped else "perf script of this machine prints no sample"
        note = f"{why}, so functions of the program that are not innermost are missing."
        bare = perf_data.load(recording.path, options.progress, as_recorded=True)
        if text.stopped or len(bare.raw.samples):
            return perf_data.to_capture(bare, resolver, manifest, ranges).with_notes(note, *notes)
        raise FormatError(
            str(recording.path),
            expected="samples that perf script can print",
            found="none",
            offset=recording.header.data_offset,
            remedy="Try `perf script -i` on it, and record again with --call-graph fp if that fails too.",
            slug="perf-script",
        )
    note = "perf script made the call chains from copied stacks or branch records."
    if text.stopped:
        notes = (f"{script_text.STOPPED}, so later samples are missing.", *notes)
    made = perf_data.synthesized_manifest(recording.header) if manifest is None else manifest
    capture = replace(capture, manifest=made).with_notes(*recording.header.notes, note, *notes)
    return capture.with_damage(*recording.damage)


def _ranges(path: Path | None) -> tuple[RangeTable, tuple[str, ...]]:
    if path is None:
        return parse_ranges(b"").table, ()
    loaded = read_ranges(path)
    return loaded.table, loaded.notes
