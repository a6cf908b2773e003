"""The recordings of tests/data/cases: what is wrong with each program, and what its cure saved when it was measured.

Nothing in pinprof may be tuned to names, sizes or lines of these programs.
"""

from __future__ import annotations

import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pinprof.analyze import Run, analyze
from pinprof.analyze.course.results import OWN
from pinprof.analyze.opportunities.results import Opportunity
from pinprof.read import ReadOptions, read

DATA = Path(__file__).parents[1] / "data" / "cases"
SUFFIX = ".pinprof.tar.xz"


@dataclass(frozen=True)
class Case:
    """A program with one problem, recorded as is."""

    name: str
    lines: tuple[str, ...]
    """The lines at fault, as `file:line`."""
    cures: tuple[str, ...]
    """Ids of cures that do what was measured."""
    as_is_s: float
    """Wall time of the work, of the program alone."""
    cured_s: float
    limit: float
    """By how much the prediction may differ from what was measured, as a share of that."""
    comment: str
    """What is off, and why."""

    @property
    def saved_s(self) -> float:
        """What the cure saved."""
        return self.as_is_s - self.cured_s


@dataclass(frozen=True)
class Control:
    """A program without a problem of host memory, with advice that looks obvious and does not pay, or with none."""

    name: str
    comment: str
    as_is_s: float = 0.0
    """0 where it was not measured."""
    cured_s: float = 0.0
    """With that advice; 0 where there is none."""


AGREED = 0.25
"""The limit for the programs whose prediction was the aim."""

CASES: tuple[Case, ...] = (
    Case("alloc_pairs", ("alloc_pairs.cu:11",), ("pool-pinned",), 1.76, 0.40, AGREED,
         "The prediction leaves no time for taking buffers from the pool, and the first ones touch new pages."),
    Case("managed_readback", ("managed_readback.cu:7",), ("prefetch",), 0.80, 0.275, AGREED,
         "The recording has no bytes; they are derived from the time in faults and its calibrated rate."),
    Case("tiny_copies", ("tiny_copies.cu:11",), ("batch-copies",), 0.251, 0.0075, AGREED,
         "Tracing triples the time of such short calls. Their time without it and the calibrated rate are the bounds."),
    Case("pool_start", ("pool_start.py:16",), ("touch-then-register",), 0.70, 0.13, AGREED,
         "How fast several threads create huge pages differs from run to run."),
    Case("not_async", ("not_async.py:9",), ("pinned-buffer",), 1.427, 1.2125, AGREED,
         "The GPU's own times of the copies were recorded; the overlap that the cure allows is not predicted."),
    Case("staged_h2d", ("staged_h2d.cu:21",), ("pin-source", "pinned-buffer"), 1.02, 0.25, 0.50,
         "Copies took 0.4 s longer in the recorded run than in the measured one."),
    Case("fresh_h2d", ("fresh_h2d.cu:18", "fresh_h2d.cu:19"), ("reuse-memory", "pinned-buffer", "pin-source"),
         2.03, 0.354, 0.10, "One cure for two opportunities: a kept pinned buffer has its pages and needs no staging."),
    Case("thrash", ("thrash.cu:30", "thrash.cu:32"), ("prefetch",), 0.562, 0.134, 0.50,
         "The measured cure copies between a pinned and a device buffer, which is faster than prefetching."),
    Case("gpu_faults", ("gpu_faults.cu:26", "gpu_faults.cu:27"), ("prefetch",), 0.284, 0.035, 0.50,
         "GPU faults are not recorded, so the estimate uses the driver's rate at one buffer size."),
    Case("fresh_d2h", ("fresh_d2h.py:20",), ("pinned-buffer",), 1.97, 0.059, 0.25,
         "Freeing the memory is not counted, and one synchronisation for all copies saves more."),
    Case("weights_offload", ("weights_offload.py:18",), ("pin-source",), 0.948, 0.162, 0.10, "As measured."),
    Case("sync_every_step", ("sync_every_step.py:21",), ("sync-less",), 2.11, 1.46, 0.10,
         "Half of the waiting counts as saved, because the GPU's own time is not recorded."),
    Case("dataloader_fresh", ("dataloader_fresh.py:20", "dataloader_fresh.py:27"),
         ("reuse-memory", "reuse-shared-memory"), 1.26, 0.40, 0.15,
         "Workers' faults count only while the loop waits for them."),
    Case("long_pin_blocks", ("long_pin_blocks.py:16",), ("pin-in-pieces",), 2.47, 0.525, 0.35,
         "The holder of the driver's lock is unknown, so waits inside the pin count. The recorded run waited less."),
    Case("over_pinned", ("over_pinned.py:13",), ("touch-then-register", "pin-less"), 1.49, 0.157, 0.75,
         "Pinning took 0.9 s longer in the recorded run than in the measured one."),
    Case("checkpoint_once", ("checkpoint_once.py:22",), ("pinned-buffer", "huge-pages"), 0.715, 0.558, 0.10,
         "Measured with pinned memory; the report names huge pages, because the copied data stays."),
)  # fmt: skip

CONTROLS: tuple[Control, ...] = (
    Control(
        "mmap_weights", "Its pages are in the page cache, so copying them elsewhere first costs more.", 0.199, 0.309
    ),
    Control("host_churn", "NumPy already requests huge pages.", 1.81, 1.90),
    Control("alloc_pairs-cured", "With its pool."),
    Control("managed_readback-cured", "With its prefetches."),
    Control("tiny_copies-cured", "With one copy."),
    Control("pinned_ring", "Copies through two alternating pinned buffers."),
    Control("managed_prefetch", "Prefetches managed memory."),
    Control("inference", "Runs a model on the GPU."),
    Control("kernel_loop", "Launches kernels."),
    Control("train_pinned", "Trains with pinned batches."),
    Control("upload_once", "Copies its weights to the GPU once."),
)


@cache
def analysed(name: str) -> Run:
    """One recording, unpacked, read and analysed."""
    with tempfile.TemporaryDirectory(prefix="pinprof-cases-") as folder, tarfile.open(DATA / (name + SUFFIX)) as packed:
        # Python before 3.11.4 knows no filters; these archives are ours.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
        return analyze(read(Path(folder) / f"{name}.pinprof", ReadOptions()))


def found(name: str) -> tuple[Opportunity, ...]:
    """What the search finds in a recording."""
    answer = analysed(name).opportunities
    return answer.found if answer else ()


def place(opportunity: Opportunity) -> str:
    """`file:line` without directories, as cases name lines."""
    return f"{Path(opportunity.site.file).name}:{opportunity.site.line}"


def at_fault(case: Case) -> tuple[Opportunity, ...]:
    """The opportunities at the lines at fault; they never share time, so their savings add up."""
    return tuple(one for one in found(case.name) if place(one) in case.lines)


def work_s(name: str) -> float:
    """How long the work took that was recorded, and what the program made once for it."""
    course = analysed(name).course
    return sum(phase.wall_ns for phase in course.phases if phase.name in OWN) / 1e9 if course else 0.0


def promised_s(name: str) -> float:
    """All that is promised for the work."""
    return sum(one.saving.likely_ns for one in found(name) if one.phase == "work") / 1e9
