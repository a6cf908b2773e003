"""Single ranges, calls and copies as columns, which the page's scripts sum again for a filtered part."""

from __future__ import annotations

from typing import Self

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.flame import pack_columns
from pinprof.report.instances import InstanceData
from pinprof.report.section import ForScripts, Section


@dataclass(frozen=True)
class Singles(Section[Explained]):
    """The columns, and how long the traced program ran."""

    key = "instances"

    rows: InstanceData
    run_ns: int
    """0 where nothing traced it."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None without a timeline or a page."""
        rows, activity = subject.shared.instances, subject.shared.activity
        return cls(rows, activity.span_ns if activity else 0) if rows else None

    def on_page(self) -> bool:
        """For scripts alone."""
        return False

    def for_scripts(self) -> ForScripts:
        """The packed columns and what they hold."""
        layout, packed = pack_columns(self.rows.columns())
        facts = {"layout": layout, "samplesStart": self.rows.samples_start_ns, "scoped": self.rows.scoped}
        facts |= {"merged": self.rows.merged, "run": self.run_ns}
        return ForScripts({"instances": facts}, packed={"instances": packed})
