"""Rules about the recording itself: what the samples may not show, and what creating a context hides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.analyze.activity.calls import CONTEXT_INIT_FACTOR, CONTEXT_INIT_NS
from pinprof.analyze.activity.results import IdleContext
from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.rules.rule import Verdict, View, clear, fired, percent
from pinprof.base.columns import looked_up
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns, format_share
from pinprof.data.model import Capture

SAMPLING_GAP = 0.05
GAP_WALL_NS = 50_000_000
"""Ranges shorter than this hold too few samples to compare the clocks."""
GAPS_NAMED = 3
"""How many ranges a finding names before it counts the rest."""


def context_init(view: View) -> Verdict:
    """0: the first call of a process pays for the driver."""
    thresholds = f"thresholds {format_ns(CONTEXT_INIT_NS)} and {CONTEXT_INIT_FACTOR} × later calls"
    evidence = [
        f"{entry.name} takes {format_ns(entry.duration_ns)}"
        + (
            f", later ones {format_ns(entry.typical_ns)}"
            if entry.typical_ns is not None
            else "; there are no later ones"
        )
        + f" ({thresholds})."
        for entry in view.activity.context_init
    ]
    if evidence:
        return fired(
            "The first CUDA call creates the context. Other figures exclude it.",
            *evidence,
            advice="Call cudaFree(0) before the code that you time.",
            stake=None,
            severity="info",
        )
    return clear("No recorded call creates a context.", f"No first call exceeds {thresholds}.")


def idle_context(view: View) -> Verdict:
    """A process has a context on a GPU that it gives no work."""
    idle = view.activity.idle_contexts
    if not idle:
        return clear(
            "No CUDA context is known to be idle.",
            "Contexts are compared where several processes have one, or where work on several GPUs was recorded.",
        )
    one, more = "CUDA context gives its GPU", "CUDA contexts give their GPUs"
    return fired(
        f"{format_counted(len(idle), one, more)} no work.",
        *(_idle(entry, view.capture.threads.get((entry.pid, entry.pid), "")) for entry in idle[:GAPS_NAMED]),
        *(
            ["It launches no kernel, copies nothing and allocates no memory of the GPU, while another process does."]
            if any(entry.device < 0 for entry in idle)
            else []
        ),
        advice="A context takes hundreds of MiB of its GPU; how much was not recorded. Call no CUDA function in a "
        "process without work, and pin memory where it is copied; or let each process see its own GPU alone "
        "(CUDA_VISIBLE_DEVICES), or choose it before the first call (cudaSetDevice, torch.cuda.set_device).",
        stake=None,
    )


def _idle(entry: IdleContext, thread: str) -> str:
    who = f"Process {entry.pid}" + (f" ({thread})" if thread else "")
    pins = f" It page-locks {format_bytes(entry.pinned_bytes)}." if entry.pinned_bytes else ""
    at = f" at {entry.site}" if entry.site else ""
    if entry.device < 0:
        return f"{who} creates its context in {entry.call}{at}, which takes {format_ns(entry.duration_ns)}.{pins}"
    return (
        f"{who} creates a context on GPU {entry.device} in {entry.call}{at}, which takes"
        f" {format_ns(entry.duration_ns)}, and all {format_count(entry.work)} kernels and copies of it that were"
        " recorded run on other GPUs."
    )


def sampling_gap(view: View) -> Verdict:
    """21: what the samples may not show."""
    losses, samples = view.capture.losses, view.capture.samples
    count = int(samples.begun.sum())
    depth = np.append(view.capture.stacks.depth() + 1, np.int32(0))
    frames = int(looked_up(depth, samples.stack).sum(where=samples.begun, dtype=np.int64))
    shares = [
        ("of all samples were lost", losses.lost_samples, count + losses.lost_samples),
        ("of samples have truncated callchains", losses.truncated_chains, count),
        ("of samples have no callchain", losses.missing_stacks, count),
        ("of frames have no symbol", losses.unresolved_frames, frames),
    ]
    gaps = [f"{format_share(part, whole)} {what}." for what, part, whole in shares if part > SAMPLING_GAP * whole > 0]
    if view.main.too_few:
        taken = format_counted(view.main.drawn or 0, "sample was", "samples were")
        gaps.insert(0, f"Only {taken} taken of {view.main.event.name}: judging causes needs {MIN_SAMPLES}.")
    if view.capture.manifest.kernel_left_out:
        gaps.insert(0, "The kernel was not sampled, so its time in page faults, pinning and copies is missing.")
    compared = [
        (entry.wall.remainder_ns if entry.wall else entry.wall_ns - entry.own_thread_ns, entry)
        for entry in view.ranges
        if entry.own_thread_ns is not None and entry.wall_ns >= GAP_WALL_NS
    ]
    waiting = sorted(
        ((off, entry) for off, entry in compared if off > SAMPLING_GAP * entry.wall_ns), key=lambda pair: -pair[0]
    )
    if waiting:
        named = [
            f"{entry.path} {format_share(off, entry.wall_ns)} of {format_ns(entry.wall_ns)}"
            for off, entry in waiting[:GAPS_NAMED]
        ]
        more = f" and {len(waiting) - GAPS_NAMED} more" if len(waiting) > GAPS_NAMED else ""
        known = any(entry.wall for _, entry in waiting)
        what = "Neither on the CPU nor in a known wait" if known else "Not on the CPU"
        gaps.append(f"{what}: {', '.join(named)}{more}. {_why_off_cpu(view.capture)}".rstrip())
    missing = "" if compared else f"Ranges of at least {format_ns(GAP_WALL_NS)} with thread ids, to compare the clocks."
    if gaps:
        blind = view.capture.manifest.kernel_left_out
        advice = "Run `pinprof doctor` for the fix. " if blind else ""
        advice += "Record for longer, or with a higher --frequency. " if view.main.too_few else ""
        advice += "Shares are less certain. Use --system-wide to include kernel threads, and --symfs to find symbols."
        return fired(
            "The samples are incomplete.",
            *gaps,
            f"Threshold {percent(SAMPLING_GAP)} each.",
            advice=advice,
            stake=None,
            missing=missing,
            severity="warning" if blind else "info",
        )
    return clear("Sample losses and gaps are below 5 %.", f"{format_count(count)} samples.", missing=missing)


def _why_off_cpu(capture: Capture) -> str:
    """What the run's own counters say about time off the CPU; empty when they were not recorded."""
    outcome = capture.manifest.outcome
    known = []
    for section, name, unit in (
        ("counters", "cpu_steal_ns", "stolen by the hypervisor, all CPUs"),
        ("resources", "involuntary_switches", "preemptions"),
        ("resources", "voluntary_switches", "voluntary waits"),
    ):
        facts = outcome.get(section)
        value = facts.get(name) if isinstance(facts, Mapping) else None
        if isinstance(value, int) and value:
            known.append(f"{format_ns(value) if name.endswith('_ns') else format_count(value)} {unit}")
    return f"The whole run counted {', '.join(known)}." if known else ""
