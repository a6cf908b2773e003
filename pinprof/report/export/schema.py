"""The JSON Schema of `pinprof report --format json`, made from the records that the report is written from.

An attribute's type says what its entry may be. Every entry that is listed is always there; newer versions may add
others, which the schema allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

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
from pinprof.data.torch_memory import TorchLine, TorchMemory, TorchPool
from pinprof.report.data import CaptureFacts
from pinprof.report.export.typed import (
    DIALECT,
    TEXT,
    TEXTS,
    WEIGHTS,
    WHOLE,
    YES,
    Schema,
    entries_of,
    fields_of,
    list_of,
    of_type,
    or_null,
    record,
)
from pinprof.report.sections import REPORT
from pinprof.report.sections.lines import LineTable


def schema() -> Schema:
    """The schema of a report's JSON; its `properties` have the same order."""
    version = REPORT.head["schema"]
    saving = entries_of({"low": WHOLE, "likely": WHOLE, "high": WHOLE})
    entries = {
        "schema": {"const": version},
        "incomplete": list_of(record(Gap, "kind text damaged")),
        "headline": TEXT,
        "capture": of_type(CaptureFacts),
        "opportunities": list_of(
            record(opportunities.Opportunity,
                   "rank title site causes phase count bytes cost_ns cure basis evidence per_step", saving_ns=saving)
        ),
        "to_measure": list_of(of_type(opportunities.ToMeasure)),
        "refused": list_of(of_type(opportunities.Refused)),
        "unseen": TEXTS,
        "phases": list_of(record(course.Phase, "name wall_ns", intervals=list_of(of_type(tuple[int, int])))),
        "steps": or_null(record(course.Steps, "what count median_ns slowest_ns slowest_start_ns")),
        "critical_thread": or_null(entries_of({"pid": WHOLE, "tid": WHOLE, "name": TEXT})),
        "events": list_of(
            record(EventResult, "name unit samples total heuristic", sampling=TEXT, spans=YES, too_few_samples=YES,
                    samples_needed=WHOLE, leaves=WEIGHTS, work=of_type(Mapping[str, Mapping[str, int]]))
        ),
        "ranges": list_of(_range()),
        "losses": of_type(Losses),
        "rates": or_null(record(Rates, "measured_by measured_utc", age_s=of_type(float | None), count=WHOLE)),
        "findings": list_of(of_type(Finding)),
        "activity": or_null(_activity()),
        "memory": or_null(
            record(MemoryResult, "looks processes lowest_free_bytes growth program_faults hidden_faults",
                    peak=WEIGHTS)
        ),
        "host_memory": or_null(_host_memory()),
        "ledger": or_null(_ledger()),
        "torch": or_null(_torch()),
        "blame": or_null(_blame()),
        "python": list_of(_lines()),
        "lines": list_of(_lines()),
    }  # fmt: skip
    part = dict.fromkeys(("after_ns", "until_ns", "whole_ns"), WHOLE)
    part |= {"ranges": TEXTS, "threads": {"type": "array"}, "processes": {"type": "array"}}
    return {
        "$schema": DIALECT,
        "title": f"pinprof report, schema {version}",
        **entries_of(entries, part=entries_of(part)),
    }


def _range() -> Schema:
    wall = record(RangeWall, "wall_ns on_cpu_ns off_cpu_ns gpu_ns remainder_ns error_ns on_cpu off_cpu")
    names = "name domain depth count wall_ns wall_min_ns wall_median_ns wall_max_ns own_thread_ns"
    events = list_of(record(EventResult, "name total", leaves=WEIGHTS))
    return record(RangeResult, names, parent=of_type(int | None), call=TEXT, wall=or_null(wall), events=events)


def _lines() -> Schema:
    return record(LineTable, "total weight undecided rest rest_weight", event=TEXT, lines=list_of(of_type(SourceLine)))


def _spread(unit: str) -> dict[str, Schema]:
    return {f"{field.name}_{unit}": WHOLE for field in dataclasses.fields(activity.Spread)}


def _activity() -> Schema:
    names = "samples unsampled_ns waits"
    split = or_null(record(activity.CallSplit, names, event=TEXT, leaves=WEIGHTS))
    call = record(
        activity.CallResult,
        "name purpose count first_ns size_bytes ns_per_gib failures errors sites faults",
        split=split,
        **_spread("ns"),
    )
    copy = "direction memory asynchronous count busy_ns host_ns gb_per_s link_share"
    moved = "direction cause count busy_ns gb_per_s in_kernel_count in_kernel_bytes"
    figures = "kernels kernel_ns copy_ns overlap_ns busy_ns lost_ns gpu_fault_groups gpu_faults cpu_faults"
    scope = {
        "calls": list_of(call),
        "copies": list_of(record(activity.CopyResult, copy, **_spread("bytes"))),
        "migrations": list_of(record(activity.MigrationResult, moved, **_spread("bytes"))),
    }
    uvm = (
        "pattern summary gpu_fault_groups gpu_faults gpu_fault_ns cpu_faults kernel_ns lost_ns stalled_ns lost_from "
        "drain_ns drain_bytes block_count flips_per_block moved_per_byte eviction_share sizes"
    )
    device = record(
        activity.DeviceTime,
        "device kernel_ns copy_ns overlap_ns busy_ns span_ns to_device_ns to_host_ns idle_gaps",
        longest_gap_ns=WHOLE,
    )
    return record(
        activity.ActivityAnalysis,
        "source recorded unrecorded span_ns sampled loops memory",
        **record(activity.ScopeActivity, figures, **scope)["properties"],
        context_init=list_of(record(activity.ContextInit, "name pid duration_ns typical_ns", split=split)),
        link=of_type(activity.Link | None),
        devices=list_of(device),
        uvm=or_null(record(activity.UvmAnalysis, uvm)),
        ranges=list_of(
            record(activity.ScopeActivity, f"{figures} devices", range=WHOLE, **scope),
        ),
    )


def _host_memory() -> Schema:
    names = (
        "pid grows made made_bytes again again_bytes most most_bytes given given_bytes elsewhere live making_ns "
        "giving_ns returned"
    )
    given_at = list_of(entries_of({"line": TEXT, "given": WHOLE}))
    line = record(LineBlocks, names, line=TEXT, lifetime_ns=of_type(int | None), given_at=given_at)
    return entries_of(
        {
            "lines": list_of(line),
            "others": record(LineBlocks, "made made_bytes again again_bytes", lines=WHOLE),
            "advice": list_of(entries_of({"call": TEXT, "line": TEXT, "count": WHOLE, "bytes": WHOLE})),
            "before": record(LineBlocks, "made made_bytes"),
            "lost": WHOLE,
        }
    )


def _torch() -> Schema:
    line = record(TorchLine, fields_of(TorchLine), ledger_bytes=WHOLE)
    pool = record(TorchPool, fields_of(TorchPool, without="lines"), lines=list_of(line))
    return record(TorchMemory, "host", pools=list_of(pool), step_bytes=of_type(int | None))


def _ledger() -> Schema:
    summed = "allocations frees requested_bytes granted_bytes live_bytes live_granted_bytes live_count"
    names = "looks counted_bytes ledger_bytes difference_bytes worst_bytes before_bytes beside_bytes agrees time_ns"
    return record(
        ledger.Ledger,
        "sites totals checkpoints_left_out unplaced_copies notes",
        checkpoints=list_of(record(ledger.Checkpoint, "name edge time_ns pid live_bytes by_kind by_line")),
        others=record(ledger.SiteResult, summed, sites=WHOLE),
        kernel={"type": "object", "additionalProperties": record(ledger.KernelView, names)},
        unsized_allocations=WHOLE,
        **record(Allocations, "frees unknown_frees undecided_frees")["properties"],
    )


def _blame() -> Schema:
    site = record(Site, "function file line")
    row = record(
        blame.BlameRow,
        "wait ns count longest_ns longest_at_ns",
        waiter=record(blame.WaitingThread, "pid tid thread", site=site),
        holder=record(blame.Holder, "kind pid tid name causes", site=site, stack=TEXTS),
        certainty=WEIGHTS,
    )
    names = "waited_ns late_ns rest rest_ns recorded recorded_share threads_left_out"
    return record(blame.BlameResult, names, rows=list_of(row))
