"""The machine that was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pinprof.analyze import Analysis
from pinprof.report.data import Shared
from pinprof.report.section import Section


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of the host, nested."""

    facts: Mapping[str, Any]


def _build(_: Analysis, shared: Shared) -> Machine | None:
    return Machine(shared.capture.host) if shared.capture.host else None


MACHINE = Section("machine", "Machine", _build)
