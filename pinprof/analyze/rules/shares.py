"""Rules that compare the share of some causes with a threshold, where it is largest."""

from __future__ import annotations

from dataclasses import dataclass

from pinprof.analyze.rules.rule import Verdict, View, clear, fired, percent

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
            evidence.append("The copy loop is told by the hot-loop rule (heuristic): libcuda has no symbols.")
        stake = view.sampled_stake(share * scope.part.total)
        heaviest = max(self.leaves, key=lambda leaf: scope.part.by_leaf.get(leaf, 0))
        advice = self.otherwise[1] if heaviest == self.otherwise[0] else self.advice
        return fired(self.title, *evidence, advice=advice, stake=stake, missing=self.missing)


first_touch = ShareOf(
    ("fault.anon", "fault.file", "fault.entry", "fault.core"),
    FIRST_TOUCH,
    "First touch (fault.anon, fault.file, fault.entry, fault.core)",
    "The first touch of fresh memory takes a large part of the time.",
    "The first touch of fresh memory is no large part of the time.",
    "Reuse buffers instead of allocating new ones; madvise(MADV_HUGEPAGE); touch pages early and in parallel.",
    otherwise=(
        "fault.file",
        "Keep shared memory and reuse it (DataLoader workers fill new memory in /dev/shm each time); read() files.",
    ),
)

staging = ShareOf(
    ("copy.staging",),
    STAGING,
    "copy.staging",
    "The driver copies pageable memory through its own pinned buffer.",
    "Staging copies by the driver do not stand out.",
    "Copy from pinned memory, asynchronously; for one-off transfers staging may still be the cheaper way.",
    "Sizes and kinds of the transfers (nsys).",
)

managed_cpu_faults = ShareOf(
    ("uvm.cpu_fault",),
    MANAGED_CPU_FAULTS,
    "uvm.cpu_fault",
    "The CPU faults on managed memory.",
    "CPU faults on managed memory do not stand out.",
    "cudaMemPrefetchAsync to the host before reading; initialise on the GPU, or in ordinary memory.",
    "Direction and cause of the migrations (nsys): creating pages and fetching them back look alike here.",
)

freeing = ShareOf(
    ("free.*", "unpin"),
    FREEING,
    "Freeing and unpinning (free.*, unpin)",
    "Giving memory back takes a noticeable part of the time.",
    "Giving memory back does not stand out.",
    "Keep buffers; for malloc raise M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.",
    "Teardown at exit: recent kernels stop per-task sampling before it (record --system-wide, or free explicitly).",
)
