"""The JSON Schema of `pinprof report --format json`, made from the records that the report is written from.

An attribute's type says what its entry may be. Every entry that is listed is always there; newer versions may add
others, which the schema allows.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

import numpy as np

from pinprof.analyze.activity import results as activity
from pinprof.analyze.allocations.blocks import LineBlocks
from pinprof.analyze.allocations.results import Allocations
from pinprof.analyze.blame import results as blame
from pinprof.analyze.completeness import Gap
from pinprof.analyze.course import results as course
from pinprof.analyze.ledger import results as ledger
from pinprof.analyze.lines import SourceLine
from pinprof.analyze.memory import MemoryResult
from pinprof.analyze.opportunities import results as opportunities
from pinprof.analyze.results import EventResult, Finding, RangeResult, RangeWall
from pinprof.analyze.sites import Site
from pinprof.data.model import Losses
from pinprof.data.rates import Rates
from pinprof.report.data import CaptureFacts
from pinprof.report.sections import REPORT
from pinprof.report.sections.lines import LineTable

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}


def of_type(hint: Any) -> Schema:
    """The schema of a type whose values JSON holds as `dataclasses.asdict` gives them; TypeError where it cannot."""
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Any:
        return {}
    if kind is typing.Literal:
        return {"enum": list(inner)}
    if kind in (typing.Union, types.UnionType):
        return {"anyOf": [of_type(one) for one in inner]}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is np.ndarray:
        return _list(_WHOLE)
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind, " ".join(field.name for field in dataclasses.fields(kind)))
    if issubclass(kind, Mapping):
        return {"type": "object", "additionalProperties": of_type(inner[1])}
    if issubclass(kind, tuple) and inner[-1] is not ...:
        row = [of_type(one) for one in inner]
        return {"type": "array", "prefixItems": row, "minItems": len(row), "maxItems": len(row)}
    if issubclass(kind, Collection):
        return _list(of_type(inner[0]))
    raise TypeError(f"JSON has no {hint}.")


def _record(kind: type, names: str, **others: Schema) -> Schema:
    """An object with attributes of a class, named with blanks between them as in `section.picked`, and `others`."""
    hints = typing.get_type_hints(kind)
    for name in names.split():
        if name not in hints:
            made = getattr(kind, name)
            hints[name] = typing.get_type_hints(getattr(made, "fget", None) or made.func)["return"]
    return _object({name: of_type(hints[name]) for name in names.split()} | others)


def _object(entries: Mapping[str, Schema], **optional: Schema) -> Schema:
    return {"type": "object", "properties": {**entries, **optional}, "required": list(entries)}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, of_type(type(None))]}


_WHOLE, _TEXT, _YES = of_type(int), of_type(str), of_type(bool)
_WEIGHTS, _TEXTS = of_type(Mapping[str, int]), of_type(list[str])


def schema() -> Schema:
    """The schema of a report's JSON; its `properties` have the same order."""
    version = REPORT.head["schema"]
    saving = _object({"low": _WHOLE, "likely": _WHOLE, "high": _WHOLE})
    entries = {
        "schema": {"const": version},
        "incomplete": _list(_record(Gap, "kind text damaged")),
        "headline": _TEXT,
        "capture": of_type(CaptureFacts),
        "opportunities": _list(
            _record(opportunities.Opportunity, "rank title site causes phase count bytes cost_ns cure basis evidence",
                    saving_ns=saving)
        ),
        "to_measure": _list(of_type(opportunities.ToMeasure)),
        "refused": _list(of_type(opportunities.Refused)),
        "unseen": _TEXTS,
        "phases": _list(_record(course.Phase, "name wall_ns", intervals=_list(of_type(tuple[int, int])))),
        "steps": _or_null(_record(course.Steps, "what count median_ns slowest_ns slowest_start_ns")),
        "critical_thread": _or_null(_object({"pid": _WHOLE, "tid": _WHOLE, "name": _TEXT})),
        "events": _list(
            _record(EventResult, "name unit samples total heuristic", sampling=_TEXT, spans=_YES, too_few_samples=_YES,
                    samples_needed=_WHOLE, leaves=_WEIGHTS, work=of_type(Mapping[str, Mapping[str, int]]))
        ),
        "ranges": _list(_range()),
        "losses": of_type(Losses),
        "rates": _or_null(_record(Rates, "measured_by measured_utc", age_s=of_type(float | None), count=_WHOLE)),
        "findings": _list(of_type(Finding)),
        "activity": _or_null(_activity()),
        "memory": _or_null(
            _record(MemoryResult, "looks processes lowest_free_bytes growth program_faults hidden_faults",
                    peak=_WEIGHTS)
        ),
        "host_memory": _or_null(_host_memory()),
        "ledger": _or_null(_ledger()),
        "blame": _or_null(_blame()),
        "python": _list(_lines()),
        "lines": _list(_lines()),
    }  # fmt: skip
    part = dict.fromkeys(("after_ns", "until_ns", "whole_ns"), _WHOLE)
    part |= {"ranges": _TEXTS, "threads": {"type": "array"}, "processes": {"type": "array"}}
    return {"$schema": DIALECT, "title": f"pinprof report, schema {version}", **_object(entries, part=_object(part))}


def _range() -> Schema:
    wall = _record(RangeWall, "wall_ns on_cpu_ns off_cpu_ns gpu_ns remainder_ns error_ns on_cpu off_cpu")
    names = "name domain depth count wall_ns wall_min_ns wall_median_ns wall_max_ns own_thread_ns"
    events = _list(_record(EventResult, "name total", leaves=_WEIGHTS))
    return _record(RangeResult, names, parent=of_type(int | None), call=_TEXT, wall=_or_null(wall), events=events)


def _lines() -> Schema:
    return _record(LineTable, "total weight undecided rest rest_weight", event=_TEXT, lines=_list(of_type(SourceLine)))


def _spread(unit: str) -> dict[str, Schema]:
    return {f"{field.name}_{unit}": _WHOLE for field in dataclasses.fields(activity.Spread)}


def _activity() -> Schema:
    names = "samples unsampled_ns waits"
    split = _or_null(_record(activity.CallSplit, names, event=_TEXT, leaves=_WEIGHTS))
    call = _record(
        activity.CallResult,
        "name purpose count first_ns size_bytes ns_per_gib failures errors sites faults",
        split=split,
        **_spread("ns"),
    )
    copy = "direction memory asynchronous count busy_ns host_ns gb_per_s link_share"
    moved = "direction cause count busy_ns gb_per_s in_kernel_count in_kernel_bytes"
    figures = "kernels kernel_ns copy_ns overlap_ns busy_ns lost_ns gpu_fault_groups gpu_faults cpu_faults"
    scope = {
        "calls": _list(call),
        "copies": _list(_record(activity.CopyResult, copy, **_spread("bytes"))),
        "migrations": _list(_record(activity.MigrationResult, moved, **_spread("bytes"))),
    }
    uvm = (
        "pattern summary gpu_fault_groups gpu_faults gpu_fault_ns cpu_faults kernel_ns lost_ns stalled_ns lost_from "
        "drain_ns drain_bytes block_count flips_per_block moved_per_byte eviction_share sizes"
    )
    device = _record(
        activity.DeviceTime,
        "device kernel_ns copy_ns overlap_ns busy_ns span_ns to_device_ns to_host_ns idle_gaps",
        longest_gap_ns=_WHOLE,
    )
    return _record(
        activity.ActivityAnalysis,
        "source recorded unrecorded span_ns sampled loops memory",
        **_record(activity.ScopeActivity, figures, **scope)["properties"],
        context_init=_list(_record(activity.ContextInit, "name pid duration_ns typical_ns", split=split)),
        link=of_type(activity.Link | None),
        devices=_list(device),
        uvm=_or_null(_record(activity.UvmAnalysis, uvm)),
        ranges=_list(
            _record(activity.ScopeActivity, f"{figures} devices", range=_WHOLE, **scope),
        ),
    )


def _host_memory() -> Schema:
    names = (
        "pid grows made made_bytes again again_bytes most most_bytes given given_bytes elsewhere live making_ns "
        "giving_ns returned"
    )
    given_at = _list(_object({"line": _TEXT, "given": _WHOLE}))
    line = _record(LineBlocks, names, line=_TEXT, lifetime_ns=of_type(int | None), given_at=given_at)
    return _object(
        {
            "lines": _list(line),
            "others": _record(LineBlocks, "made made_bytes again again_bytes", lines=_WHOLE),
            "advice": _list(_object({"call": _TEXT, "line": _TEXT, "count": _WHOLE, "bytes": _WHOLE})),
            "before": _record(LineBlocks, "made made_bytes"),
            "lost": _WHOLE,
        }
    )


def _ledger() -> Schema:
    summed = "allocations frees requested_bytes granted_bytes live_bytes live_granted_bytes live_count"
    names = "looks counted_bytes ledger_bytes difference_bytes worst_bytes before_bytes beside_bytes agrees time_ns"
    return _record(
        ledger.Ledger,
        "sites totals checkpoints_left_out unplaced_copies notes",
        checkpoints=_list(_record(ledger.Checkpoint, "name edge time_ns pid live_bytes by_kind by_line")),
        others=_record(ledger.SiteResult, summed, sites=_WHOLE),
        kernel={"type": "object", "additionalProperties": _record(ledger.KernelView, names)},
        unsized_allocations=_WHOLE,
        **_record(Allocations, "frees unknown_frees undecided_frees")["properties"],
    )


def _blame() -> Schema:
    site = _record(Site, "function file line")
    row = _record(
        blame.BlameRow,
        "wait ns count longest_ns longest_at_ns",
        waiter=_record(blame.WaitingThread, "pid tid thread", site=site),
        holder=_record(blame.Holder, "kind pid tid name causes", site=site, stack=_TEXTS),
        certainty=_WEIGHTS,
    )
    names = "waited_ns late_ns rest rest_ns recorded recorded_share threads_left_out"
    return _record(blame.BlameResult, names, rows=_list(row))
