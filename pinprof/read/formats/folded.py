"""Folded stacks: `root;…;leaf count` lines, as stackcollapse-*.pl, inferno, bpftrace scripts and py-spy write them.

`frame_names` has the conventions that tell objects and kernel functions. Austin's stacks (`P7;T9;…`) count
microseconds or KiB, and lines that begin with `# ` are remarks.

The file is read as a stream and stacks are merged on the way: memory grows with distinct stacks, not with lines.
"""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path

import numpy as np

from pinprof.base.errors import FormatError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Bool, Capture, Event, Int64, Losses
from pinprof.read.assembly import StackBuilder, aggregated, check_sum, foreign_capture
from pinprof.read.byte_source import ByteSource, ends_early
from pinprof.read.formats.frame_names import FrameNames
from pinprof.read.reader import Certainty, Progress, Reader, by_head, untold

NO_CALLCHAIN = "[no callchain]"
"""What pinprof's own export writes for samples that were recorded without a stack."""

_LINE = re.compile(rb"(.*\S)\s+(\d{1,19}(?:\.\d*)?)", re.DOTALL)
_PROCESS_AND_THREAD = re.compile(rb"P\d+;T[\d:]+(;|$)")
_SAMPLES = Event("samples", "samples", None, None, merged=True)
_AUSTIN = {
    "wall": (Event("wall", "ns", None, None, merged=True, elsewhere=True), 1000),
    "cpu": (Event("cpu", "ns", None, None, merged=True), 1000),
    "memory": (Event("memory", "bytes", None, None, merged=True, elsewhere=True), 1024),
}
"""Per mode of Austin what its numbers are: microseconds, or KiB."""
_MOST_REMARKS = 64
_MAX_LINE = 16 << 20
_CACHED_BYTES = 48 << 20


def sniff(head: bytes) -> bool:
    """Whether most lines look like stacks: `something count`, or at least `a;b`."""
    lines = [line for line in head.split(b"\n")[:64] if line.strip()]
    if len(lines) > 1 and not head.endswith(b"\n"):
        lines.pop()
    fits = [not line[:1].isspace() and (b";" in line or _LINE.fullmatch(line.rstrip()) is not None) for line in lines]
    return bool(lines) and b"\0" not in head and 2 * sum(fits) > len(lines)


def read(path: Path, progress: Progress = untold) -> Capture:
    """One event in samples, one sample per distinct stack, no times; FormatError when no line has a count."""
    source = ByteSource(path, progress)
    tally = _Tally(str(path))
    carry = b""
    for chunk in source.chunks():
        lines, carry = _whole_lines(carry, chunk, tally)
        tally.add(lines)
    tally.add([carry])
    if not tally.lines:
        raise FormatError(
            str(path),
            expected="lines that end in a count",
            found="none" if tally.skipped else "an empty file",
            remedy="Folded stacks look like `main;work;malloc 12`; stackcollapse-perf.pl and py-spy write them.",
            slug="folded",
        )
    if tally.stacks > 1 and tally.two_counts == tally.stacks:
        raise FormatError(
            str(path),
            expected="lines that end in a count",
            found="two counts in each, as a difference of two profiles has them",
            remedy="Give one of the two profiles, or compare them with `pinprof diff`.",
            slug="folded",
        )
    nodes = np.flatnonzero(tally.seen[: tally.used])
    event, factor = tally.event()
    check_sum(str(path), tally.total * factor, "folded")
    return foreign_capture(
        str(path),
        "folded",
        [event],
        aggregated((nodes + NO_NODE).astype(np.int32), tally.weight[nodes] * factor),
        tally.builder.table(),
        losses=Losses(
            corrupt_bytes=tally.skipped_bytes,
            truncated_chains=tally.builder.cut_chains,
            missing_stacks=int(tally.seen[0]),
            unresolved_frames=0,
            notes=_notes(tally, event),
        ),
    ).with_damage(ends_early(source.damage))


def _whole_lines(carry: bytes, chunk: bytes, tally: _Tally) -> tuple[list[bytes], bytes]:
    """The lines that end in this chunk, and what follows the last of them; a line beyond all bounds is given up."""
    head, newline, tail = chunk.rpartition(b"\n")
    if newline:
        lines = (carry + head).split(b"\n")
        carry = tail
    else:
        lines, carry = [], carry + tail
    if len(carry) > _MAX_LINE:
        tally.skip(carry)
        carry = b""
    return lines, carry


def _notes(tally: _Tally, event: Event) -> tuple[str, ...]:
    notes = ["Folded stacks have no units, times or threads, so counts are taken as samples."]
    if event is not _SAMPLES:
        notes = [f"The stacks are Austin's, in mode {event.name}: they have no times."]
    if tally.skipped:
        notes.append(f"{tally.skipped} of {tally.skipped + tally.lines} lines have no stack or no count; left out.")
    if tally.rounded:
        notes.append(f"{tally.rounded} fractional counts were rounded.")
    notes += tally.frames.notes()
    return tuple(notes)


@dataclass
class _Tally:
    """Weight by node. Slot 0 of the columns is NO_NODE, slot n + 1 is node n."""

    path: str
    builder: StackBuilder = field(default_factory=StackBuilder)
    weight: Int64 = field(default_factory=lambda: np.zeros(1024, np.int64))
    seen: Bool = field(default_factory=lambda: np.zeros(1024, np.bool_))
    used: int = 1
    total: int = 0
    lines: int = 0
    skipped: int = 0
    skipped_bytes: int = 0
    rounded: int = 0
    remarks: dict[str, str] = field(default_factory=dict)
    threads: bool = True
    """Whether each stack begins with the numbers of its process and thread, as Austin writes it."""
    node_of: dict[bytes, int] = field(default_factory=dict)
    cached: int = 0
    stacks: int = 0
    two_counts: int = 0
    """How many of the stacks end in another number."""

    def __post_init__(self) -> None:
        self.frames = FrameNames(self.builder)

    def add(self, lines: list[bytes]) -> None:
        """Count some lines."""
        counts: dict[bytes, int] = {}
        for line in lines:
            stack, _, count = line.rpartition(b" ")
            if line[:2] == b"# " and b";" not in line:
                self._add_remark(line)
            elif stack and len(count) < 19 and count.isdigit():
                counts[stack] = counts.get(stack, 0) + int(count)
                self.lines += 1
            elif line and not line.isspace():
                self._add_oddity(line, counts)
        self._add_counts(counts)

    def _add_remark(self, line: bytes) -> None:
        """A line about the recording, such as `# mode: cpu`."""
        name, _, value = line[2:].decode("utf-8", "replace").partition(":")
        if len(self.remarks) < _MOST_REMARKS:
            self.remarks.setdefault(name.strip(), value.strip())

    def skip(self, line: bytes) -> None:
        """Leave a line out, but not silently."""
        self.skipped += 1
        self.skipped_bytes += len(line) + 1

    def _add_oddity(self, line: bytes, counts: dict[bytes, int]) -> None:
        """A line with a carriage return, another separator, or a fraction."""
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            self.skip(line)
            return
        whole, point, _ = match[2].partition(b".")
        count = round(float(match[2])) if point else int(whole)
        self.rounded += bool(point)
        self.lines += 1
        counts[match[1]] = counts.get(match[1], 0) + count

    def event(self) -> tuple[Event, int]:
        """What is counted, and in which multiple of its unit: Austin says it in remarks, others nowhere."""
        if not self.threads:
            return _SAMPLES, 1
        return _AUSTIN.get(self.remarks.get("mode", "wall"), (_SAMPLES, 1))

    def _add_counts(self, counts: dict[bytes, int]) -> None:
        self.threads = self.threads and all(map(_PROCESS_AND_THREAD.match, counts))
        self.total += sum(counts.values())
        check_sum(self.path, self.total, "folded")
        new = [stack for stack in counts if stack not in self.node_of]
        nodes = dict(zip(new, self.builder.stacks([self._chain(stack) for stack in new]).tolist(), strict=True))
        slots = np.fromiter(
            (nodes[stack] if stack in nodes else self.node_of[stack] for stack in counts), np.int64, len(counts)
        )
        slots -= NO_NODE
        self._reserve(int(slots.max(initial=0)) + 1)
        np.add.at(self.weight, slots, np.fromiter(counts.values(), np.int64, len(counts)))
        self.seen[slots] = True
        self._remember(nodes)

    def _chain(self, stack: bytes) -> list[int]:
        """Frame numbers, root first; none for the export's stand-in of a missing callchain."""
        self.stacks += 1
        self.two_counts += stack.rpartition(b" ")[2].isdigit() and b" " in stack
        text = stack.decode("utf-8", "replace")
        return [] if text == NO_CALLCHAIN else self.frames.chain(text.split(";"))

    def _reserve(self, used: int) -> None:
        self.used = max(self.used, used)
        if self.used > len(self.weight):
            grown = 1 << self.used.bit_length()
            self.weight = np.concatenate([self.weight, np.zeros(grown - len(self.weight), np.int64)])
            self.seen = np.concatenate([self.seen, np.zeros(grown - len(self.seen), np.bool_)])

    def _remember(self, nodes: dict[bytes, int]) -> None:
        """Spare the next chunks the splitting of stacks known by their text, within bounds."""
        self.cached += sum(map(len, nodes)) + 120 * len(nodes)
        if self.cached > _CACHED_BYTES:
            self.node_of.clear()
            self.cached = 0
        self.node_of |= nodes


READER = Reader(
    "folded stacks",
    by_head(sniff, Certainty.MAYBE),
    lambda path, options: read(path, options.progress),
    streams=True,
)
