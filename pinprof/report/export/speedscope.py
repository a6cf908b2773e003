"""speedscope files: one sampled profile per event, because speedscope shows a profile's weights as one sum.

Source: speedscope's file-format-schema.json, version 1.25. `read/formats/speedscope.py` reads these files back whole.
"""

from __future__ import annotations

import json
from typing import IO, Any

from pinprof import __version__
from pinprof.analyze import Run
from pinprof.analyze.extent import is_timed
from pinprof.data.model import Capture
from pinprof.read.formats.speedscope import SCHEMA
from pinprof.report import rows
from pinprof.report.joined_frames import as_shown

_MOST_ROWS = 50_000
"""Above this, samples are merged by stack: speedscope takes seconds for 100,000 rows and minutes for a million."""

_UNITS = {"ns": "nanoseconds", "bytes": "bytes", "faults": "none", "events": "none", "samples": "none"}


def write(analysis: Run, stream: IO[str], *, all_frames: bool = False) -> None:
    """Write a speedscope file: ASCII only, so that any character a name may hold survives the way."""
    write_capture(as_shown(analysis.capture, all_frames=all_frames), stream)


def write_capture(capture: Capture, stream: IO[str]) -> None:
    """Write a speedscope file of a capture; causes have no place in the format.

    Each profile has its samples in the order of threads and of time, as speedscope's left-to-right view shows them.
    """
    table = capture.stacks.frames
    frames = [{"name": symbol, "file": dso} for symbol, dso in zip(table.symbol, rows.dso_names(table), strict=True)]
    head = {"$schema": SCHEMA, "exporter": f"pinprof@{__version__}", "name": capture.path.rsplit("/", 1)[-1]}
    stream.write(json.dumps(head)[:-1] + f', "shared": {{"frames": {json.dumps(frames)}}}, "profiles": [')
    chains = _ChainText(capture)
    for event in range(len(capture.events)):
        stream.write(", " if event else "")
        _write_profile(capture, event, chains, stream)
    stream.write("]}\n")


def _write_profile(capture: Capture, event: int, chains: _ChainText, stream: IO[str]) -> None:
    described = capture.events[event]
    nodes, weights = rows.leaf_nodes(capture, event)
    if len(nodes) > _MOST_ROWS or not is_timed(capture):
        nodes, weights = rows.merged_nodes(capture, event)
    head: dict[str, Any] = {
        "type": "sampled",
        "name": described.name,
        "unit": _UNITS[described.unit],
        "startValue": 0,
        "endValue": int(weights.sum()),
        "weights": weights.tolist(),
    }
    samples = ",".join([chains[node] for node in nodes.tolist()])
    stream.write(json.dumps(head)[:-1] + f', "samples": [{samples}]}}')


class _ChainText(dict[int, str]):
    """Per innermost node its stack as a JSON array."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._stacks = capture.stacks

    def __missing__(self, node: int) -> str:
        self[node] = text = json.dumps(rows.chain(self._stacks, node), separators=(",", ":"))
        return text
