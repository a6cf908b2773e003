from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console, RenderableType

from pinprof.report.data import Explained
from pinprof.report.section import Section
from pinprof.report.terminal.layout import titled


@dataclass(frozen=True)
class Samples(Section[Explained]):
    """How many samples there are."""

    key, title = "samples", "Samples"
    absent = (("samples", None),)

    count: int

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None without samples."""
        count = sum(event.samples for event in subject.shared.events)
        return cls(count) if count else None

    def to_json(self) -> dict[str, Any]:
        """Their number."""
        return {"samples": self.count}

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """Their number."""
        yield from titled(self.title, f"{self.count} samples")
