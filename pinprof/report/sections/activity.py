"""CUDA and GPU activity as JSON: exact integers, `_ns` and `_bytes` in the keys.

The page and the terminal show it in three sections: calls, transfers, managed memory (`calls`, `transfers`, `uvm`).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pinprof.analyze import Analysis
from pinprof.analyze.activity.results import (
    ActivityAnalysis,
    CallResult,
    CallSplit,
    ContextInit,
    CopyResult,
    MigrationResult,
    ScopeActivity,
    Spread,
    UvmAnalysis,
)
from pinprof.report.data import ReportData, Shared
from pinprof.report.section import Section


def _activity(activity: ActivityAnalysis) -> dict[str, Any]:
    """Everything but single points and intervals: those are drawn, and the tables of `--format csv` have them all."""
    return {
        "source": activity.source,
        "recorded": sorted(activity.recorded),
        "span_ns": activity.span_ns,
        **_scope(activity.whole),
        "context_init": [_context(entry) for entry in activity.context_init],
        "loops": [asdict(loop) for loop in activity.loops],
        "link": asdict(activity.transfers.link) if activity.transfers.link else None,
        "devices": [
            {
                "device": device.device,
                "span_ns": device.span_ns,
                "busy_ns": device.busy_ns,
                "kernel_ns": device.kernel_ns,
                "copy_ns": device.copy_ns,
                "overlap_ns": device.overlap_ns,
                "idle_gaps": device.idle_gaps,
                "longest_gap_ns": device.longest_gaps[0][1] if device.longest_gaps else 0,
            }
            for device in activity.transfers.devices
        ],
        "uvm": _uvm(activity.uvm) if activity.uvm else None,
        "memory": asdict(activity.memory) if activity.memory else None,
        "ranges": [{"path": list(scope.path), **_scope(scope)} for scope in activity.ranges],
    }


def _scope(scope: ScopeActivity) -> dict[str, Any]:
    return {
        "calls": [_call(call) for call in scope.calls],
        "copies": [_copy(copy) for copy in scope.copies],
        "migrations": [_migration(moved) for moved in scope.migrations],
        "kernels": scope.kernels,
        "kernel_ns": scope.kernel_ns,
        "copy_ns": scope.copy_ns,
        "overlap_ns": scope.overlap_ns,
        "busy_ns": scope.busy_ns,
        "lost_ns": scope.lost_ns,
        "gpu_fault_groups": scope.gpu_fault_groups,
        "gpu_faults": scope.gpu_faults,
        "cpu_faults": scope.cpu_faults,
    }


def _spread(spread: Spread, unit: str) -> dict[str, int]:
    return {
        f"total_{unit}": spread.total,
        f"least_{unit}": spread.least,
        f"median_{unit}": spread.median,
        f"most_{unit}": spread.most,
    }


def _call(call: CallResult) -> dict[str, Any]:
    return {
        "name": call.name,
        "purpose": call.purpose,
        "count": call.count,
        **_spread(call.time_ns, "ns"),
        "first_ns": call.first_ns,
        "size_bytes": call.size_bytes,
        "ns_per_gib": call.ns_per_gib,
        "failures": call.failures,
        "split": _split(call.split),
        "sites": [{"name": site.name, "count": site.count, "time_ns": site.time_ns} for site in call.sites],
    }


def _context(entry: ContextInit) -> dict[str, Any]:
    return {
        "name": entry.name,
        "pid": entry.pid,
        "duration_ns": entry.duration_ns,
        "typical_ns": entry.typical_ns,
        "split": _split(entry.split),
    }


def _split(split: CallSplit | None) -> dict[str, Any] | None:
    if split is None:
        return None
    return {
        "event": split.event.name,
        "samples": split.samples,
        "leaves": dict(split.by_leaf),
        "unsampled_ns": split.unsampled_ns,
        "waits": split.waits,
    }


def _copy(copy: CopyResult) -> dict[str, Any]:
    return {
        "direction": copy.direction,
        "memory": copy.memory,
        "asynchronous": copy.asynchronous,
        "count": copy.count,
        **_spread(copy.size_bytes, "bytes"),
        "busy_ns": copy.busy_ns,
        "host_ns": copy.host_ns,
        "gb_per_s": copy.gb_per_s,
        "link_share": copy.link_share,
    }


def _migration(moved: MigrationResult) -> dict[str, Any]:
    return {
        "direction": moved.direction,
        "cause": moved.cause,
        "count": moved.count,
        **_spread(moved.size_bytes, "bytes"),
        "busy_ns": moved.busy_ns,
        "gb_per_s": moved.gb_per_s,
        "in_kernel_count": moved.in_kernel_count,
        "in_kernel_bytes": moved.in_kernel_bytes,
    }


def _uvm(uvm: UvmAnalysis) -> dict[str, Any]:
    return {
        "pattern": uvm.pattern,
        "summary": uvm.summary,
        "gpu_fault_groups": uvm.gpu_fault_groups,
        "gpu_faults": uvm.gpu_faults,
        "gpu_fault_ns": uvm.gpu_fault_ns,
        "cpu_faults": uvm.cpu_faults,
        "kernel_ns": uvm.kernel_ns,
        "lost_ns": uvm.lost_ns,
        "lost_from": uvm.lost_from,
        "drain_ns": uvm.drain_ns,
        "drain_bytes": uvm.drain_bytes,
        "block_count": uvm.block_count,
        "flips_per_block": uvm.flips_per_block,
        "moved_per_byte": uvm.moved_per_byte,
        "eviction_share": uvm.eviction_share,
        "sizes": [
            {
                "direction": histogram.direction,
                "at_least_bytes": histogram.at_least_bytes.tolist(),
                "count": histogram.count.tolist(),
                "size_bytes": histogram.size_bytes.tolist(),
            }
            for histogram in uvm.sizes
        ],
    }


def _build(_: Analysis, shared: Shared) -> ActivityAnalysis | None:
    return shared.activity


def _to_json(activity: ActivityAnalysis | None, _: ReportData) -> dict[str, Any]:
    return {"activity": _activity(activity) if activity else None}


ACTIVITY = Section("activity", "", _build, on_page=lambda _: False, to_json=_to_json)
