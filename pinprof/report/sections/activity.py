"""CUDA and GPU activity as JSON: exact integers, `_ns` and `_bytes` in the keys.

The page and the terminal show it in three sections: calls, transfers, managed memory (`calls`, `transfers`, `uvm`).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

from pinprof.analyze.activity.results import (
    ActivityAnalysis,
    CallResult,
    CallSplit,
    CopyResult,
    MigrationResult,
    ScopeActivity,
    Spread,
    UvmAnalysis,
)
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.section import Section, listed, picked

_WORK = "device kernel_ns copy_ns overlap_ns busy_ns"


@dataclass(frozen=True)
class ActivityEntry(Section[Explained]):
    """All of it in one entry."""

    key = "activity"
    after = (("json", "findings"),)
    absent = (("activity", None),)

    activity: ActivityAnalysis

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None when nothing traced the program."""
        return cls(subject.shared.activity) if subject.shared.activity else None

    def on_page(self) -> bool:
        """It has no template."""
        return False

    def to_json(self) -> dict[str, Any]:
        """Everything but single points and intervals: those are drawn, and `--format csv` has them all."""
        activity = self.activity
        data = {
            "source": activity.source,
            "recorded": sorted(activity.recorded),
            "unrecorded": sorted(activity.unrecorded),
            "span_ns": activity.span_ns,
            **_scope(activity.whole),
            "context_init": [
                picked(entry, "name pid duration_ns typical_ns") | {"split": _split(entry.split)}
                for entry in activity.context_init
            ],
            "sampled": [asdict(sample) for sample in activity.sampled],
            "loops": [asdict(loop) for loop in activity.loops],
            "link": asdict(activity.transfers.link) if activity.transfers.link else None,
            "devices": [
                picked(device, f"{_WORK} span_ns to_device_ns to_host_ns idle_gaps")
                | {"longest_gap_ns": device.longest_gaps[0][1] if device.longest_gaps else 0}
                for device in activity.transfers.devices
            ],
            "uvm": _uvm(activity.uvm) if activity.uvm else None,
            "memory": asdict(activity.memory) if activity.memory else None,
            "ranges": [
                {"range": number, **_scope(scope)} | {"devices": [picked(device, _WORK) for device in scope.devices]}
                for number, scope in enumerate(activity.ranges)
            ],
        }
        return {"activity": data}


def _scope(scope: ScopeActivity) -> dict[str, Any]:
    return {
        "calls": [_call(call) for call in scope.calls],
        "copies": [_copy(copy) for copy in scope.copies],
        "migrations": [_migration(moved) for moved in scope.migrations],
    } | picked(scope, "kernels kernel_ns copy_ns overlap_ns busy_ns lost_ns gpu_fault_groups gpu_faults cpu_faults")


def _spread(spread: Spread, unit: str) -> dict[str, int]:
    return {f"{name}_{unit}": value for name, value in picked(spread, "total least median most").items()}


def _call(call: CallResult) -> dict[str, Any]:
    return {
        **picked(call, "name purpose count"),
        **_spread(call.time_ns, "ns"),
        **picked(call, "first_ns size_bytes ns_per_gib failures"),
        "split": _split(call.split),
        "errors": [picked(error, "name status count") for error in call.errors],
        "sites": [picked(site, "name count time_ns") for site in call.sites],
        "faults": picked(call.faults, "calls minor major") if call.faults else None,
    }


def _split(split: CallSplit | None) -> dict[str, Any] | None:
    if split is None:
        return None
    head = {"event": split.event.name, "samples": split.samples, "leaves": dict(split.by_leaf)}
    return head | picked(split, "unsampled_ns waits")


def _copy(copy: CopyResult) -> dict[str, Any]:
    head = picked(copy, "direction memory asynchronous count")
    return head | _spread(copy.size_bytes, "bytes") | picked(copy, "busy_ns host_ns gb_per_s link_share")


def _migration(moved: MigrationResult) -> dict[str, Any]:
    head = picked(moved, "direction cause count")
    return head | _spread(moved.size_bytes, "bytes") | picked(moved, "busy_ns gb_per_s in_kernel_count in_kernel_bytes")


def _uvm(uvm: UvmAnalysis) -> dict[str, Any]:
    figures = (
        "pattern summary gpu_fault_groups gpu_faults gpu_fault_ns cpu_faults kernel_ns lost_ns stalled_ns lost_from "
        "drain_ns drain_bytes block_count flips_per_block moved_per_byte eviction_share"
    )
    columns = "at_least_bytes count size_bytes"
    sizes = [{"direction": histogram.direction, **listed(histogram, columns)} for histogram in uvm.sizes]
    return picked(uvm, figures) | {"sizes": sizes}
