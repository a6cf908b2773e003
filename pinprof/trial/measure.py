"""What a trial compares: one number a run, of which less is better."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from pinprof.analyze import analyze
from pinprof.base.errors import UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Capture
from pinprof.trial.processes import EndedRun
from pinprof.trial.result import Unit

Kind = Literal["wall", "work", "range", "regex", "memory"]
_UNITS: Mapping[Kind, Unit] = MappingProxyType(
    {"wall": "ns", "work": "ns", "range": "ns", "regex": "number", "memory": "bytes"}
)


@dataclass(frozen=True)
class Measure:
    """One way to measure a run."""

    kind: Kind
    argument: str = ""
    """The range's name, or the regular expression."""

    @property
    def text(self) -> str:
        """As `--measure` takes it."""
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    @property
    def unit(self) -> Unit:
        """Its values'."""
        return _UNITS[self.kind]

    @property
    def recorded(self) -> bool:
        """Whether only a recorded run tells it."""
        return self.kind in ("work", "range")

    @property
    def missing(self) -> str:
        """What to say where a run tells no such number."""
        if self.kind == "regex":
            return f"Nothing that the program prints matches {self.argument!r} with a number above 0."
        if self.kind == "range":
            return f"The program has no range {self.argument!r}."
        return f"The program's recording has no {self.kind} time."

    def of_run(self, run: EndedRun) -> float | None:
        """The number of a run that was not recorded; None where it tells none. Of several matches the last counts."""
        if self.kind == "wall":
            return float(run.wall_ns)
        if self.kind == "memory":
            return float(run.peak_bytes) or None
        found = [match[1] for match in re.finditer(self.argument.encode(), run.output, re.MULTILINE)]
        try:
            value = float(found[-1])
        except (IndexError, ValueError, TypeError):
            return None
        return value if 0 < value < float("inf") else None

    def of_recording(self, capture: Capture) -> float | None:
        """The number of a recorded run: the length of phase work, or of all ranges of that name together."""
        if self.kind == "work":
            course = analyze(capture).course
            phase = course.phase("work") if course else None
            return float(phase.wall_ns) if phase and phase.wall_ns else None
        ranges = capture.ranges
        mine = np.array([name == self.argument for name in ranges.name], np.bool_)
        return float((ranges.end_ns - ranges.start_ns)[mine].sum()) or None

    def masked(self, output: bytes) -> bytes:
        """A run's output without the numbers that the measure takes from it: these differ from run to run."""
        if self.kind != "regex":
            return output
        cut, at = [], 0
        for match in re.finditer(self.argument.encode(), output, re.MULTILINE):
            cut.append(output[at : match.start(1)])
            at = match.end(1)
        return b"#".join([*cut, output[at:]])


def parse(text: str) -> Measure:
    """`wall`, `work`, `memory`, `range:NAME` or `regex:EXPRESSION` with one group around the number."""
    kind, colon, argument = text.partition(":")
    if kind in ("wall", "work", "memory") and not colon:
        return Measure(kind)  # type: ignore[arg-type]  # one of three literals
    if kind == "range" and argument:
        return Measure("range", argument)
    if kind == "regex" and argument:
        try:
            groups = re.compile(argument.encode()).groups
        except re.error as error:
            raise UsageError(
                f"{argument!r} is not a valid regular expression: {error}.", "Correct it.", "measure"
            ) from error
        if groups == 1:
            return Measure("regex", argument)
        raise UsageError(
            f"{argument!r} has {groups} groups instead of one.",
            "Put one pair of parentheses around the number.",
            "measure",
        )
    raise UsageError(
        f"{text!r} is not a measure.",
        "Write wall, work, memory, range:NAME or 'regex:seconds ([0-9.]+)'.",
        "measure",
    )
