"""A capture directory → Capture: every stream adds what it recorded, in the order of `STREAMS`.

What reads is imported when it reads: every path is asked whether it is a capture.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pinprof import streams
from pinprof.base.errors import CaptureError
from pinprof.data.manifest import Manifest
from pinprof.data.model import Capture, ClockSync, SampleTable
from pinprof.read.reader import CAPTURES, Certainty, Reader, ReadOptions, Sealed
from pinprof.streams import store
from pinprof.streams.stream import found

if TYPE_CHECKING:
    from pinprof.read.perf.data import PerfRecording
    from pinprof.read.range_sources import CaptureRanges
    from pinprof.read.symbols.resolver import Resolver


class Reading:
    """A capture that is being read: what several streams need, made when the first one asks."""

    def __init__(self, directory: Path, options: ReadOptions, *, fresh: bool = False) -> None:
        """`directory` may be a recording of any other format, of which only `options` are known.

        `fresh`: the capture was recorded here a moment ago, and what its reading finds out is there for `seal`.
        """
        self.directory, self.options, self.fresh = directory, options, fresh
        self.recordings: dict[str, PerfRecording] = {}
        """The files of perf's format by their names, of a fresh capture."""
        self.sampled: frozenset[int] = frozenset()
        """The processes that samples are of, of a fresh capture."""

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

        if self.fresh:
            return Resolver(kallsyms=self.kallsyms, recording=True, kept=self.options.kept)
        symbols = store.part(self.directory, store.SYMBOLS)
        sealed = SealedSymbols.load(symbols) if symbols else None
        return Resolver(kallsyms=self.kallsyms, symfs=self.options.symfs, sealed=sealed, kept=self.options.kept)

    @cached_property
    def ranges(self) -> CaptureRanges:
        """The program's ranges, whoever recorded them."""
        from pinprof.read import range_sources

        return range_sources.load(self.directory, self.options.ranges, measured_only=bool(self.manifest.scenario))

    def seal(self) -> Sealed:
        """Store the symbol of every address that was read, and overwrite what of the program's memory is left.

        The kernel's other symbols name nothing, and go.
        """
        from pinprof.read.perf import capture as perf

        if "resolver" in vars(self):
            self.resolver.seal().save(self.directory / store.SYMBOLS)
        (self.directory / store.KALLSYMS).unlink(missing_ok=True)
        return perf.sealed(self)


def read(directory: Path, options: ReadOptions) -> Capture:
    """What its collectors recorded; `with_context` adds the rest."""
    return read_streams(Reading(directory, options))


def read_streams(reading: Reading) -> Capture:
    """The same of a capture that is being read."""
    from pinprof.read.perf import capture as perf

    directory = reading.directory
    if not store.is_capture(directory):
        perf.refuse_pieces(directory)
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
    """Seal a fresh capture that nobody reads now."""
    reading = Reading(directory, ReadOptions(), fresh=True)
    # That what was sampled is lost is said when the capture is read.
    with contextlib.nullcontext() if streams.holds_samples(directory) else contextlib.suppress(CaptureError):
        read_streams(reading)
    return reading.seal()


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


CAPTURE = Reader(CAPTURES, _certainty, read)
