"""Results of trials, written by hand: for the tests of what shows them."""

from __future__ import annotations

from typing import Any

from pinprof.trial.result import CureResult, Ratio, TrialResult, TrialSide, ranked


def cure_result(name: str = "glibc-huge-pages", **changed: Any) -> CureResult:
    """One that halves what is measured, as predicted."""
    facts: dict[str, Any] = {
        "id": name,
        "title": "huge pages for malloc",
        "changes": "glibc asks for huge pages.",
        "settings": ("GLIBC_TUNABLES=glibc.malloc.hugetlb=1",),
        "state": "measured",
        "problem": "",
        "rounds": 8,
        "side": TrialSide(1e9, 0.9e9, 1.1e9, 300 << 20),
        "ratio": Ratio(0.48, 0.5, 0.52),
        "significant": True,
        "predicted_ratio": Ratio(0.45, 0.5, 0.55),
        "opportunities": ("a.py:3 fills new memory each time",),
        "memory_bytes": 44 << 20,
        "costs": "Up to 2 MiB more for each large block.",
        "permanent": "export GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
        "source": "The GNU C Library manual",
    }
    return CureResult(**(facts | changed))


def left_out(name: str, problem: str, state: str = "left-out") -> CureResult:
    """One that was not measured."""
    nothing = {"rounds": 0, "side": None, "ratio": None, "significant": False, "memory_bytes": None}
    return cure_result(name, state=state, problem=problem, **nothing)


def no_difference(name: str = "torch-huge-pages") -> CureResult:
    """One that changes nothing that could be seen, against its prediction."""
    return cure_result(name, ratio=Ratio(0.99, 1.0, 1.008), significant=False, predicted_ratio=Ratio(0.6, 0.7, 0.8))


def trial_result(*cures: CureResult, **changed: Any) -> TrialResult:
    """Wall time of 2 s as is."""
    facts: dict[str, Any] = {
        "command": ("python", "a b.py"),
        "measure": "wall",
        "unit": "ns",
        "as_is": TrialSide(2e9, 1.9e9, 2.2e9, 256 << 20),
        "rounds": 8,
        "runs": 20,
        "duration_s": 55.5,
        "wanted_error": 0.02,
        "seed": 1,
        "cures": ranked(cures),
    }
    return TrialResult(**(facts | changed))
