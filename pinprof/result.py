"""What `pinprof.open` and `pinprof.record` return: an analysed recording as pandas tables and as a page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinprof.base.errors import PinprofError, ToolMissing

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from pinprof.analyze import Run

_OPTION = re.compile(
    r"--(no-off-cpu|force|frequency|fault-period|kallsyms|symfs|ranges|torch|gpu(?: (\w+))?)\b|(?<!\S)-o\b"
)
"""Options of the command line that are keywords in Python."""


@contextmanager
def worded_for_python() -> Iterator[None]:
    """Errors inside name keywords of Python functions instead of options of the command line."""
    try:
        yield
    except PinprofError as error:
        error.problem, error.remedy = in_python(error.problem), in_python(error.remedy)
        raise


def in_python(text: str) -> str:
    """A message with `output`, `force=True` or `gpu="off"` instead of `-o`, `--force` or `--gpu off`."""

    def keyword(match: re.Match[str]) -> str:
        name, value = (match[1] or "output").partition(" ")[0], match[2]
        if name == "no-off-cpu":
            return "`off_cpu=False`"
        if name == "force":
            return "`force=True`"
        return f'`{name}="{value}"`' if value else f"`{name.replace('-', '_')}`"

    return _OPTION.sub(keyword, text)


class Result:
    """A recording, explained. Tables are pandas DataFrames; times are in nanoseconds, sizes in bytes.

    An empty table has its columns.
    """

    def __init__(self, analysis: Run) -> None:
        self.analysis = analysis
        """The whole analysis, as frozen dataclasses (pinprof.analyze.Run)."""

    @property
    def headline(self) -> str:
        """The report's answer, in one sentence."""
        return self.analysis.answer

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What of the run the recording does not hold, one sentence each: read these first."""
        return tuple(gap.text for gap in self.analysis.gaps)

    @property
    def opportunities(self) -> pd.DataFrame:
        """One row per opportunity, the largest saving first: where, what it costs and saves, and its cure."""
        found = self.analysis.opportunities.found if self.analysis.opportunities else ()
        rows = [
            (
                *(
                    one.rank,
                    one.title,
                    one.site.function,
                    one.site.file,
                    one.site.line,
                    one.site.thread,
                    one.site.range,
                ),
                *(one.phase, ", ".join(one.causes), one.count, one.bytes, one.cost_ns),
                *(one.saving.likely_ns, one.saving.low_ns, one.saving.high_ns),
                *(one.cure.id, one.cure.text, one.cure.code, one.cure.environment, one.cure.option),
            )
            for one in found
        ]
        site = "rank title function file line thread range phase causes count bytes cost_ns"
        return _rows(f"{site} saving_ns saving_low_ns saving_high_ns cure advice code environment option", rows)

    @property
    def findings(self) -> pd.DataFrame:
        """One row per diagnosis: `severity, rule, title, advice, evidence`. Those that apply come first."""
        rows = [
            (row.severity, row.rule, row.title, row.advice, "\n".join(row.evidence)) for row in self.analysis.findings
        ]
        return _rows("severity rule title advice evidence", rows)

    @property
    def causes(self) -> pd.DataFrame:
        """One row per event and cause: `event, unit, leaf, weight, share` of the whole recording, heaviest first."""
        rows = [
            (event.event.name, event.event.unit, leaf, weight, weight / event.total if event.total else 0.0)
            for event in self.analysis.events
            for leaf, weight in sorted(event.by_leaf.items(), key=lambda entry: -entry[1])
            if weight
        ]
        return _rows("event unit leaf weight share", rows)

    @property
    def lines(self) -> pd.DataFrame:
        """One row per event and line of the program: where it is, its weight, and its heaviest cause (`leaf`)."""
        rows = [
            (
                *(event.event.name, event.event.unit, line.file, line.line, line.function, line.library),
                *(line.samples, line.weight, line.weight / found.total if found.total else 0.0),
                *next(iter(line.leaves.items()), ("", 0)),
                *(line.inside, line.inside_weight),
            )
            for found in self.analysis.lines
            for event in (self.analysis.events[found.event],)
            for line in found.lines
        ]
        place = "event unit file line function library"
        return _rows(f"{place} samples weight share leaf leaf_weight inside inside_weight", rows)

    @property
    def samples(self) -> pd.DataFrame:
        """One row per sample: time, thread, event, weight, cause, function, range and line (docs/formats.md)."""
        return self._table("samples")

    @property
    def ranges(self) -> pd.DataFrame:
        """One row per range: `name, domain, start_ns, end_ns, pid, tid, depth`."""
        return self._table("ranges")

    @property
    def range_causes(self) -> pd.DataFrame:
        """`range, domain, depth, event, unit, leaf, level, work, weight`; an empty range is the whole recording."""
        return self._table("leaves")

    @property
    def calls(self) -> pd.DataFrame:
        """One row per CUDA call; empty if the recording has no calls."""
        return self._table("calls")

    @property
    def gpu_ops(self) -> pd.DataFrame:
        """One row per kernel, copy or migration; empty if the recording has no GPU work."""
        return self._table("gpu_ops")

    @property
    def ledger(self) -> pd.DataFrame:
        """One row per place that allocates CUDA memory: its call, line, thread and sizes."""
        ledger = self.analysis.ledger
        names = (
            "kind api line pid tid thread allocations frees requested_bytes granted_bytes live_bytes "
            "live_granted_bytes live_count peak_bytes peak_granted_bytes peak_ns unused_bytes reached_bytes "
            "last_copy_ns requested_by"
        )
        sites = ledger.sites if ledger else ()
        return _rows(names, [tuple(getattr(site, name) for name in names.split()) for site in sites])

    @property
    def blame(self) -> pd.DataFrame:
        """One row per waiting place and holder: how long a thread waits there, and for whom. Longest first."""
        from pinprof.report.joined_frames import with_frames_joined

        stacks = with_frames_joined(self.analysis.capture)
        rows = [
            (
                *(row.wait, row.ns, row.count, row.longest_ns, row.longest_at_ns, row.certain),
                *(row.waiter.pid, row.waiter.tid, row.waiter.thread),
                *(row.waiter.site.function, row.waiter.site.file, row.waiter.site.line),
                *(str(row.holder.kind), row.holder.pid, row.holder.tid, row.holder.name),
                *(row.holder.site.function, row.holder.site.file, row.holder.site.line),
                *(", ".join(row.holder.causes), " < ".join(stacks.names(row.holder.node))),
            )
            for row in (self.analysis.blame.rows if self.analysis.blame else ())
        ]
        return _rows(
            "wait ns count longest_ns longest_at_ns certainty pid tid thread function file line "
            "holder_kind holder_pid holder_tid holder_name holder_function holder_file holder_line holder_causes "
            "holder_stack",
            rows,
        )

    def figures(self) -> dict[str, go.Figure]:
        """The plots of the report by name, as plotly figures; ToolMissing if plotly is not installed."""
        from pinprof.report.figures import as_plotly
        from pinprof.report.gather import build
        from pinprof.report.page.html import for_scripts

        return as_plotly(for_scripts(build(self.analysis)).figures)

    def save_page(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file and return its path; PinprofError if that fails."""
        from pinprof.report.gather import build
        from pinprof.report.page.html import write_html

        target = Path(path)
        with worded_for_python():
            write_html(build(self.analysis), target)
        return target

    def page(self) -> str:
        """The report as HTML."""
        from pinprof.base import files

        with files.temporary_folder() as folder:
            return self.save_page(folder / "page.html").read_text("utf-8")

    def __repr__(self) -> str:
        return f"<pinprof result: {self.headline}>"

    def _table(self, name: str) -> pd.DataFrame:
        from pinprof.report.export.tables import table

        return _frame(table(self.analysis, name))


def _rows(columns: str, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    return _frame({name: [row[at] for row in rows] for at, name in enumerate(columns.split())})


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        raise ToolMissing("Tables need pandas.", "Install it: pip install 'pinprof[notebook]'.", "pandas") from None
    return pd.DataFrame(dict(columns))
