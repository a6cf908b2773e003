"""The evidence that claims can need, each with what to record where it is missing: one home for all of them.

Rules, headlines, detectors of opportunities and answers over several runs declare their needs by these names;
tools/evidence_table.py prints the table of who needs what.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.transfers import LARGE_COPY_BYTES
from pinprof.analyze.completeness import hides_costs, possible_durations
from pinprof.analyze.evidence import MIN_SAMPLES, SHARE_ERROR
from pinprof.analyze.rules.rule import Need, View, unmet
from pinprof.base.units import format_bytes
from pinprof.data.gpu_functions import MEMORY
from pinprof.data.model import KERNEL, NO_NODE, Bool, Capture, Int64, clock_event

_NO_SAMPLES = "Without samples, this can't be judged."
_NO_TIME = "Without samples of time on processors, this can't be judged."
_NO_KERNEL = "Without kernel call chains, this can't be judged."
_WITH_THE_KERNEL = "record with `pinprof record`, or with `perf record -g` of an event without `:u`"


def _may_hold_the_kernel(view: View) -> bool:
    """Whether some sample shows the kernel, or a recorder, which names its version, sampled there and met nothing."""
    stacks, weight = view.capture.stacks, view.capture.weight_at[view.main_number][:-1]
    if (stacks.frames.mode[stacks.frame[weight > 0]] == KERNEL).any():
        return True
    recorded = any(collector.get("version") for collector in view.capture.manifest.collectors)
    return recorded and not view.main.event.user_only


def has_call_chains(capture: Capture, event: int) -> bool:
    """Whether enough samples of an event have callers.

    A sample without a call chain has at most one frame. Where nothing was sampled in the kernel, or call chains exist
    elsewhere, a lone frame of user code tells enough: it is not in the kernel.
    """
    stacks, weight = capture.stacks, capture.weight_at[event]
    lone = np.append(stacks.parent == NO_NODE, True)
    blind = lone & np.append(stacks.frames.mode[stacks.frame] == KERNEL, True)
    if lone[weight > 0].all():
        return not weight[blind].any()
    return _few(weight, blind)


def has_kernel_names(capture: Capture, event: int) -> bool:
    """Whether enough samples in the kernel have a named kernel function on their stack."""
    stacks = capture.stacks
    kernel = stacks.frames.mode == KERNEL
    known = kernel & np.array([not symbol.startswith("[") for symbol in stacks.frames.function], np.bool_)
    return _few(capture.weight_at[event], np.append(kernel[stacks.frame], False) & ~stacks.under(known))


def _few(weight: Int64, blind: Bool) -> bool:
    """Whether what is blind can change a share by no more than chance may."""
    return bool(weight[blind].sum() <= SHARE_ERROR * weight.sum())


SAMPLES = Need(
    "samples",
    lambda view: view.sampled is not None,
    "CPU samples with kernel call chains: record with perf.",
    _NO_SAMPLES,
    "it has no samples",
)
TIME = Need(
    "time on processors",
    lambda view: view.main.event.shows_time,
    "Samples of time on processors, such as cpu-clock: record with `pinprof record`, or perf.",
    _NO_TIME,
    "it samples {event}, not time on processors",
)
CLOCK = Need(
    "time on processors",
    lambda view: clock_event(view.capture.events) is not None,
    TIME.missing,
    _NO_TIME,
    TIME.because,
)
"""In seconds: what a saving is counted in."""
PERMITTED = Need(
    "kernel samples",
    lambda view: not view.capture.manifest.kernel_left_out,
    "Kernel samples, which were not permitted: run `pinprof doctor` for the fix.",
    _NO_KERNEL,
    "the kernel was not sampled",
    "run `pinprof doctor` for the fix",
)
CALL_CHAINS = Need(
    "kernel samples",
    lambda view: view.capture.kernel_chains,
    "Kernel call chains; nsys samples end at the kernel entry. Record with perf as well.",
    _NO_KERNEL,
    "its samples end at the kernel's entry",
    "record with `pinprof record` as well",
)
KERNEL_SAMPLES = Need(
    "kernel samples",
    _may_hold_the_kernel,
    "Kernel call chains; these samples cover only user code. Record with perf.",
    _NO_KERNEL,
    "its samples cover only user code",
    _WITH_THE_KERNEL,
)
ENOUGH = Need(
    "enough samples",
    lambda view: not view.main.too_few,
    f"At least {MIN_SAMPLES} samples: record for longer, or with a higher --frequency.",
    "There are too few samples to judge this.",
    f"it has fewer than {MIN_SAMPLES} samples",
    "record for longer, or with a higher --frequency",
)
STACKS = Need(
    "call chains",
    lambda view: has_call_chains(view.capture, view.main_number),
    "Call chains; most samples have none. Record with `perf record -g`.",
    "Without call chains, this can't be judged.",
    "its samples have no call chains",
    "record with `pinprof record` or `perf record -g`",
)
KERNEL_NAMES = Need(
    "names of kernel functions",
    lambda view: has_kernel_names(view.capture, view.main_number),
    "Names of kernel functions: give the recording kernel's kallsyms with --kallsyms.",
    "Without names of kernel functions, this can't be judged.",
    "kernel functions have no names",
    "give the recording kernel's kallsyms with --kallsyms",
)
WHOLE = Need(
    "completeness",
    lambda view: not hides_costs(view.capture),
    "A complete recording.",
    "The recording is not complete enough to judge this.",
    "it is not complete",
    "record the whole program",
)
KERNEL_STACKS = Need(
    "stacks in the kernel",
    lambda view: not view.main.event.inferred,
    "Stacks in the kernel, which timers inside the program don't see: run `pinprof doctor`, which says how to permit "
    "perf events.",
    "Without stacks in the kernel, this can't be judged.",
    "what the kernel did is only estimated",
    "run `pinprof doctor` for how to permit perf events",
)
SEES_KERNEL = (SAMPLES, PERMITTED, CALL_CHAINS, KERNEL_SAMPLES)
"""Whatever the samples are of."""
SHOWS_KERNEL = (SAMPLES, TIME, PERMITTED, CALL_CHAINS, KERNEL_SAMPLES, STACKS, KERNEL_NAMES)
"""What shows costs of memory in the kernel, however much there is of it."""
CPU_SAMPLES = (SAMPLES, PERMITTED, CALL_CHAINS, ENOUGH, TIME, STACKS)
KERNEL_CAUSES = (SAMPLES, PERMITTED, CALL_CHAINS, ENOUGH, TIME, KERNEL_SAMPLES, STACKS, KERNEL_NAMES)
"""For shares of causes that functions of the kernel tell."""
INSIDE_KERNEL = (*KERNEL_CAUSES, KERNEL_STACKS)
"""For those that only functions deep inside it tell: that it was entered by a fault or a call does not."""

_NO_ACTIVITY = "CUDA calls and GPU work: record with nsys, alone or together with perf."
CUDA = Need("CUDA calls and GPU work", lambda view: view.knows_cuda, _NO_ACTIVITY)
CALLS = Need("CUDA calls", lambda view: view.knows_calls, _NO_ACTIVITY)
"""By whichever tool; perhaps without what the GPU did."""
_SOME_MISSING = (
    "{}: some were not traced, because tracing them would have exceeded --probe-budget, or their records were lost. "
    "Record again with a larger budget, or on a less busy machine."
)
EVERY_CALL = Need("every CUDA call", lambda view: not view.may_lack(), _SOME_MISSING.format("All CUDA calls"))
EVERY_ALLOCATION = Need(
    "every CUDA call", lambda view: not view.may_lack(MEMORY), _SOME_MISSING.format("All allocations")
)
ANY_CALL = Need("CUDA calls", lambda view: view.has_calls, "CUDA calls.")
TRACED = Need("CUDA calls", lambda view: view.traced is not None, _NO_ACTIVITY)
CALLS_OR_CUDA = Need("CUDA calls", lambda view: view.knows_cuda or view.has_calls, _NO_ACTIVITY)
_NO_GPU = (
    "{}: calls requested them, but the recording has none, or only a sample. "
    "Record again with --gpu cupti, or with nsys --trace=cuda."
)
KERNELS_SEEN = Need("GPU work", lambda view: "kernels" not in view.activity.unrecorded, _NO_GPU.format("Kernels"))
COPIES_SEEN = Need("GPU work", lambda view: "copies" not in view.activity.unrecorded, _NO_GPU.format("Copies"))
"""Where CUDA was traced, migrations are next to copies."""
ANY_GPU_WORK = Need("GPU work", lambda view: bool(view.activity.transfers.devices), "GPU work; the recording has none.")
DURATIONS = Need(
    "possible durations",
    lambda view: possible_durations(view.capture),
    "Durations of GPU work that are possible: some of them overlap later work of their own stream. Record again.",
    "The durations of GPU work are damaged, so this can't be judged.",
)
COPIES = (CUDA, COPIES_SEEN, ANY_GPU_WORK, DURATIONS)
MEMORY_KINDS = Need(
    "memory kinds",
    lambda view: view.knows_memory_kinds,
    "The kind of memory that copies use, pageable or pinned: record with pinprof, or nsys.",
    "The kind of memory that copies use is not known.",
)
MOVES = (
    Need(
        "CUDA calls and GPU work",
        lambda view: view.knows_cuda or (view.knows_migrations and view.has_calls),
        _NO_ACTIVITY,
    ),
    Need("GPU work", lambda view: view.knows_migrations or COPIES_SEEN.met(view), COPIES_SEEN.missing),
    ANY_GPU_WORK,
    DURATIONS,
)
"""What managed memory moved, also by the driver's events alone, beside CUDA calls that say how long the run took."""
GPU = (*COPIES, KERNELS_SEEN)
BY_COPIES = Need("no samples of the kernel", lambda view: unmet(CPU_SAMPLES, view) is not None, "Copies alone.")
"""Where samples of the kernel judge better, they do."""
GPU_SPAN = Need("GPU work", lambda view: bool(view.activity.transfers.serial.span_ns), "GPU work.")
GPU_WORK = Need(
    "GPU work", lambda view: bool(view.activity.whole.kernel_ns or view.activity.whole.copy_ns), "GPU work."
)
LARGE_COPIES = Need(
    "large pinned copies",
    lambda view: bool(view.large_pinned_copies()),
    f"Pinned copies of at least {format_bytes(LARGE_COPY_BYTES)}.",
)
LINK = Need("the GPU's link", lambda view: view.activity.transfers.link is not None, "Which link the GPU has.")
MIGRATIONS = Need(
    "migrations",
    lambda view: view.activity.uvm is not None or not view.calls_for("alloc managed", "prefetch"),
    "Migrations of managed memory.",
)
ALLOCATIONS = Need(
    "allocations",
    lambda view: view.activity.memory is not None,
    "Allocations: recorded CUDA calls, or nsys profile --cuda-memory-usage=true.",
)
LEDGER = Need(
    "the ledger",
    lambda view: view.pinned is not None and view.pinned.idle is not None,
    "Each allocation of page-locked memory, and each copy with its address: record with `pinprof record`.",
)
PLACED = Need(
    "NUMA nodes",
    lambda view: view.one_node or (view.pinned is not None and any(view.pinned.nodes.values())),
    "On which NUMA node pages of page-locked memory lie: record for longer, with `pinprof record`.",
)
HOST_MEMORY = Need(
    "the machine's memory size",
    lambda view: isinstance(size := view.host.get("memory_bytes"), int) and size > 0,
    "The machine's memory size.",
)
