"""A small hand-written report, shared by the tests of the writers: every number in it can be checked by eye."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from rich.console import Console

from pinprof.analyze import Run
from pinprof.analyze.ranges.paths import RangePath
from pinprof.analyze.results import EventResult, Finding, RangeResult
from pinprof.data.model import Event, Losses
from pinprof.report.data import CaptureFacts, Cause, Explained, Shared
from pinprof.report.flame import FlameData, RangeRows, Thread
from pinprof.report.gather import ReportData, report_of
from pinprof.report.sections.findings import Findings
from pinprof.report.sections.quality import Quality

CAUSES = (
    Cause("fault.anon", "fault", "first touch of malloc'd memory", "Reuse buffers."),
    Cause("pin.faultin", "pin", "pages created while being pinned", "Touch the memory first."),
    Cause("pin.walk", "pin", "pinning pages that are there already", "Register once."),
    Cause("user.app", "user", "the program's own code", ""),
)
FUNCTIONS = ("all", "main", "cudaMallocHost", "pin_user_pages", "clear_page_erms", "gup_fast", "compute")
SPREAD = (100_000_000, 300_000_000, 500_000_000)
DSOS = ("", "app", "libcuda.so.1", "[kernel.kallsyms]")


def text_of(report: ReportData, width: int = 80) -> str:
    """What a terminal of so many columns shows, without colours."""
    stream = io.StringIO()
    report.show(Console(file=stream, width=width, no_color=True, highlight=False, markup=False))
    return stream.getvalue()


def assembled(shared: Shared, findings: Sequence[Finding] = (), losses: Losses = Losses()) -> ReportData:  # noqa: B008
    """A report of hand-written values: every section that needs no more of an analysis than this."""
    given = SimpleNamespace(
        findings=tuple(findings), part=None,
        capture=SimpleNamespace(losses=losses, rates=None, host_memory=None, torch=None),
        memory=None, python=(), lines=(), course=None, opportunities=None,
        blame=None, ledger=None,
    )  # fmt: skip
    return report_of(Explained(cast("Run", given), replace(shared, drawn=False)))


def rebuilt(
    report: ReportData, findings: Sequence[Finding] | None = None, losses: Losses | None = None, **changes: Any
) -> ReportData:
    """The same report of other values."""
    shared = Shared(**{field.name: getattr(report, field.name) for field in fields(Shared)} | changes)
    had, quality = Findings.of(report), Quality.of(report)
    assert quality is not None
    if findings is None:
        findings = had.all if had else ()
    return assembled(shared, findings, quality.losses if losses is None else losses)


def sample_report(function: str = "compute", text: str = "alloc", backend: str = "host") -> ReportData:
    """1 s of cpu-clock and 100 faults; `function` names one function, `text` one range, path, command word and note."""
    clock, faults = Event("cpu-clock/freq=999/", "ns", None, 999), Event("page-faults/period=1/", "faults", 1, None)
    alloc = _result(clock, {"pin.faultin": 600_000_000, "pin.walk": 100_000_000})
    init = _result(clock, {"user.app": 300_000_000})
    whole = _result(
        clock,
        {"pin.faultin": 600_000_000, "user.app": 300_000_000, "pin.walk": 100_000_000},
        {"pin.faultin": {"zero": 400_000_000, "alloc": 200_000_000}, "user.app": {"other": 300_000_000}},
        samples=1000,
    )
    touched = _result(faults, {"fault.anon": 100}, {"fault.anon": {"zero": 100}}, samples=100)
    none = _result(faults, {})
    shared = Shared(
        headline="70 % of cudaMallocHost is pin_user_pages; 60 % is creating the pages",
        capture=CaptureFacts(
            path=f"{text}.pinprof",
            tool_version="0.1",
            command=("pinprof", "run", "pinned", "--size", "256MiB", text),
            scenario={
                "name": "pinned",
                "backend": backend,
                "parameters": {"size_bytes": 1 << 28, "iterations": 2},
                "emulation": "Pages of a memfd pinned by io_uring registered buffers." if backend == "host" else "",
            },
            host={"kernel": "6.18.0", "cpu": {"model": "EPYC", "count": 2}, "memory_bytes": 8 << 30},
            collectors=({"name": "perf", "version": "6.1", "command": ["perf", "record", "-g", "--", text]},),
            outcome={"state": "complete", "exit_status": 0, "notes": []},
            clock={"source": "monotonic", "offset_ns": 0, "uncertainty_ns": 0},
        ),
        causes=CAUSES,
        events=(whole, touched),
        ranges=(
            _range(("iteration",), 1_010_000_000, 1_000_000_000, whole, none),
            _range(("iteration", text), 700_000_000, None, alloc, _result(faults, {"fault.anon": 20})),
            _range(("iteration", "init"), 400_000_000, 300_000_000, init, none),
        ),
        phase_calls={text: "cudaMallocHost"},
        flame=replace(flame(), names=(*FUNCTIONS[:-1], function), dsos=DSOS),
    )
    findings = (
        Finding(
            "first-touch-in-pin",
            "warning",
            "Pages are created inside the pin",
            ("60 % of alloc", text),
            "Touch first.",
            "",
            "first-touch-in-pin",
        ),
        Finding("slow-link", "not-assessable", "Slow link", (), "", "no transfers are in the recording", "slow-link"),
    )
    return assembled(shared, findings, Losses(lost_samples=3, unresolved_frames=7, notes=(f"A note about {text}.",)))


def _result(
    event: Event, leaves: Mapping[str, int], work: Mapping[str, Mapping[str, int]] | None = None, samples: int = 0
) -> EventResult:
    levels: dict[str, int] = {}
    for leaf, weight in leaves.items():
        level = leaf.partition(".")[0]
        levels[level] = levels.get(level, 0) + weight
    return EventResult(event, samples, sum(leaves.values()), leaves, work or {}, levels, {}, 0)


@cache
def _path(names: tuple[str, ...]) -> RangePath:
    """Every path exists once."""
    return RangePath(names[-1], "pinprof", _path(names[:-1]) if names[1:] else None, len(names) - 1)


def _range(names: tuple[str, ...], wall_ns: int, own_thread_ns: int | None, *events: EventResult) -> RangeResult:
    return RangeResult(_path(names), 2, wall_ns, *SPREAD, events, own_thread_ns)


MS = 1_000_000
STACKS = (
    # (functions by their index, cause, ms of cpu-clock, faults, thread)
    ((1, 2, 3, 4), 1, 600, 0, 0),
    ((1, 2, 3, 5), 2, 100, 0, 0),
    ((1, 6), 3, 300, 0, 1),
    ((1,), 0, 0, 100, 0),
)


def flame(repeats: int = 10) -> FlameData:
    """main > (cudaMallocHost > pin_user_pages > (clear_page_erms 600, gup_fast 100), compute 300), in ms.

    Every stack comes in `repeats` samples; ranges: iteration holds all, the second all but compute, init compute.
    """
    rows = [
        (node, event, cause, thread, weight)
        for (_, cause, ms, faults, thread), node in zip(STACKS, (3, 4, 5, 0), strict=True)
        for event, weight in ((0, ms * MS), (1, faults))
        if weight
    ]
    samples = [(*row[:4], row[4] // repeats) for row in rows for _ in range(repeats)]
    node, event, cause, thread, weight = np.array(samples, np.int64).T
    count = len(samples)
    return FlameData(
        frame_name=np.arange(1, 7, dtype=np.int32),
        frame_dso=np.array([1, 2, 3, 3, 3, 1], np.int32),
        frame_kind=np.array([0, 0, 1, 1, 1, 0], np.uint8),
        depth=np.array([0, 1, 2, 3, 3, 1], np.int16),
        node_frame=np.arange(6, dtype=np.int32),
        decided=np.array([0, -1, -1, 1, 1, -1], np.int16),
        node=node.astype(np.int32),
        event=event.astype(np.uint8),
        cause=cause.astype(np.int16),
        likely=np.zeros(count, np.uint8),
        thread=thread.astype(np.int32),
        weight=weight,
        time_ns=np.arange(count, dtype=np.int64) * MS,
        threads=(Thread(100, 100, "main"), Thread(100, 101, "worker")),
        timed=True,
        names=FUNCTIONS,
        dsos=DSOS,
        ranges=RangeRows(
            np.array([0, 1, 1, 2], np.int32),
            np.array([0, 0, 3 * repeats, 2 * repeats], np.int32),
            np.array([count, 2 * repeats, count, 3 * repeats], np.int32),
        ),
    )
