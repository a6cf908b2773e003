"""The flamegraph: all stacks and samples as columns; the page's scripts derive every view from them."""

from __future__ import annotations

from typing import Self

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.flame import FlameData, pack_strings
from pinprof.report.names import printable
from pinprof.report.section import ForScripts, Section


@dataclass(frozen=True)
class Flamegraph(Section[Explained]):
    """The columns; None without samples."""

    key, title = "flame", "Flamegraph"
    shows = "columns"

    columns: FlameData | None
    causes: int
    """Rows of the taxonomy."""

    @classmethod
    def build(cls, subject: Explained) -> Self:
        """The page's scripts want to know how many there are, if none."""
        return cls(subject.shared.flame, len(subject.shared.causes))

    def for_scripts(self) -> ForScripts:
        """The packed columns and what they hold."""
        flame = self.columns
        layout, packed = flame.packed if flame else ([], "")
        dsos = [printable(dso) for dso in flame.dsos] if flame else [""]
        facts = {
            "causes": self.causes,
            "dsos": len(dsos),
            "frames": len(flame.frame_name) if flame else 0,
            "threads": len(flame.threads) if flame else 0,
            "timed": flame is not None and flame.timed,
        }
        data = {
            "dsos": dsos,
            "timed": facts["timed"],
            "step": flame.step_ns / 1000 if flame else 0,
            "flame": {"layout": layout, "facts": facts},
        }
        if flame is None:
            return ForScripts(data)
        names = pack_strings(printable(name) for name in flame.names)
        return ForScripts(data, packed={"flame-names": names, "flame-data": packed})
