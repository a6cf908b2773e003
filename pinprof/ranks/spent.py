"""Where a rank's critical thread spent its time: columns, and the places in the program that they point to."""

from __future__ import annotations

from pinprof.base.columns import Bool, Int16, Int32, Int64, Table
from pinprof.base.lazy_dataclass import dataclass

NO_PLACE = -1
PlaceKey = tuple[str, str, int]
"""The same for one line in all ranks."""


@dataclass(frozen=True)
class ProgramPlace:
    """Where in the program; `text` is what people read, the others what ranks are matched by."""

    text: str
    file: str
    function: str
    line: int

    @property
    def key(self) -> PlaceKey:
        """The same for one line in all ranks: files are known by their last component."""
        return (self.file.rpartition("/")[2], self.function, self.line)

    @property
    def function_key(self) -> tuple[str, str]:
        """The same for all lines of one function."""
        return self.key[:2]


@dataclass(frozen=True)
class Spent(Table):
    """The critical thread's time, one row for each sample that it is charged to, ordered by start."""

    start_ns: Int64
    end_ns: Int64
    ns: Int64
    """How much of [start, end) it is: less where several threads share a wait."""
    cause: Int16
    """Index into CATEGORIES."""
    place: Int32
    """Index into `RankRun.places`, NO_PLACE without one."""
    outside: Bool
    """Whether it waits there for something that its own process does not do."""
