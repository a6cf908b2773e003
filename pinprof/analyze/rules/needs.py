"""The inputs that rules can need, each with what to record where it is missing."""

from __future__ import annotations

import re

from pinprof.analyze.activity.transfers import LARGE_COPY_BYTES
from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.rules.rule import Need, View
from pinprof.analyze.visible import has_call_chains, has_kernel_names
from pinprof.base.units import format_bytes
from pinprof.data.gpu_functions import MEMORY
from pinprof.data.model import KERNEL

_NO_SAMPLES = "Without samples, this can't be judged."
_NO_KERNEL = "Without kernel call chains, this can't be judged."


def _stops_at_the_kernel(view: View) -> bool:
    return view.traced is not None and not view.capture.kernel_chains


_USER_ONLY = re.compile(r"[:/](?=\w*u)[uhIGHpPSDWeb]+$")
"""perf's modifiers of an event that counts user code and not the kernel: `cycles:u`."""


def _may_hold_the_kernel(view: View) -> bool:
    """Whether some sample shows the kernel, or a recorder, which names its version, sampled there and met nothing."""
    if (view.capture.stacks.frames.mode == KERNEL).any():
        return True
    recorded = any(collector.get("version") for collector in view.capture.manifest.collectors)
    return recorded and _USER_ONLY.search(view.main.event.name) is None


SAMPLES = Need(
    lambda view: view.sampled is not None, "CPU samples with kernel call chains: record with perf.", _NO_SAMPLES
)
ON_CPU = Need(lambda view: view.sampled is not None and not view.sampled.event.spans, SAMPLES.missing, _NO_SAMPLES)
PERMITTED = Need(
    lambda view: not view.capture.manifest.kernel_left_out,
    "Kernel samples, which were not permitted: run `pinprof doctor` for the fix.",
    _NO_KERNEL,
)
STACKS = Need(
    lambda view: has_call_chains(view.capture, view.main_number),
    "Call chains; most samples have none. Record with `perf record -g`.",
    "Without call chains, this can't be judged.",
)
KERNEL_NAMES = Need(
    lambda view: has_kernel_names(view.capture, view.main_number),
    "Names of kernel functions: give the recording kernel's kallsyms with --kallsyms.",
    "Without names of kernel functions, this can't be judged.",
)
CALL_CHAINS = Need(
    lambda view: not _stops_at_the_kernel(view),
    "Kernel call chains; nsys samples end at the kernel entry. Record with perf as well.",
    _NO_KERNEL,
)
KERNEL_SAMPLES = Need(
    _may_hold_the_kernel, "Kernel call chains; these samples cover only user code. Record with perf.", _NO_KERNEL
)
ENOUGH = Need(
    lambda view: not view.main.too_few,
    f"At least {MIN_SAMPLES} samples: record for longer, or with a higher --frequency.",
    "There are too few samples to judge this.",
)
_ON_CPU_SAMPLES = (SAMPLES, PERMITTED, CALL_CHAINS, ENOUGH, ON_CPU)
CPU_SAMPLES = (*_ON_CPU_SAMPLES, STACKS)
KERNEL_CAUSES = (*_ON_CPU_SAMPLES, KERNEL_SAMPLES, STACKS, KERNEL_NAMES)
"""For shares of causes that functions of the kernel tell."""

_NO_ACTIVITY = "CUDA calls and GPU work: record with nsys, alone or together with perf."
CUDA = Need(lambda view: view.knows_cuda, _NO_ACTIVITY)
CALLS = Need(lambda view: view.knows_calls, _NO_ACTIVITY)
"""CUDA calls, by whichever tool; perhaps without what the GPU did."""
_SOME_MISSING = (
    "{}: some were not traced, because tracing them would have exceeded --probe-budget, or their records were lost. "
    "Record again with a larger budget, or on a less busy machine."
)
EVERY_CALL = Need(lambda view: not view.may_lack(), _SOME_MISSING.format("All CUDA calls"))
EVERY_ALLOCATION = Need(lambda view: not view.may_lack(MEMORY), _SOME_MISSING.format("All allocations"))
ANY_CALL = Need(lambda view: view.has_calls, "CUDA calls.")
CALLS_OR_CUDA = Need(lambda view: view.knows_cuda or view.has_calls, _NO_ACTIVITY)
_NO_GPU = (
    "{}: calls requested them, but the recording has none, or only a sample. "
    "Record again with --gpu cupti, or with nsys --trace=cuda."
)
KERNELS_SEEN = Need(lambda view: "kernels" not in view.activity.unrecorded, _NO_GPU.format("Kernels"))
COPIES_SEEN = Need(lambda view: "copies" not in view.activity.unrecorded, _NO_GPU.format("Copies"))
"""Where CUDA was traced, migrations are next to copies."""
ANY_GPU_WORK = Need(lambda view: bool(view.activity.transfers.devices), "GPU work; the recording has none.")
COPIES = (CUDA, COPIES_SEEN, ANY_GPU_WORK)
MOVES = (
    Need(lambda view: view.knows_cuda or (view.knows_migrations and view.has_calls), _NO_ACTIVITY),
    Need(lambda view: view.knows_migrations or COPIES_SEEN.met(view), COPIES_SEEN.missing),
    ANY_GPU_WORK,
)
"""What managed memory moved, also by the driver's events alone, beside CUDA calls that say how long the run took."""
GPU = (*COPIES, KERNELS_SEEN)
BY_COPIES = Need(lambda view: not all(need.met(view) for need in CPU_SAMPLES), "Copies alone.")
"""Where samples of the kernel judge better, they do."""
GPU_SPAN = Need(lambda view: bool(view.activity.transfers.serial.span_ns), "GPU work.")
GPU_WORK = Need(lambda view: bool(view.activity.whole.kernel_ns or view.activity.whole.copy_ns), "GPU work.")
LARGE_COPIES = Need(
    lambda view: bool(view.large_pinned_copies()),
    f"Pinned copies of at least {format_bytes(LARGE_COPY_BYTES)}.",
)
LINK = Need(lambda view: view.activity.transfers.link is not None, "Which link the GPU has.")
MIGRATIONS = Need(
    lambda view: view.activity.uvm is not None or not view.calls_for("alloc managed", "prefetch"),
    "Migrations of managed memory.",
)
ALLOCATIONS = Need(
    lambda view: view.activity.memory is not None,
    "Allocations: recorded CUDA calls, or nsys profile --cuda-memory-usage=true.",
)
HOST_MEMORY = Need(
    lambda view: isinstance(size := view.host.get("memory_bytes"), int) and size > 0, "The machine's memory size."
)
