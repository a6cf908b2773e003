"""The machine that was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pinprof.analyze import Run
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Shared
from pinprof.report.section import Section


@dataclass(frozen=True)
class Machine(Section):
    """Facts of the host, nested."""

    key, title = "machine", "Machine"

    facts: Mapping[str, Any]

    @classmethod
    def build(cls, _: Run, shared: Shared) -> Self | None:
        """None where nothing is known of it."""
        return cls(shared.capture.host) if shared.capture.host else None
