"""The result of one check."""

from __future__ import annotations

from typing import Literal

from pinprof.base.lazy_dataclass import dataclass

State = Literal["ok", "info", "warning", "problem"]
"""`problem`: recording is impossible. `warning`: something will be missing or slower. `info`: a fact without a
judgement."""


@dataclass(frozen=True)
class Check:
    """What a check found."""

    name: str
    state: State
    found: str
    fix: str = ""
    gain: str = ""
    """What the fix brings."""
