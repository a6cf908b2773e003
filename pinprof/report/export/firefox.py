"""Firefox Profiler files (profiler.firefox.com, "processed profile" JSON).

Each thread appears once per event, because the profiler sums the weights of a thread: the first event under the
thread's name, the others as `name · page-faults`. Causes are categories: a stack's category is the level of its
leaf, its subcategory the leaf, so that graphs and call trees are coloured by cause. Ranges are interval markers.

Source: github.com/firefox-devtools/profiler, src/types/profile and docs-developer/CHANGELOG-formats.md, processed
version 48; newer profilers upgrade older versions by themselves.
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import IO, Any

import numpy as np

from pinprof import __version__
from pinprof.analyze import CATEGORIES, LEVELS, Run
from pinprof.analyze.extent import is_timed, start_ns
from pinprof.base.columns import ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Capture, Event, Int16
from pinprof.report import rows
from pinprof.report.joined_frames import as_shown

PROCESSED_VERSION = 48
_GECKO_VERSION = 29

_COLOURS = {
    "pin": "blue", "fault": "orange", "uvm": "green", "dma": "purple", "free": "lightblue", "copy": "yellow",
    "sync": "brown", "rm": "magenta", "user": "grey", "sys": "darkgrey", "other": "transparent",
}  # fmt: skip
"""By level, from the names the profiler knows; close to the page's palette."""

_DEFAULT = "Other"
"""The grey category that must exist; of functions that have no samples of their own."""

_WEIGHT_TYPES = {"ns": "tracing-ms", "bytes": "bytes", "faults": "samples", "events": "samples", "samples": "samples"}
_TRUE = (
    "symbolicated", "symbolicationNotSupported", "usesOnlyOneStackType", "doesNotUseFrameImplementation",
    "sourceCodeIsNotOnSearchfox", "keepProfileThreadOrder",
)  # fmt: skip
"""What holds of every profile written here."""
_RANGE_SCHEMA = {
    "name": "pinprof-range",
    "display": ["marker-chart", "marker-table", "timeline-overview"],
    "tooltipLabel": "{marker.name}",
    "tableLabel": "{marker.data.domain}",
    "chartLabel": "{marker.name}",
    "data": [{"key": "domain", "label": "NVTX domain", "format": "string", "searchable": True}],
}


def write(analysis: Run, stream: IO[str], *, all_frames: bool = False) -> None:
    """Write a profile: ASCII only, times in milliseconds from the first sample or range."""
    capture, leaf = as_shown(analysis.capture, all_frames=all_frames), analysis.attribution.leaf
    libraries = _Libraries()
    categories = _Categories()
    head = {"meta": _meta(capture, categories), "threads": []}
    stream.write(json.dumps(head)[: -len("]}")])
    written = 0
    for (pid, tid), name in rows.thread_names(capture).items():
        for event in range(len(capture.events)):
            thread = _Thread((capture, leaf), libraries, categories, event, pid, tid)
            if event and not thread.has_samples:
                continue
            shown = name if not event else f"{name} · {capture.events[event].name}"
            stream.write(", " * bool(written) + json.dumps(thread.as_json(shown, with_ranges=event == 0)))
            written += 1
    stream.write(f'], "libs": {json.dumps(libraries.rows)}}}\n')


def _meta(capture: Capture, categories: _Categories) -> dict[str, Any]:
    time = capture.samples.time_ns
    begin = start_ns(capture)
    end = max([int(column.max()) for column in (time, capture.ranges.end_ns) if len(column)], default=begin)
    return {
        "interval": _interval_ms(capture.events[0], capture) if capture.events else 1,
        "startTime": 0,
        "profilingStartTime": 0,
        "profilingEndTime": (end - begin) / 1e6,
        "processType": 0,
        "product": "pinprof",
        "importedFrom": f"pinprof {__version__}",
        "stackwalk": 1,
        "debug": False,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": PROCESSED_VERSION,
        **dict.fromkeys(_TRUE, True),
        "categories": categories.rows,
        "markerSchema": [_RANGE_SCHEMA],
    }


def _interval_ms(event: Event, capture: Capture) -> float:
    """The time between two samples, which the profiler's graphs take as full load."""
    if event.freq_hz:
        return 1000 / event.freq_hz
    weights = capture.samples.weight[capture.samples.event == 0]
    return float(np.median(weights)) / 1e6 if event.unit == "ns" and len(weights) else 1.0


class _Categories:
    """The category list, and where each leaf stands in it."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = [{"name": _DEFAULT, "color": "grey", "subcategories": ["Other"]}]
        self.place: list[tuple[int, int]] = []
        """By leaf: (category, subcategory)."""
        by_level: dict[str, int] = {}
        for level, meaning in LEVELS:
            by_level[level] = len(self.rows)
            colour = _COLOURS.get(level, "grey")
            self.rows.append({"name": f"{level}: {meaning}", "color": colour, "subcategories": ["Other"]})
        for category in CATEGORIES:
            row = by_level[category.level]
            self.place.append((row, len(self.rows[row]["subcategories"])))
            self.rows[row]["subcategories"].append(category.name)


@dataclass
class _Libraries:
    """The profile's list of DSOs, by base name and build id."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    _number: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, name: str, build_id: str) -> int:
        """Where a DSO stands in the list."""
        key = (name, build_id)
        if key not in self._number:
            self._number[key] = len(self.rows)
            names = dict.fromkeys(("name", "path", "debugName", "debugPath"), name)
            self.rows.append({**names, "breakpadId": "", "codeId": build_id or None, "arch": ""})
        return self._number[key]


class _Thread:
    """One thread's samples of one event, with tables of its own, as the format wants it."""

    def __init__(
        self,
        attributed: tuple[Capture, Int16],
        libraries: _Libraries,
        categories: _Categories,
        event: int,
        pid: int,
        tid: int,
    ) -> None:
        self.capture, leaf = capture, _ = attributed
        self.libraries, self.categories = libraries, categories
        self.event, self.pid, self.tid = capture.events[event], pid, tid
        samples = capture.samples
        self.chosen = np.flatnonzero((samples.event == event) & (samples.pid == pid) & (samples.tid == tid))
        self.leaf = leaf[self.chosen]
        self.begin = start_ns(capture)
        self.strings: dict[str, int] = {}

    @property
    def has_samples(self) -> bool:
        """Whether the thread has any sample of the event."""
        return bool(len(self.chosen))

    def as_json(self, name: str, *, with_ranges: bool) -> dict[str, Any]:
        """The thread as the format spells it."""
        stack_of_sample, stacks, frames = self._stacks()
        markers = self._markers(with_ranges)
        return {
            "name": name,
            "isMainThread": self.pid == self.tid,
            "processType": "default",
            "processName": self.capture.threads.get((self.pid, self.pid), name),
            "processStartupTime": 0,
            "processShutdownTime": None,
            "registerTime": 0,
            "unregisterTime": None,
            "pausedRanges": [],
            "pid": str(self.pid),
            "tid": self.tid,
            "samples": self._samples(stack_of_sample),
            "markers": markers,
            "stackTable": stacks,
            **self._code(frames),
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "stringArray": list(self.strings),
        }

    def _samples(self, stack: list[int | None]) -> dict[str, Any]:
        samples = self.capture.samples
        weight = samples.weight[self.chosen]
        time = samples.time_ns[self.chosen] - self.begin if is_timed(self.capture) else np.cumsum(weight) - weight
        return {
            "stack": stack,
            "time": (time / 1e6).tolist(),
            "weight": (weight / 1e6).tolist() if self.event.unit == "ns" else weight.tolist(),
            "weightType": _WEIGHT_TYPES[self.event.unit],
            "length": len(stack),
        }

    def _stacks(self) -> tuple[list[int | None], dict[str, Any], list[int]]:
        """Per sample its stack, the stack table, and the capture's frames that it uses.

        Every function above a sampled one is a stack of the default category; each pair of sampled node and leaf is a
        stack of its own, so that samples of one node with two causes keep both.
        """
        table = self.capture.stacks
        nodes = self.capture.samples.stack[self.chosen]
        callers = ascending(table.parent[nodes[nodes != NO_NODE]])
        above = set(callers[callers != NO_NODE].tolist())
        for node in list(above):
            while (node := int(table.parent[node])) != NO_NODE and node not in above:
                above.add(node)
        inner = sorted(above)
        place: dict[int, int | None] = {node: number for number, node in enumerate(inner)} | {NO_NODE: None}
        frames: dict[int, int] = {}
        frame = [frames.setdefault(int(table.frame[node]), len(frames)) for node in inner]
        prefix = [place[int(table.parent[node])] for node in inner]
        category, subcategory = [0] * len(inner), [0] * len(inner)
        ends: dict[tuple[int, int], int] = {}
        of_sample: list[int | None] = []
        for node, leaf in zip(nodes.tolist(), self.leaf.tolist(), strict=True):
            if node == NO_NODE:
                of_sample.append(None)
                continue
            if (node, leaf) not in ends:
                ends[node, leaf] = len(frame)
                frame.append(frames.setdefault(int(table.frame[node]), len(frames)))
                prefix.append(place[int(table.parent[node])])
                category.append(self.categories.place[leaf][0])
                subcategory.append(self.categories.place[leaf][1])
            of_sample.append(ends[node, leaf])
        columns = {"frame": frame, "prefix": prefix, "category": category, "subcategory": subcategory}
        return of_sample, {**columns, "length": len(frame)}, list(frames)

    def _code(self, frames: list[int]) -> dict[str, Any]:
        """Frame, function and resource tables: one function per frame, one resource per DSO."""
        table = self.capture.stacks.frames
        names = rows.dso_names(table)
        resources: dict[int, tuple[int, str]] = {}
        resource = []
        for frame in frames:
            dso = int(table.dso[frame])
            number, _ = resources.setdefault(dso, (len(resources), names[frame]))
            resource.append(number)
        count = len(frames)
        nothing: list[None] = [None] * count
        return {
            "frameTable": {
                "address": [-1] * count,
                "inlineDepth": [0] * count,
                **dict.fromkeys(("category", "subcategory"), nothing),
                "func": list(range(count)),
                **dict.fromkeys(("nativeSymbol", "innerWindowID", "implementation", "line", "column"), nothing),
                "length": count,
            },
            "funcTable": {
                "name": [self._string(table.symbol[frame]) for frame in frames],
                **dict.fromkeys(("isJS", "relevantForJS"), [False] * count),
                "resource": resource,
                **dict.fromkeys(("fileName", "lineNumber", "columnNumber"), nothing),
                "length": count,
            },
            "resourceTable": {
                "lib": [self.libraries.number(name, table.dsos[dso].build_id) for dso, (_, name) in resources.items()],
                "name": [self._string(name) for _, name in resources.values()],
                "host": [None] * len(resources),
                "type": [1] * len(resources),
                "length": len(resources),
            },
        }

    def _markers(self, with_ranges: bool) -> dict[str, Any]:
        ranges = self.capture.ranges
        pid, tid = rows.range_threads(self.capture)
        chosen = np.flatnonzero(with_ranges & (pid == self.pid) & (tid == self.tid)).tolist()
        return {
            "name": [self._string(ranges.name[row]) for row in chosen],
            "startTime": ((ranges.start_ns[chosen] - self.begin) / 1e6).tolist(),
            "endTime": ((ranges.end_ns[chosen] - self.begin) / 1e6).tolist(),
            "phase": [1] * len(chosen),
            "category": [0] * len(chosen),
            "data": [{"type": _RANGE_SCHEMA["name"], "domain": ranges.domain[row]} for row in chosen],
            "length": len(chosen),
        }

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))
