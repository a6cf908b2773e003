"""Findings: the verdicts of the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Findings:
    """The verdicts, in the order of the analysis."""

    all: tuple[Finding, ...]

    def of(self, status: str) -> list[Finding]:
        """Those of one `Finding.status`."""
        return [finding for finding in self.all if finding.status == status]


def _build(analysis: Analysis, _: Shared) -> Findings | None:
    return Findings(analysis.findings) if analysis.findings else None


def _to_json(findings: Findings | None, _: ReportData) -> dict[str, Any]:
    return {"findings": [asdict(finding) for finding in findings.all] if findings else []}


def _to_text(findings: Findings, _report: ReportData, _console: Console) -> Iterator[RenderableType]:
    lines: list[RenderableType] = []
    for finding in findings.of("fired"):
        style = _SEVERITY_STYLE.get(finding.severity, "")
        lines.append(Text(f"{finding.severity}: ", style) + Text(printable(finding.title), "bold"))
        more = [printable(line) for line in finding.evidence]
        more += [f"→ {printable(finding.advice)}"] if finding.advice else []
        lines += [Padding(sentence(line), (0, 0, 0, 2), expand=False) for line in more]
    for label, status in (("checked and clear", "clear"), ("not assessable from this recording", "not-assessable")):
        if rules := [printable(finding.rule) for finding in findings.of(status)]:
            lines.append(Text(f"{label}: {', '.join(rules)}", "dim"))
    yield from titled("Findings", Group(*lines))


FINDINGS = Section("findings", "Findings", _build, to_json=_to_json, to_text=_to_text)
