"""Rules that compare the share of some causes with a threshold, where it is largest."""

from __future__ import annotations

from pinprof.analyze.rules.rule import Verdict, View, clear, fired, percent
from pinprof.base.lazy_dataclass import dataclass

FIRST_TOUCH = 0.30
"""fault.anon + fault.entry + fault.core."""
STAGING = 0.10
MANAGED_CPU_FAULTS = 0.10
FREEING = 0.10
"""free.* + unpin."""


@dataclass(frozen=True)
class ShareOf:
    """A judgement by one share."""

    leaves: tuple[str, ...]
    threshold: float
    what: str
    title: str
    clear: str
    advice: str
    missing: str = ""
    otherwise: tuple[str, str] = ("", "")
    """A leaf, and the advice where it is the heaviest of them."""

    def __call__(self, view: View) -> Verdict:
        """Compare it."""
        scope, share = view.worst(*self.leaves)
        evidence = [f"{scope.states(self.what, share)}; threshold {percent(self.threshold)}."]
        if share < self.threshold:
            return clear(self.clear, *evidence, missing=self.missing)
        if scope.part.heuristic and "copy.staging" in self.leaves:
            evidence.append("The hot-loop rule (a heuristic) identifies the copy loop, because libcuda has no symbols.")
        stake = view.sampled_stake(share * scope.part.total)
        heaviest = max(self.leaves, key=lambda leaf: scope.part.by_leaf.get(leaf, 0))
        advice = self.otherwise[1] if heaviest == self.otherwise[0] else self.advice
        return fired(self.title, *evidence, advice=advice, stake=stake, missing=self.missing)


first_touch = ShareOf(
    ("fault.anon", "fault.file", "fault.entry", "fault.core"),
    FIRST_TOUCH,
    "First touch (fault.anon, fault.file, fault.entry, fault.core)",
    "First touches of new memory take a large part of the time.",
    "First touches of new memory take little time.",
    "Reuse buffers instead of allocating new ones, use madvise(MADV_HUGEPAGE), or touch pages early and in parallel.",
    otherwise=(
        "fault.file",
        (
            "Keep and reuse shared memory (DataLoader workers fill new memory in /dev/shm each time). Read files with "
            "read()."
        ),
    ),
)

staging = ShareOf(
    ("copy.staging",),
    STAGING,
    "copy.staging",
    "The driver copies pageable memory through its own pinned buffer.",
    "Staging copies by the driver take little time.",
    "Copy from pinned memory, asynchronously; for one-off transfers, staging may still be cheaper.",
    "Sizes and kinds of the transfers (nsys).",
)

managed_cpu_faults = ShareOf(
    ("uvm.cpu_fault",),
    MANAGED_CPU_FAULTS,
    "uvm.cpu_fault",
    "The CPU faults on managed memory.",
    "CPU faults on managed memory take little time.",
    "Call cudaMemPrefetchAsync to the host before reading. Initialise data on the GPU or in ordinary memory.",
    "Direction and cause of the migrations (nsys); without them, creating pages and fetching them back look the same.",
)

freeing = ShareOf(
    ("free.*", "unpin"),
    FREEING,
    "Freeing and unpinning (free.*, unpin)",
    "Freeing memory takes a noticeable part of the time.",
    "Freeing memory takes little time.",
    "Keep buffers. For malloc, raise M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.",
    "Teardown at exit, because recent kernels stop per-task sampling before it. Record with --system-wide, or free "
    "the memory explicitly.",
)
