"""ScenarioSpec: what a scenario says about itself, and Variant: another way to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from pinprof.errors import UsageError
from pinprof.lazy_dataclass import dataclass
from pinprof.scenario.backend import MemoryKind


def paragraphs(docstring: str | None) -> str:
    """What a module's docstring says below its first line, one line a paragraph; empty without docstrings (-OO)."""
    _, _, text = (docstring or "").strip().partition("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


@dataclass(frozen=True)
class Variant:
    """One way to run a scenario, as far as it differs from what the scenario says."""

    name: str
    summary: str
    """One line."""
    phases: tuple[str, ...] = ()
    """Its phases in order; empty when they are those of the scenario."""
    memory: tuple[MemoryKind, ...] = ()
    """Its kinds of memory; empty when they are those of the scenario."""
    calls: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Backend → phase → call, where it is another one."""
    alias: str = ""
    """A name under which it runs like a scenario of its own; empty when there is none."""
    guarded: bool = False
    """Whether it may hurt others on the machine: it is never run unless it is named."""


@dataclass(frozen=True)
class ScenarioSpec:
    """What a scenario is, for people, reports and the session that runs it."""

    name: str
    family: str
    """Heading under which `pinprof list` shows it."""
    summary: str
    """One line."""
    description: str
    """What it does, what to look for: paragraphs of one line each."""
    phases: tuple[str, ...]
    """Names of the phases of an iteration, in order."""
    memory: tuple[MemoryKind, ...]
    """Kinds of memory alive at the same time, each of the size asked for."""
    calls: Mapping[str, Mapping[str, str]]
    """Backend → phase → the call that does the work, for example `cuda`, `alloc` → `cudaMallocHost`."""
    emulation: str | None = None
    """What the host backend does instead of a GPU; None when the scenario cannot run without one."""
    variants: tuple[Variant, ...] = ()
    """The ways to run it, the default first; empty when there is one way."""
    aliases: tuple[str, ...] = ()
    """Other names that people look for it under."""
    threaded: bool = False
    """Whether `--threads` means anything to it."""
    most_bytes: int = 0
    """More is never used, whatever is asked for: it would take longer and show nothing else; 0 for no such limit."""
    shows: str = ""
    """What reports say first about it, if that is not where time went (`Manifest.scenario_shows`)."""
    needs: str = ""
    """A Python package that it imports, which pinprof has an extra of the same name for; empty when there is none."""

    def chosen(self, variant: str | None) -> tuple[ScenarioSpec, str]:
        """The spec of a variant, None for the default, and the variant's name; UsageError lists those there are."""
        if not self.variants:
            if variant is not None:
                raise UsageError(f"{self.name} has no variants.", "Leave --variant out.", "variant")
            return self, ""
        by_name = {one.name: one for one in self.variants}
        name = self.variants[0].name if variant is None else variant
        if name not in by_name:
            choice = f"Choose one of: {', '.join(by_name)}."
            raise UsageError(f"{self.name} has no variant {name!r}.", choice, "variant")
        one = by_name[name]
        phases = one.phases or self.phases
        calls = {}
        for backend, common in self.calls.items():
            own = {**common, **one.calls.get(backend, {})}
            calls[backend] = {phase: own[phase] for phase in phases if phase in own}
        return replace(self, phases=phases, memory=one.memory or self.memory, calls=calls), name
