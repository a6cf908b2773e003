"""Findings: the verdicts of the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.analyze import Analysis
from pinprof.analyze.results import Finding
from pinprof.report.data import ReportData, Shared
from pinprof.report.names import printable
from pinprof.report.section import Section
from pinprof.report.terminal.layout import sentence, titled

_SEVERITY_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan", "ok": "green"}


@dataclass(frozen=True)
class Findings(Section):
    """The verdicts, in the order of the analysis."""

    key, title = "findings", "Findings"
    absent = (("findings", ()),)

    all: tuple[Finding, ...]

    @classmethod
    def build(cls, analysis: Analysis, _: Shared) -> Self | None:
        """None where no rule was asked."""
        return cls(analysis.findings) if analysis.findings else None

    def having(self, status: str) -> list[Finding]:
        """Those of one `Finding.status`."""
        return [finding for finding in self.all if finding.status == status]

    def to_json(self) -> dict[str, Any]:
        """Every verdict."""
        return {"findings": [asdict(finding) for finding in self.all]}

    def to_text(self, _report: ReportData, _console: Console) -> Iterator[RenderableType]:
        """What fired, with its evidence; the names of all other rules."""
        lines: list[RenderableType] = []
        for finding in self.having("fired"):
            style = _SEVERITY_STYLE.get(finding.severity, "")
            lines.append(Text(f"{finding.severity}: ", style) + Text(printable(finding.title), "bold"))
            more = [*finding.evidence, *([f"→ {finding.advice}"] if finding.advice else [])]
            lines += [Padding(sentence(printable(line)), (0, 0, 0, 2), expand=False) for line in more]
        for label, status in (("passed", "clear"), ("not assessable", "not-assessable")):
            if rules := [printable(finding.rule) for finding in self.having(status)]:
                lines.append(Text(f"{label}: {', '.join(rules)}", "dim"))
        yield from titled(self.title, Group(*lines))
