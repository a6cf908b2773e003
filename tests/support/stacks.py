"""Captures written down in tests: stacks as text, outermost frame first.

A frame is `name` for the kernel, `name[module]` for a kernel module, `name@dso` for user code; a DSO that ends in `.py`
is a file of Python, whose functions are called `name (file:line)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pinprof.data.model import (
    KERNEL,
    NO_NODE,
    USER,
    Capture,
    ClockSync,
    Dso,
    Event,
    FrameTable,
    Losses,
    Manifest,
    RangeTable,
    SampleTable,
    StackTable,
)

CLOCK = Event("cpu-clock", "ns", 1_000_000, None)
OFF_CPU = Event("off-cpu", "ns", None, None, spans=True)
NO_LOSSES = Losses()
FAULTS = Event("page-faults", "faults", 64, None)


@dataclass(frozen=True)
class Sample:
    stack: Sequence[str]
    weight: int = 1_000_000
    time_ns: int = 0
    pid: int = 100
    tid: int = 100
    event: int = 0
    ip: int = 0
    address: int = 0


@dataclass(frozen=True)
class Range:
    name: str
    start_ns: int
    end_ns: int
    depth: int = 0
    pid: int = -1
    tid: int = -1
    domain: str = "pinprof"


_PLACED = re.compile(r"(.*) \((.*?)(?::(\d+))?\)", re.DOTALL)
"""`NAME (FILE:LINE)`, or without a line."""


def with_places(frames: FrameTable, source: Sequence[str]) -> FrameTable:
    """Frames of these source files, empty where a frame has none, whose names say their lines."""
    placed = [_PLACED.fullmatch(name) if path else None for name, path in zip(frames.function, source, strict=True)]
    function = tuple(match[1] if match else name for match, name in zip(placed, frames.function, strict=True))
    line = tuple(int(match[3] or 0) if match else 0 for match in placed)
    native = tuple(
        "" if frames.dsos[dso].kind == "python" else path for path, dso in zip(source, frames.dso.tolist(), strict=True)
    )
    return replace(frames, function=function, line=line, source=native if any(native) else ())


def frame(text: str) -> tuple[str, Dso, int]:
    if "@" in text:
        symbol, _, path = text.rpartition("@")
        kinds: dict[str, Any] = {"[vdso]": "vdso", "[anon]": "anon"}
        python = path.endswith((".py", ">")) or symbol.startswith("<module> ")
        return symbol, Dso(path, "", kinds.get(path, "python" if python else "file")), USER
    if text.endswith("]") and not text.startswith("["):
        symbol, _, module = text.rpartition("[")
        return symbol, Dso(f"[{module}", "", "module"), KERNEL
    return text, Dso("[kernel.kallsyms]", "", "kernel"), KERNEL


def capture(
    samples: Sequence[Sample],
    ranges: Sequence[Range] = (),
    threads: Mapping[tuple[int, int], str] | None = None,
    events: tuple[Event, ...] = (CLOCK,),
    losses: Losses = NO_LOSSES,
    scenario: Mapping[str, Any] | None = None,
) -> Capture:
    dsos: dict[Dso, int] = {}
    frames: dict[tuple[str, Dso, int], int] = {}
    nodes: dict[tuple[int, int], int] = {}
    ordered = sorted(samples, key=lambda sample: sample.time_ns)
    stacks = []
    for sample in ordered:
        node = NO_NODE
        for text in sample.stack:
            symbol, dso, mode = frame(text)
            dsos.setdefault(dso, len(dsos))
            number = frames.setdefault((symbol, dso, mode), len(frames))
            node = nodes.setdefault((node, number), len(nodes))
        stacks.append(node)

    def column(name: str, kind: Any) -> Any:
        return np.array([getattr(sample, name) for sample in ordered], kind)

    shown = sorted(ranges, key=lambda entry: (entry.start_ns, entry.depth))
    return Capture(
        path="test",
        manifest=Manifest(1, "0", (), scenario or {}, {}, ({"name": "native", "version": "0"},), {}),
        events=events,
        samples=SampleTable(
            time_ns=column("time_ns", np.int64),
            pid=column("pid", np.int32),
            tid=column("tid", np.int32),
            cpu=np.full(len(ordered), -1, np.int32),
            event=column("event", np.int16),
            weight=column("weight", np.int64),
            stack=np.array(stacks, np.int32),
            ip=column("ip", np.uint64),
            address=column("address", np.uint64),
        ),
        stacks=StackTable(
            parent=np.array([parent for parent, _ in nodes], np.int32),
            frame=np.array([number for _, number in nodes], np.int32),
            frames=with_places(
                FrameTable(
                    function=tuple(symbol for symbol, _, _ in frames),
                    dso=np.array([dsos[dso] for _, dso, _ in frames], np.int32),
                    mode=np.array([mode for _, _, mode in frames], np.uint8),
                    dsos=tuple(dsos),
                ),
                [dso.path if dso.kind == "python" else "" for _, dso, _ in frames],
            ),
        ),
        ranges=RangeTable(
            name=tuple(entry.name for entry in shown),
            domain=tuple(entry.domain for entry in shown),
            start_ns=np.array([entry.start_ns for entry in shown], np.int64),
            end_ns=np.array([entry.end_ns for entry in shown], np.int64),
            pid=np.array([entry.pid for entry in shown], np.int32),
            tid=np.array([entry.tid for entry in shown], np.int32),
            depth=np.array([entry.depth for entry in shown], np.int32),
        ),
        threads=threads or {(sample.pid, sample.tid): "test" for sample in ordered},
        clock=ClockSync("monotonic", 0, 0),
        losses=losses,
    )
