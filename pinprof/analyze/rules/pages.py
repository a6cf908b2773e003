"""The rule about huge pages. Memory is judged by its bytes: one huge fault makes as much as 512 small ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from pinprof.analyze.memory import PAGE_BYTES, MemoryResult, summarise_memory
from pinprof.analyze.rules.rule import Verdict, View, clear, fired, lacks, percent
from pinprof.base.columns import Bool, Float64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_count, format_share
from pinprof.data.model import Capture

HUGE_PAGES_BYTES = 64 << 20
HUGE_PAGES_SHARE = 0.10
"""fault.anon + pin.faultin."""
LARGE_SHARE = 0.50
"""Memory in huge pages, or in other large pieces, of all: below it, large buffers are made of small pages."""
BASE_PAGE_STEP = 4
"""Memory per fault, in base pages, up to which it counts as small."""
_HUGE_PAGE_BYTES = 2 << 20
"""On x86-64, and on arm64 with base pages of 4 KiB; machines record the size of theirs."""
_EVEN = 0.05
"""Faults lie at even distances where one distance is so much longer than the next."""


@dataclass(frozen=True)
class Sizes:
    """Memory by what it is made of, in bytes, and how that is known."""

    small: int
    large: int
    words: str

    @property
    def tells(self) -> bool:
        """Whether there is enough of it to call it large buffers."""
        return self.small + self.large >= HUGE_PAGES_BYTES

    @property
    def is_small(self) -> bool:
        """Whether most of it is made of small pages."""
        return self.large < LARGE_SHARE * (self.small + self.large)


def no_huge_pages(view: View) -> Verdict:
    """13: large buffers in small pages; fires only where nothing that was recorded says otherwise."""
    log = summarise_memory(view.capture)
    history = (
        "AnonHugePages of the process over time, because the page-fault event does not see pages created during a pin."
    )
    missing = history if log is None or "huge" not in log.peak else ""
    scope, share = view.worst("fault.anon", "pin.faultin")
    shares = scope.states("fault.anon + pin.faultin", share)
    if share < HUGE_PAGES_SHARE:
        below = f"{shares}; threshold {percent(HUGE_PAGES_SHARE)}."
        return clear("Creating pages takes little time.", below, missing=missing)
    inside_pins = scope.part.share("pin.faultin") > scope.part.share("fault.anon")
    # What a pin creates is no page fault: faults then tell of other memory.
    known = [] if inside_pins else [sizes for sizes in _of_faults(view.capture, log) if sizes.tells]
    known = known or [sizes for sizes in _at_peak(log) if sizes.tells]
    if not known:
        least = format_bytes(HUGE_PAGES_BYTES)
        return lacks(f"A page-faults event with addresses over at least {least}, or {history}", f"{shares}.")
    evidence = [f"{shares}; threshold {percent(HUGE_PAGES_SHARE)}.", *(sizes.words for sizes in known)]
    if not all(sizes.is_small for sizes in known):
        return clear("Most of the memory uses large pages.", *evidence, missing=missing)
    advice = "Call madvise(MADV_HUGEPAGE) before the first touch, or use hugetlbfs."
    if inside_pins:
        advice += " cudaMallocHost uses small pages: touch your own huge pages, then register them."
    stake = view.sampled_stake(share * scope.part.total)
    return fired("Large buffers use small pages.", *evidence, advice=advice, stake=stake, missing=missing)


def _of_faults(capture: Capture, log: MemoryResult | None) -> Iterator[Sizes]:
    """What page faults made: by their addresses, and by their number and that of huge ones."""
    page, huge = _fact(capture, "page_bytes", PAGE_BYTES), _fact(capture, "huge_page_bytes", _HUGE_PAGE_BYTES)
    threshold = f"threshold {percent(LARGE_SHARE)} of at least {format_bytes(HUGE_PAGES_BYTES)}"
    small, large = sizes_by_address(capture, page, huge)
    yield Sizes(
        small, large,
        f"By their addresses, page faults made {format_bytes(small)} in pieces of at most "
        f"{format_bytes(BASE_PAGE_STEP * page)} and {format_bytes(large)} in larger ones ({threshold}).",
    )  # fmt: skip
    faults = sum(
        int(capture.samples.weight[capture.samples.event == number].sum())
        for number, event in enumerate(capture.events)
        if event.unit == "faults"
    )
    got_huge = _huge_faults(capture, log)
    if faults and got_huge is not None:
        small, large = max(faults - got_huge, 0) * page, got_huge * huge
        yield Sizes(
            small, large,
            f"By their number, the program's page faults made at least {format_bytes(small)} in small pages; "
            f"{format_count(got_huge)} faults on the machine got a huge page, {format_bytes(large)} ({threshold}).",
        )  # fmt: skip


def _at_peak(log: MemoryResult | None) -> Iterator[Sizes]:
    """What the processes held, at its peak."""
    if log is not None and "huge" in log.peak:
        resident, huge = log.peak.get("rss", 0), log.peak["huge"]
        words = (
            f"At their peaks, AnonHugePages are {format_bytes(huge)}, {format_share(huge, resident)} of the "
            f"{format_bytes(resident)} in memory (threshold {percent(LARGE_SHARE)} of at least "
            f"{format_bytes(HUGE_PAGES_BYTES)})."
        )
        yield Sizes(max(resident - huge, 0), huge, words)


def _huge_faults(capture: Capture, log: MemoryResult | None) -> int | None:
    """Faults of the whole machine that got a huge page during the recording; None where nobody counted."""
    counters = capture.manifest.outcome.get("counters")
    counted = counters.get("thp_fault_alloc") if isinstance(counters, Mapping) else None
    if counted is None and log is not None:
        counted = log.growth.get("thp_fault_alloc")
    return counted if isinstance(counted, int) and counted >= 0 else None


def _fact(capture: Capture, name: str, usual: int) -> int:
    size = capture.manifest.host.get(name)
    return size if isinstance(size, int) and 0 < size < 1 << 40 else usual


def sizes_by_address(capture: Capture, page: int, huge: int) -> tuple[int, int]:
    """Bytes that page faults made in small and in large pieces; (0, 0) where most faults lie too scattered to tell.

    A fixed sampling period p puts neighbouring samples p faults apart, in whatever order memory is touched: dense ones
    are those of small pages. Faults of large pieces lie far apart, at the beginning of a huge page or evenly.
    """
    small = large = scattered = 0.0
    samples = capture.samples
    for number, event in enumerate(capture.events):
        if event.unit != "faults":
            continue
        rows = np.flatnonzero((samples.event == number) & (samples.address != 0) & (samples.weight > 0))
        for pid in ascending(samples.pid[rows]).tolist():
            mine = rows[samples.pid[rows] == pid]
            mine = mine[np.argsort(samples.address[mine], kind="stable")]
            weight = samples.weight[mine].astype(np.float64)
            begins = (samples.address[mine] % np.uint64(huge)) < np.uint64(page)
            piece, dense, even = _pieces(samples.address[mine].astype(np.float64), weight, page)
            sparse = ~dense & (begins | (even & (piece <= huge)))
            size = np.where(begins & ~dense, huge, np.maximum(piece, page))
            small += float((weight * size)[dense].sum())
            large += float((weight * size)[sparse].sum())
            scattered += float(weight[~dense & ~sparse].sum()) - float(weight[dense | sparse].sum())
    return (0, 0) if scattered > 0 else (round(small), round(large))


def _pieces(address: Float64, weight: Float64, page: int) -> tuple[Float64, Bool, Bool]:
    """Per fault sample, in ascending order of addresses: bytes a fault, whether dense, whether evenly apart."""
    gap = np.diff(address)
    before = np.append(np.inf, gap) / weight
    after = np.append(gap, np.inf) / weight
    piece = np.minimum(before, after)
    with np.errstate(invalid="ignore"):
        even = np.abs(before - after) <= _EVEN * piece
    return piece, np.asarray(piece <= BASE_PAGE_STEP * page), np.asarray(even)
