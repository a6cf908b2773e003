"""The text that `perf script` makes of a recording whose call chains only perf can make: from perf, or stored."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import ToolMissing
from pinprof.data import perf_format as perf
from pinprof.machine import children
from pinprof.machine.children import Limits
from pinprof.read.byte_source import ByteSource
from pinprof.read.perf.data import PerfRecording
from pinprof.streams import store

_SCRIPT_FIELDS = (
    ("comm", 0),
    ("pid", perf.SAMPLE_TID),
    ("tid", perf.SAMPLE_TID),
    ("cpu", perf.SAMPLE_CPU),
    ("time", perf.SAMPLE_TIME),
    ("period", 0),
    ("event", 0),
    ("addr", perf.SAMPLE_ADDR),
    ("ip", 0),
    ("sym", 0),
    ("dso", 0),
)
"""Fields of `perf script`, and what every event must record for perf to print one; it refuses otherwise."""
SECONDS, _PRINTED, _TIMES_PRINTED = 30, 64 << 20, 200
"""What `perf script` may take and print for a recording of any size; this many times its size comes on top."""
_MARK = "# pinprof: perf script was stopped"
"""The last line of the text of a perf that was: a comment, as perf writes them."""
STOPPED = "pinprof stopped perf script, which took too long or printed too much"
_LONGEST_LINE = 1 << 20


class ScriptText:
    """What `perf script` makes of a recording: stored in the capture, or by running perf now."""

    def __init__(self, recording: PerfRecording, symfs: Path | None) -> None:
        self._recording, self._symfs = recording, symfs
        self.stopped = False
        """Whether the text that was read ends where pinprof stopped perf."""

    def lines(self) -> Generator[str, None, None]:
        """The text."""
        # The copies that perf could make chains of again are gone from a capture's own file.
        kept = stored(self._recording)
        text = lines(ByteSource(kept).chunks()) if kept else _printed(self._recording, self._symfs)
        for line in text:
            self.stopped = self.stopped or line == _MARK
            yield line


def stored(recording: PerfRecording) -> Path | None:
    """The text that perf printed on the recording machine, in a capture."""
    text = recording.path.parent / store.PERF_SCRIPT
    return text if text.is_file() else None


def store_text(recording: PerfRecording, target: Path) -> None:
    """Keep perf's text in the capture: unwinding needs the binaries of this machine."""
    with (
        closing(_printed(recording, None)) as text,
        files.replacing(target) as raw,
        gzip.open(raw, "wt", 6, "utf-8") as copy,
    ):
        copy.writelines(f"{line}\n" for line in text)


def _printed(recording: PerfRecording, symfs: Path | None) -> Generator[str, None, None]:
    """The lines that perf prints; the last one is _MARK where it was stopped at a limit."""
    size = recording.path.stat().st_size
    limits = Limits(SECONDS + 10 * size / 1e6, SECONDS + size / 1e6, _PRINTED + _TIMES_PRINTED * size)
    with children.started(_command(recording, symfs), limits) as perf:
        yield from lines(perf.pieces())
        if perf.stopped:
            yield _MARK


def _command(recording: PerfRecording, symfs: Path | None) -> list[str]:
    perf = shutil.which("perf")
    if perf is None:
        raise ToolMissing(
            f"{recording.path} holds copied stacks or branch records, and perf, which makes call chains of them, is "
            "not installed.",
            "Install perf (Debian: apt install linux-perf), or record with --call-graph fp.",
            "perf-missing",
        )
    recorded = [source.attr.sample_type for source in recording.header.sources if not source.attr.is_dummy]
    fields = [name for name, bit in _SCRIPT_FIELDS if all(kind & bit == bit for kind in recorded)]
    options = ["--symfs", str(symfs)] if symfs else []
    # --no-inline: pinprof counts functions as the linker knows them, in every reader.
    return [perf, "script", "-i", str(recording.path), "--ns", "--no-inline", "-F", ",".join(fields), *options]


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines of a text; bytes that are not UTF-8 become U+FFFD, and what has no end comes in pieces."""
    carry = b""
    for chunk in chunks:
        *whole, carry = (carry + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
        if len(carry) > _LONGEST_LINE:
            yield carry.decode("utf-8", "replace")
            carry = b""
    yield carry.decode("utf-8", "replace")
