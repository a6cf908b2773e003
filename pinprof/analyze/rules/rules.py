"""The rules that turn figures into findings, with what each needs, and the runner that asks them.

Thresholds are named constants beside the rules, starting points from real captures; docs/diagnoses.md has an entry for
each rule. A rule without its input makes no claim.
"""

from __future__ import annotations

from pinprof.analyze.results import FAILED_CALLS, Finding, Severity
from pinprof.analyze.rules import allocation, copies, failures, managed, pages, pinning, quality, shares
from pinprof.analyze.rules.needs import (
    ALLOCATIONS,
    ANY_CALL,
    BY_COPIES,
    CALL_CHAINS,
    CALLS,
    CALLS_OR_CUDA,
    COPIES,
    CPU_SAMPLES,
    CUDA,
    EVERY_ALLOCATION,
    EVERY_CALL,
    GPU,
    GPU_SPAN,
    GPU_WORK,
    HOST_MEMORY,
    INSIDE_KERNEL,
    KERNEL_CAUSES,
    KERNEL_SAMPLES,
    LARGE_COPIES,
    LINK,
    MEMORY_KINDS,
    MIGRATIONS,
    MOVES,
    PERMITTED,
    SAMPLES,
    WHOLE,
)
from pinprof.analyze.rules.rule import Rule, View

_REPEATED = "Repeated allocation"
_STAGING = "Staging by the driver"
_LINK_SPEED = "The speed of the link"
_PINNED = "The share of memory that is pinned"

RULES: tuple[Rule, ...] = (
    Rule(FAILED_CALLS, failures.failed_calls, (CALLS, ANY_CALL), "Failed CUDA calls"),
    Rule("failed-pinned", failures.failed_pinned, (CALLS, ANY_CALL), "Failed page-locking"),
    Rule("first-touch-in-pin", pinning.first_touch_in_pin, INSIDE_KERNEL, to_clear=(WHOLE,)),
    Rule("first-touch", shares.first_touch, KERNEL_CAUSES, to_clear=(WHOLE,)),
    Rule(
        "staging-copies", copies.staged, (BY_COPIES, *COPIES), _STAGING, (MEMORY_KINDS,),
        otherwise=Rule("staging-copies", shares.staging, CPU_SAMPLES, _STAGING, (KERNEL_SAMPLES, WHOLE)),
    ),
    Rule("managed-cpu-faults", shares.managed_cpu_faults, INSIDE_KERNEL, to_clear=(WHOLE,)),
    Rule(
        "alloc-loop", allocation.by_calls, (CALLS_OR_CUDA, EVERY_ALLOCATION), _REPEATED,
        otherwise=Rule("alloc-loop", allocation.by_ranges, (SAMPLES, PERMITTED, CALL_CHAINS), _REPEATED),
    ),
    Rule("freeing", shares.freeing, KERNEL_CAUSES, to_clear=(WHOLE,)),
    Rule("no-huge-pages", pages.no_huge_pages, INSIDE_KERNEL, "The use of huge pages", (WHOLE,)),
    Rule("compaction", pinning.compaction, INSIDE_KERNEL, to_clear=(WHOLE,)),
    Rule("sampling-gap", quality.sampling_gap, (SAMPLES,), whole=True),
    Rule("context-init", quality.context_init, (CALLS, ANY_CALL), "Context initialisation"),
    Rule("idle-context", quality.idle_context, (CALLS, ANY_CALL, EVERY_CALL), "The use of contexts"),
    Rule("async-from-pageable", copies.async_from_pageable, COPIES, "Blocking by asynchronous copies", (MEMORY_KINDS,)),
    Rule("tiny-copies", copies.tiny_copies, COPIES, "The size of copies"),
    Rule("sync-serialisation", copies.sync_serialisation, (*GPU, GPU_SPAN), "Waiting for copies"),
    Rule("slow-link", copies.slow_link, (*COPIES, LARGE_COPIES, LINK), _LINK_SPEED),
    Rule("transfer-dominates", copies.transfer_dominates, (*GPU, GPU_WORK), "The ratio of copying to computing"),
    Rule("gpu-fault-storm", managed.gpu_fault_storm, (*GPU, MIGRATIONS), "Page faults of the GPU"),
    Rule("prefetch-missing", managed.prefetch_missing, (*GPU, MIGRATIONS), "Prefetching of managed memory"),
    Rule("ping-pong", managed.ping_pong, (*MOVES, MIGRATIONS), "Back-and-forth movement of managed memory"),
    Rule("eviction", managed.eviction, (*MOVES, MIGRATIONS), "Eviction of managed memory"),
    Rule("cpu-fault-drain", managed.cpu_fault_drain, (*MOVES, MIGRATIONS), "Reading managed memory back"),
    Rule("over-pinned", pinning.over_pinned, (CALLS, ALLOCATIONS, EVERY_ALLOCATION, HOST_MEMORY), _PINNED),
    Rule("giant-pin", pinning.giant_pin, (CALLS, ALLOCATIONS, EVERY_ALLOCATION), "The size of pinned allocations"),
)  # fmt: skip
"""In the order of reports; docs/diagnoses.md has an entry for each."""

CUDA_RULES = frozenset(rule.name for rule in RULES if {CUDA, CALLS, CALLS_OR_CUDA, *MOVES}.intersection(rule.needs))
"""Rules about CUDA and the GPU: of no interest to whoever reads about a program without CUDA."""

_ORDER: tuple[Severity, ...] = ("critical", "warning", "info", "not-assessable", "ok")


def failed_calls(view: View) -> Finding:
    """The verdict on CUDA calls that failed, which needs no sample."""
    return next(rule for rule in RULES if rule.name == FAILED_CALLS).verdict(view)


def findings(view: View, own: View) -> tuple[Finding, ...]:
    """Every rule's verdict of the program's own time (`own`), what fired first; nothing when the recording holds
    neither samples nor activity.
    """
    if view.sampled is None and view.traced is None:
        return ()
    said = (rule.verdict(view if rule.whole else own) for rule in RULES)
    return tuple(sorted(said, key=lambda entry: _ORDER.index(entry.severity)))
