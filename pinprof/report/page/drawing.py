"""What the page's scripts draw over time, as compact JSON: columns, starts as steps from one to the next."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pinprof.model import Int64
from pinprof.report.data import ReportData
from pinprof.report.flame import pack
from pinprof.report.migration_field import FIELD_STYLES, Marks, MigrationField
from pinprof.report.names import shortened
from pinprof.report.styles import Style
from pinprof.report.thinning import Spans
from pinprof.report.timeline import Timeline

NAME_WIDTH = 160
"""Longer names are shortened in the middle."""


def packed(data: ReportData) -> str:
    """The timeline and the migrations' field, compressed; empty without either."""
    field = data.activity.field if data.activity else None
    if data.timeline is None and field is None:
        return ""
    content = {
        "timeline": _timeline(data.timeline) if data.timeline else None,
        "field": _field(field, field.start_ns - (data.timeline.start_ns if data.timeline else 0)) if field else None,
    }
    return pack(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def _timeline(timeline: Timeline) -> dict[str, Any]:
    return {
        "span": timeline.span_ns,
        "bin": timeline.bin_ns,
        "event": shortened(timeline.event, NAME_WIDTH),
        "unit": timeline.unit,
        "samplesStart": timeline.samples_start_ns,
        "densities": [
            {
                "heading": shortened(density.heading, NAME_WIDTH),
                "title": density.title,
                "bin": density.bin.tolist(),
                "cause": density.cause.tolist(),
                "weight": density.weight.tolist(),
            }
            for density in timeline.densities
        ],
        "lanes": [
            {
                "heading": shortened(lane.heading, NAME_WIDTH),
                "title": lane.title,
                "kind": lane.kind,
                "total": lane.total,
                **_spans(lane.spans),
            }
            for lane in timeline.lanes
        ],
        "memory": [
            {
                "title": use.title,
                "style": use.style,
                "time": use.time_ns.tolist(),
                "level": use.level_bytes.tolist(),
            }
            for use in timeline.memory
        ],
        "styles": _styles(timeline.styles),
        "names": [shortened(name, NAME_WIDTH) for name in timeline.names],
        "threads": {shortened(heading, NAME_WIDTH): number for heading, number in timeline.threads.items()},
    }


def _field(field: MigrationField, start: int) -> dict[str, Any]:
    return {
        "span": field.span_ns,
        "extent": field.place_bytes,
        "count": field.count,
        "bySize": _marks(field.by_size),
        "byPlace": None if field.by_place is field.by_size else _marks(field.by_place),
        "kernels": _spans(field.kernels),
        "faults": _spans(field.faults),
        "styles": _styles(FIELD_STYLES),
        "start": start,
        "blocks": None
        if field.blocks is None
        else {name: column.tolist() for name, column in vars(field.blocks).items()},
    }


def _marks(marks: Marks) -> dict[str, list[int]]:
    return {**_spans(marks.spans), "place": marks.place.tolist()}


def _spans(spans: Spans) -> dict[str, list[int]]:
    merged = bool((spans.count > 1).any())
    return {
        "start": _steps(spans.start_ns),
        "length": (spans.end_ns - spans.start_ns).tolist(),
        "style": spans.style.tolist(),
        "name": spans.name.tolist(),
        "depth": spans.depth.tolist() if spans.depth.any() else [],
        "size": spans.size_bytes.tolist() if spans.size_bytes.any() else [],
        "count": spans.count.tolist() if merged else [],
        "busy": spans.busy_ns.tolist() if merged else [],
    }


def _steps(values: Int64) -> list[int]:
    steps: list[int] = np.diff(values, prepend=0).tolist()
    return steps


def _styles(styles: tuple[Style, ...]) -> list[dict[str, str]]:
    return [{"label": style.label, "level": style.level} for style in styles]
