"""Findings: the verdicts of the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.analyze.results import Finding
from pinprof.analyze.rules.rules import CUDA_RULES
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained, Shared
from pinprof.report.names import printable
from pinprof.report.section import Section
from pinprof.report.terminal.layout import sentence, titled

_SEVERITY_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan", "ok": "green"}


_CUDA_FILES = re.compile(r"libcuda|libnv|\[nvidia|nvidia[-_]uvm|\[not recorded\]")
"""In the names of files whose functions only programs with CUDA run, or where files are not known."""


def uses_cuda(shared: Shared) -> bool:
    """Whether the recording shows any use of CUDA: calls, GPU work, or functions of its libraries and drivers."""
    traced = shared.activity
    if traced and (traced.whole.calls or traced.context_init or traced.transfers.devices or traced.uvm):
        return True
    # Without the files of functions, nothing rules CUDA out.
    return shared.flame is None or any(map(_CUDA_FILES.search, shared.flame.dsos))


@dataclass(frozen=True)
class Findings(Section[Explained]):
    """The verdicts, in the order of the analysis."""

    key, title = "findings", "Findings"
    after = (("json", "quality"),)
    absent = (("findings", ()),)

    all: tuple[Finding, ...]
    uses_cuda: bool = True
    """Else a reader is not shown rules about CUDA that are not assessable; JSON has them."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where no rule was asked."""
        return cls(subject.run.findings, uses_cuda(subject.shared)) if subject.run.findings else None

    def having(self, status: str) -> list[Finding]:
        """Those of one `Finding.status` that a reader is shown."""
        found = [finding for finding in self.all if finding.status == status]
        if self.uses_cuda or status != "not-assessable":
            return found
        return [finding for finding in found if finding.rule not in CUDA_RULES]

    def to_json(self) -> dict[str, Any]:
        """Every verdict."""
        return {"findings": [asdict(finding) for finding in self.all]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """What fired, with its evidence; the names of all other rules."""
        lines: list[RenderableType] = []
        for finding in self.having("fired"):
            style = _SEVERITY_STYLE.get(finding.severity, "")
            lines.append(Text(f"{finding.severity}: ", style) + Text(printable(finding.title), "bold"))
            more = [*finding.evidence, *([f"→ {finding.advice}"] if finding.advice else [])]
            lines += [Padding(sentence(printable(line)), (0, 0, 0, 2), expand=False) for line in more]
        for label, status in (("below their thresholds", "clear"), ("not assessable", "not-assessable")):
            if rules := [printable(finding.rule) for finding in self.having(status)]:
                lines.append(Text(f"{label}: {', '.join(rules)}", "dim"))
        lines.append(Text("More about one: pinprof explain NAME", "dim"))
        yield from titled(self.title, Group(*lines))
