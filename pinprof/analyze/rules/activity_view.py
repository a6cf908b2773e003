"""What rules about CUDA and GPU activity look at, and how they put a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pinprof.analyze.activity.results import ActivityAnalysis, Purpose
from pinprof.analyze.results import Finding, Severity

NO_ACTIVITY = "CUDA calls and GPU work: record with nsys, alone or together with perf."


@dataclass(frozen=True)
class ActivityView:
    """What these rules look at; CUDA was traced, though perhaps not everything about it."""

    activity: ActivityAnalysis
    host: Mapping[str, Any]

    @property
    def wall_ns(self) -> int:
        """Time of the activity without the creation of contexts."""
        return max(0, self.activity.span_ns - sum(entry.duration_ns for entry in self.activity.context_init))

    @property
    def knows_cuda(self) -> bool:
        """Whether CUDA was traced, events or not."""
        return "cuda" in self.activity.recorded

    @property
    def knows_calls(self) -> bool:
        """Whether CUDA calls were recorded, perhaps without what the GPU did."""
        return self.knows_cuda or "cuda calls" in self.activity.recorded

    @property
    def has_calls(self) -> bool:
        """Whether the program made any CUDA call."""
        return bool(self.activity.whole.calls or self.activity.context_init)

    def calls_for(self, *purposes: Purpose) -> bool:
        """Whether the program made such a call."""
        return any(call.purpose in purposes for call in self.activity.whole.calls)


@dataclass(frozen=True)
class ActivityRule:
    """A rule's name, which is its slug in docs/diagnoses.md, what it is about, and its judgement."""

    name: str
    subject: str
    """Ends the sentence `… cannot be judged.`"""
    judge: Callable[[ActivityView], Finding]
    of_calls: bool = False
    """Calls alone are enough to judge."""

    def without_activity(self) -> Finding:
        """The verdict on a recording that nothing traced."""
        return not_assessable(self.name, self.subject, NO_ACTIVITY)


def finding(rule: str, severity: Severity, title: str, *evidence: str, advice: str = "", missing: str = "") -> Finding:
    """A verdict whose slug is its rule's name."""
    return Finding(rule, severity, title, tuple(evidence), advice, missing, rule)


def not_assessable(rule: str, subject: str, missing: str) -> Finding:
    """No claim, and what a claim would need."""
    return finding(rule, "not-assessable", f"{subject} cannot be judged.", missing=missing)


def percent(threshold: float) -> str:
    """A threshold as messages write it: `20 %`."""
    return f"{threshold:.0%}".replace("%", " %")


def gpu_facts(host: Mapping[str, Any], key: str) -> Iterable[Any]:
    """One fact of every GPU, None where it is not known; nothing when the host's facts name no GPU."""
    gpus = host.get("gpus")
    return [gpu.get(key) for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, (list, tuple)) else []
