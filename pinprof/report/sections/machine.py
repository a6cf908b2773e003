"""The machine that was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.section import Section


@dataclass(frozen=True)
class Machine(Section[Explained]):
    """Facts of the host, nested."""

    key, title, short = "machine", "Machine", ""

    facts: Mapping[str, Any]

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where nothing is known of it."""
        return cls(subject.shared.capture.host) if subject.shared.capture.host else None
