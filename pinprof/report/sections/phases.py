"""Phases of the thread whose time counts, from its start-up to its exit, and the steps of its work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.analyze.course.results import Phase, Steps
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report import markdown
from pinprof.report.data import Explained, Tile
from pinprof.report.names import printable
from pinprof.report.section import Section, picked
from pinprof.report.terminal.layout import kept, sentence, titled


@dataclass(frozen=True)
class Phases(Section[Explained]):
    """How the run went."""

    key, title = "phases", "Phases"
    absent = (("phases", ()), ("steps", None), ("critical_thread", None))

    phases: tuple[Phase, ...]
    steps: Steps | None
    pid: int
    tid: int
    thread: str
    """The critical thread's name, empty where it has none."""
    start_ns: int
    """Where times begin to count, on the capture's clock: the timeline's start."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where nothing has a time."""
        course = subject.run.course
        if course is None or not course.phases:
            return None
        thread = next(
            (one.name for one in subject.shared.threads if (one.pid, one.tid) == (course.pid, course.tid)), ""
        )
        start = course.start_ns if subject.shared.start_ns is None else subject.shared.start_ns
        return cls(course.phases, course.steps, course.pid, course.tid, thread, start)

    @property
    def wall_ns(self) -> int:
        """All phases together."""
        return sum(phase.wall_ns for phase in self.phases)

    @property
    def about_thread(self) -> str:
        """Whose time it is."""
        return (
            f"Wall time of thread {self.thread} {self.tid}".replace("  ", " ")
            + ", which determines the length of the run."
        )

    @property
    def about_steps(self) -> str:
        """The repeated pattern in a sentence; empty without one."""
        if self.steps is None:
            return ""
        count = units.format_counted(self.steps.count, "step", "steps")
        when = units.format_ns(self.steps.slowest_start_ns - self.start_ns)
        slowest = f"slowest {units.format_ns(self.steps.slowest_ns)} at {when}"
        is_what = "is a range" if self.steps.by == "range" else "begins with"
        told = f"; each {is_what} {self.steps.what}" if self.steps.what else ""
        return f"{count}, median {units.format_ns(self.steps.median_ns)}, {slowest}{told}"

    def tiles(self) -> list[Tile]:
        """The length of each phase."""
        return [Tile(phase.name, units.format_ns(phase.wall_ns)) for phase in self.phases]

    def to_json(self) -> dict[str, Any]:
        """Phases and steps, in nanoseconds since the timeline's start."""
        phases = [
            {
                "name": phase.name,
                "wall_ns": phase.wall_ns,
                "intervals": [[one.start_ns - self.start_ns, one.end_ns - self.start_ns] for one in phase.intervals],
            }
            for phase in self.phases
        ]
        steps = self.steps and (
            picked(self.steps, "what count median_ns slowest_ns")
            | {"slowest_start_ns": self.steps.slowest_start_ns - self.start_ns}
        )
        thread = {"pid": self.pid, "tid": self.tid, "name": self.thread}
        return {"phases": phases, "steps": steps, "critical_thread": thread}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The phases in a line, the steps in another."""
        line = Text("\n").join(
            [self.line(), *(sentence(printable(text)) for text in (self.about_steps, self.about_thread) if text)]
        )
        yield from titled(self.title, line)

    def to_markdown(self) -> Iterator[str]:
        """A table of the phases, and the steps in a sentence."""
        yield from ("", "| phase | wall time | share |", "|---|---:|---:|")
        for phase in self.phases:
            share = units.format_share(phase.wall_ns, self.wall_ns)
            yield f"| {phase.name} | {units.format_ns(phase.wall_ns)} | {share} |"
        if self.about_steps:
            yield from ("", f"{markdown.text(self.about_steps)}.")

    def line(self) -> Text:
        """`start-up 0.4 s · work 1.8 s`."""
        return Text(" · ").join(Text(kept(f"{tile.label} {tile.value}")) for tile in self.tiles())
