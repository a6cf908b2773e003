"""CPU profiles of V8 as files: what `node --cpu-prof`, Chrome and tools for Node.js write (`.cpuprofile`)."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from pinprof.data.model import Capture, ClockSync, Losses
from pinprof.read.assembly import NO_CLOCK, SampleColumns, StackBuilder, check_sum, foreign_capture
from pinprof.read.formats.json_source import document, items, not_json
from pinprof.read.formats.v8 import COUNTED, TIMED, Profile, Profiles, whole_us
from pinprof.read.reader import Certainty, Reader

_FIRST = re.compile(rb'"(\w+)"\s*:\s*')
_BEGINS = frozenset({b"nodes", b"head", b"samples", b"timeDeltas", b"timestamps"})
"""A profile's lists and trees, one of which comes first."""


def sniff(path: Path, head: bytes) -> Certainty:
    """Whether JSON begins as a profile does, with its tree of today or of old; a name tells it of what begins oddly."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    tree = b'"callFrame"' in head or (b'"functionName"' in head and b'"head"' in head)
    if start[:1] != b"{" or not tree or b'"selfSize"' in head:
        return Certainty.NO
    inner = re.search(rb"[\[{]", start[1:])
    keys = _FIRST.findall(start[1 : 1 + inner.start()]) if inner else []
    named = path.name.removesuffix(".gz").endswith(".cpuprofile")
    return Certainty.LIKELY if named or (keys and keys[-1] in _BEGINS) else Certainty.NO


def read(path: Path) -> Capture:
    """Samples of one thread; FormatError when the document has no tree."""
    root = document(path, "V8 CPU profile")
    profile = Profile()
    if isinstance(root.get("head"), dict):
        profile.nest(root["head"])
        # The first of the `timestamps` is when the profile began.
        stamps = [whole_us(stamp) for stamp in items(root.get("timestamps"))]
        profile.start_us = stamps[0] if stamps else 0
        behind = stamps[1:] if len(stamps) > len(items(root.get("samples"))) else stamps
        before = [profile.start_us, *behind]
        profile.add({"samples": root.get("samples")}, [at - last for last, at in pairwise(before)])
    else:
        profile.add(root, root.get("timeDeltas"))
    if not profile.function:
        raise not_json(path, "V8 CPU profile", 0, "no call tree")
    profiles = Profiles({0: profile})
    columns, builder = SampleColumns(), StackBuilder()
    timed = len(profile.times_us()) > 0
    notes = (profiles.fill if timed else profiles.counted)(columns, builder)
    check_sum(str(path), sum(columns.weight), "json")
    if not timed:
        del columns.time_ns[:]
    return foreign_capture(
        str(path),
        "V8 CPU profile",
        (TIMED if timed else COUNTED,),
        columns.table(),
        builder.table(),
        clock=ClockSync("V8", 0, 0) if timed else NO_CLOCK,
        losses=Losses(truncated_chains=builder.cut_chains, notes=notes),
    )


READER = Reader("V8 CPU profile", sniff, lambda path, _: read(path), streams=True)
