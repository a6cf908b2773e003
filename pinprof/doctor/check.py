"""The result of one check."""

from __future__ import annotations

from typing import Literal

from pinprof.base.errors import PinprofError
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


def lacking(name: str, error: PinprofError, gain: str = "", state: State = "warning") -> Check:
    """What a recording lacks, in the words in which it would say so itself."""
    return Check(name, state, error.problem, error.remedy, gain)
