"""The rules that turn figures into findings, with what each needs, and the runner that asks them.

Thresholds are named constants beside the rules, starting points from real captures; docs/diagnoses.md has an entry for
each rule. A rule without its input makes no claim.
"""

from __future__ import annotations

from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.results import EventResult, Finding, RangeResult, Severity, judged_event
from pinprof.analyze.rules import allocation, copies, managed, pages, pinning, quality, shares
from pinprof.analyze.rules.needs import (
    ALLOCATIONS,
    ANY_CALL,
    CALL_CHAINS,
    CALLS,
    CALLS_OR_CUDA,
    CPU_SAMPLES,
    CUDA,
    GPU_SPAN,
    GPU_WORK,
    HOST_MEMORY,
    KERNEL_CAUSES,
    LARGE_COPIES,
    LINK,
    MIGRATIONS,
    PERMITTED,
    SAMPLES,
)
from pinprof.analyze.rules.rule import Rule, View
from pinprof.model import Capture

_REPEATED = "Repeated allocation"
_LINK_SPEED = "Whether the link is as fast as it should be"
_PINNED = "How much of the machine's memory is pinned"

RULES: tuple[Rule, ...] = (
    Rule("first-touch-in-pin", pinning.first_touch_in_pin, KERNEL_CAUSES),
    Rule("first-touch", shares.first_touch, KERNEL_CAUSES),
    Rule("staging-copies", shares.staging, CPU_SAMPLES),
    Rule("managed-cpu-faults", shares.managed_cpu_faults, KERNEL_CAUSES),
    Rule(
        "alloc-loop", allocation.by_calls, (CALLS_OR_CUDA,), _REPEATED,
        otherwise=Rule("alloc-loop", allocation.by_ranges, (SAMPLES, PERMITTED, CALL_CHAINS), _REPEATED),
    ),
    Rule("freeing", shares.freeing, KERNEL_CAUSES),
    Rule("no-huge-pages", pages.no_huge_pages, KERNEL_CAUSES, "Whether huge pages back the large buffers"),
    Rule("compaction", pinning.compaction, KERNEL_CAUSES),
    Rule("sampling-gap", quality.sampling_gap, (SAMPLES,)),
    Rule("context-init", quality.context_init, (CALLS, ANY_CALL), "Context initialisation"),
    Rule("async-from-pageable", copies.async_from_pageable, (CUDA,), "Whether asynchronous copies block"),
    Rule("tiny-copies", copies.tiny_copies, (CUDA,), "The size of copies"),
    Rule("sync-serialisation", copies.sync_serialisation, (CUDA, GPU_SPAN), "Waiting for copies"),
    Rule("slow-link", copies.slow_link, (CUDA, LARGE_COPIES, LINK), _LINK_SPEED),
    Rule("transfer-dominates", copies.transfer_dominates, (CUDA, GPU_WORK), "Copying against computing"),
    Rule("gpu-fault-storm", managed.gpu_fault_storm, (CUDA, MIGRATIONS), "Page faults of the GPU"),
    Rule("prefetch-missing", managed.prefetch_missing, (CUDA, MIGRATIONS), "Prefetching of managed memory"),
    Rule("ping-pong", managed.ping_pong, (CUDA, MIGRATIONS), "Managed memory going back and forth"),
    Rule("eviction", managed.eviction, (CUDA, MIGRATIONS), "Eviction of managed memory"),
    Rule("cpu-fault-drain", managed.cpu_fault_drain, (CUDA, MIGRATIONS), "Reading managed memory back"),
    Rule("over-pinned", pinning.over_pinned, (CALLS, ALLOCATIONS, HOST_MEMORY), _PINNED),
    Rule("giant-pin", pinning.giant_pin, (CALLS, ALLOCATIONS), "The size of pinned allocations"),
)  # fmt: skip
"""In the order of reports; docs/diagnoses.md has an entry for each."""

_ORDER: tuple[Severity, ...] = ("critical", "warning", "info", "not-assessable", "ok")


def findings(
    capture: Capture,
    events: tuple[EventResult, ...],
    ranges: tuple[RangeResult, ...],
    activity: ActivityAnalysis | None = None,
) -> tuple[Finding, ...]:
    """Every rule's verdict, what fired first; nothing when the recording holds neither samples nor activity."""
    view = View(capture, events, ranges, judged_event(events), activity)
    if view.sampled is None and activity is None:
        return ()
    return tuple(sorted((rule.verdict(view) for rule in RULES), key=lambda entry: _ORDER.index(entry.severity)))
