"""The flamegraph: all stacks and samples as columns; the page's scripts derive every view from them."""

from __future__ import annotations

from pinprof.analyze import Analysis
from pinprof.report.data import ReportData, Shared
from pinprof.report.flame import FlameData, pack_strings
from pinprof.report.names import printable
from pinprof.report.section import ForScripts, Section


def _build(_: Analysis, shared: Shared) -> FlameData | None:
    return shared.flame


def _for_scripts(flame: FlameData | None, report: ReportData) -> ForScripts:
    layout, packed = flame.packed() if flame else ([], "")
    dsos = [printable(dso) for dso in flame.dsos] if flame else [""]
    facts = {
        "causes": len(report.causes),
        "dsos": len(dsos),
        "frames": len(flame.frame_name) if flame else 0,
        "threads": len(flame.threads) if flame else 0,
        "timed": flame is not None and flame.timed,
    }
    data = {"dsos": dsos, "timed": facts["timed"], "flame": {"layout": layout, "facts": facts}}
    names = {"flame-names": pack_strings(printable(name) for name in flame.names)} if flame else {}
    return ForScripts(data, packed=names | ({"flame-data": packed} if flame else {}))


FLAME = Section("flame", "Flamegraph", _build, for_scripts=_for_scripts)
