"""A capture directory → Capture: every stream adds what it recorded, in the order of `STREAMS`.

What reads is imported when it reads: every path is asked whether it is a capture.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pinprof import streams
from pinprof.base.errors import CaptureError
from pinprof.data.manifest import Manifest
from pinprof.data.model import Capture, ClockSync, SampleTable
from pinprof.read.reader import Certainty, Reader, ReadOptions, Sealed
from pinprof.streams import store
from pinprof.streams.stream import found

if TYPE_CHECKING:
    from pinprof.read.range_sources import CaptureRanges
    from pinprof.read.symbols.resolver import Resolver


class Reading:
    """A capture that is being read: what several streams need, made when the first one asks."""

    def __init__(self, directory: Path, options: ReadOptions) -> None:
        """`directory` may be a recording of any other format, of which only `options` are known."""
        self.directory, self.options = directory, options

    @cached_property
    def manifest(self) -> Manifest:
        """The capture's."""
        return store.read_manifest(self.directory)

    @property
    def kallsyms(self) -> Path | None:
        """The kernel's symbols."""
        return self.options.kallsyms or store.part(self.directory, store.KALLSYMS)

    @cached_property
    def resolver(self) -> Resolver:
        """What names the addresses of perf's records; options given beside a capture win over what lies inside."""
        from pinprof.read.symbols.resolver import Resolver, SealedSymbols

        symbols = store.part(self.directory, store.SYMBOLS)
        sealed = SealedSymbols.load(symbols) if symbols else None
        kept = self.options.kept if sealed is None else None
        return Resolver(kallsyms=self.kallsyms, symfs=self.options.symfs, sealed=sealed, kept=kept)

    @cached_property
    def ranges(self) -> CaptureRanges:
        """The program's ranges, whoever recorded them."""
        from pinprof.read import range_sources

        return range_sources.load(self.directory, self.options.ranges, measured_only=bool(self.manifest.scenario))


def read(directory: Path, options: ReadOptions) -> Capture:
    """What its collectors recorded; `with_context` adds the rest."""
    from pinprof.read.perf import capture as perf

    if not store.is_capture(directory):
        perf.refuse_pieces(directory)
    reading = Reading(directory, options)
    capture = None if streams.holds_samples(directory) else _unsampled(reading)
    for stream in streams.STREAMS:
        path = stream.of(directory)
        if path is not None and stream.read and not stream.context and (capture is not None or stream.alone):
            capture = found(stream.read)(capture, path, reading)
    assert capture is not None
    return perf.finished(capture, reading) if store.part(directory, store.PERF_DATA) else capture


def with_context(capture: Capture, path: Path, options: ReadOptions) -> Capture:
    """The capture of any format with what explains it: of a directory, what lies in there."""
    reading = Reading(path, options)
    for stream in streams.STREAMS:
        if stream.context:
            capture = found(stream.read)(capture, stream.of(path), reading)
    return capture


def seal(directory: Path) -> Sealed:
    """Store the symbols of perf's addresses, or where nsys recorded alone of the kernel addresses that it sampled."""
    if store.part(directory, store.NSYS_SQLITE) and not store.part(directory, store.PERF_DATA):
        from pinprof.read.nsys import capture as nsys

        return nsys.seal(directory)
    from pinprof.read.perf import capture as perf

    return perf.seal(directory)


_SAMPLERS = ("native", "perf")
"""Collectors that leave perf.data: where one of them worked, it is lost."""


def _unsampled(reading: Reading) -> Capture:
    """What the other streams of a capture without samples are read into; CaptureError where it has none at all."""
    from pinprof.read.assembly import StackBuilder

    sampled = [collector for collector in reading.manifest.collectors if collector.get("name") in _SAMPLERS]
    if sampled or not streams.holds_recording(reading.directory):
        raise _nothing(reading.directory, reading.manifest)
    ranges = reading.ranges
    capture = Capture(
        path=str(reading.directory),
        manifest=reading.manifest,
        events=(),
        samples=SampleTable.empty(),
        stacks=StackBuilder().table(),
        ranges=ranges.table,
        threads={},
        clock=ClockSync("monotonic", 0, 0),
    )
    return capture.with_notes(*ranges.notes)


def _nothing(directory: Path, manifest: Manifest) -> CaptureError:
    names = [str(collector.get("name")) for collector in manifest.collectors]
    if set(names) & set(_SAMPLERS):
        return CaptureError(
            f"{directory} has lost its {store.PERF_DATA}.",
            "Copy the whole capture again, or record again.",
            "no-samples",
        )
    if manifest.collectors and manifest.outcome.get("state") in ("complete", "interrupted"):
        return CaptureError(
            f"{directory} has no samples: its collectors ({', '.join(names)}) do not sample.",
            "Check the capture's files, or also record with a sampler, for example native.",
            "no-samples",
        )
    return CaptureError(
        f"{directory} has no {store.PERF_DATA}: its recording ended before the first sample.",
        "Check its collector.log, and record again.",
        "no-samples",
    )


def _certainty(path: Path, _head: bytes) -> Certainty:
    """Certain of a capture; of any other directory its reader says better than none what is missing."""
    if store.is_capture(path):
        return Certainty.CERTAIN
    return Certainty.MAYBE if path.is_dir() else Certainty.NO


CAPTURE = Reader("capture directory", _certainty, read, seal=seal)
