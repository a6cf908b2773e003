"""Copies that are judged together: those of one site in one direction, very many tiny ones apart from larger ones."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.course.copies import CopyTable
from pinprof.analyze.rules.copies import TINY_COPIES
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes
from pinprof.data.model import Bool, Int64
from pinprof.data.rate_book import RUN, Estimate

TINY_BYTES = 64 << 10
"""From `TINY_COPIES` copies of at most this size on, a site's are counted apart from its larger ones."""
MEASURED_ERROR = 0.05
"""The share of the GPU's own times of copies by which runs differ."""


@dataclass(frozen=True)
class CopyGroup:
    """Copies of one site in one direction between device memory and one kind of host memory.

    Where a site makes very many tiny ones beside larger ones, these are two groups.
    """

    table: CopyTable
    calls: Int64
    """Rows of the calls' table, in time order."""
    rows: Int64
    """Wall rows inside them."""
    cost_ns: int
    way: str
    """`h2d` or `d2h`."""
    words: str

    @property
    def count(self) -> int:
        """How many."""
        return len(self.table)

    @property
    def bytes(self) -> int:
        """All of them."""
        return int(self.table.size_bytes.sum())

    @property
    def each(self) -> int:
        """Bytes of a typical one."""
        return max(int(np.median(self.table.size_bytes)), 1)

    @property
    def sizes(self) -> str:
        """What one has, or the least and the most."""
        least, most = (format_bytes(int(bound)) for bound in (self.table.size_bytes.min(), self.table.size_bytes.max()))
        return least if least == most else f"{least} to {most}"

    @property
    def tiny(self) -> bool:
        """Whether none is larger than what batching is for."""
        return int(self.table.size_bytes.max()) <= TINY_BYTES

    @property
    def of_files(self) -> bool:
        """Whether most of the bytes come from mapped files."""
        return 2 * int(self.table.size_bytes[self.table.from_file].sum()) > self.bytes

    @property
    def measured(self) -> Estimate | None:
        """How long the GPU copied; None where the recording does not hold all of it."""
        busy = self.table.busy_ns
        if (busy < 0).any():
            return None
        total = float(busy.sum())
        return Estimate(total, (1 - MEASURED_ERROR) * total, (1 + MEASURED_ERROR) * total, RUN)

    @property
    def distinct(self) -> int:
        """Bytes of the different places of the host that they use."""
        if not self.table.address.any():
            return self.bytes
        order = np.lexsort((-self.table.size_bytes, self.table.address))
        _, largest = np.unique(self.table.address[order], return_index=True)
        return int(self.table.size_bytes[order][largest].sum())


def by_size(size_bytes: Int64) -> list[Bool]:
    """Which of a site's copies are judged together: very many tiny ones apart from larger ones."""
    tiny = size_bytes <= TINY_BYTES
    return [tiny, ~tiny] if tiny.sum() >= TINY_COPIES and not tiny.all() else [np.ones(len(tiny), np.bool_)]
