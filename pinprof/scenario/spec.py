"""ScenarioSpec describes a scenario, and Variant another way to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.scenario.backend import MemoryKind


def paragraphs(docstring: str | None) -> str:
    """The docstring below its first line, one line per paragraph; empty without docstrings (-OO)."""
    _, _, text = (docstring or "").strip().partition("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


@dataclass(frozen=True)
class Variant:
    """One way to run a scenario: its differences from the scenario's description."""

    name: str
    summary: str
    """One line."""
    phases: tuple[str, ...] = ()
    """Its phases in order; empty if they are those of the scenario."""
    memory: tuple[MemoryKind, ...] = ()
    """Its memory types; empty if they are those of the scenario."""
    calls: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Backend → phase → call, where it differs."""
    alias: str = ""
    """A name that runs it like a separate scenario; empty if there is none."""
    guarded: bool = False
    """Whether it can affect others on the machine: it runs only if it is named."""


@dataclass(frozen=True)
class ScenarioSpec:
    """The description of a scenario, for people, reports and the session that runs it."""

    name: str
    family: str
    """Heading under which `pinprof list` shows it."""
    summary: str
    """One line."""
    description: str
    """What it does and what to look for, as paragraphs of one line each."""
    phases: tuple[str, ...]
    """Names of the phases of an iteration, in order."""
    memory: tuple[MemoryKind, ...]
    """Memory types that are live at the same time, each with the requested size."""
    calls: Mapping[str, Mapping[str, str]]
    """Backend → phase → the call that does the work, for example `cuda`, `alloc` → `cudaMallocHost`."""
    emulation: str | None = None
    """What the host backend does instead of a GPU; None if the scenario cannot run without one."""
    variants: tuple[Variant, ...] = ()
    """The ways to run it, the default first; empty if there is one way."""
    aliases: tuple[str, ...] = ()
    """Other names for it."""
    threaded: bool = False
    """Whether it uses `--threads`."""
    most_bytes: int = 0
    """The maximum size that it uses, because more would only take longer; 0 for no limit."""
    needs: str = ""
    """A Python package that it imports, with an extra of the same name; empty if there is none."""

    def chosen(self, variant: str | None) -> tuple[ScenarioSpec, str]:
        """The spec of a variant (None: the default) and its name; UsageError lists the variants."""
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
