"""The ledger of pinned memory: what each line asked for, got and holds, over time and against the kernel's counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.allocations.results import HOST_KINDS
from pinprof.analyze.ledger.results import Checkpoint, KernelView, Ledger, SiteResult
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import clipped
from pinprof.data.gpu_functions import Allocated
from pinprof.report.data import Explained
from pinprof.report.figures import layout, title
from pinprof.report.names import printable, shortened
from pinprof.report.section import ForScripts, Section, picked
from pinprof.report.styles import Style
from pinprof.report.terminal.layout import figures_table, sentence, style_colour, titled

KIND_STYLES: dict[Allocated, Style] = {
    "pinned": Style("pinned", "pin"),
    "registered": Style("registered", "dma"),
    "managed": Style("managed", "uvm"),
    "pool": Style("from a pool", "free"),
    "device": Style("device", "user"),
}
MOST_SITES, MOST_ROWS, MOST_TEXT_ROWS = 200, 25, 8
"""Sites in the JSON, on the page and in the terminal; the rest is summed up."""
MOST_PLACED = 3
"""Sites of which the terminal says where their pages lie."""
MOST_NAME, _NAME_WIDTH = 200, 40
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SUMMED = "allocations frees requested_bytes granted_bytes live_bytes live_granted_bytes live_count"


def pages_text(site: SiteResult) -> str:
    """Where a site's pages lie, in one line; empty where that is not known."""
    return " ".join(pages_parts(site))


def pages_parts(site: SiteResult) -> list[str]:
    """The same, with the places at which the line may be broken."""
    pages = site.pages
    if pages is None:
        return []
    parts = [f"node {node}: {units.format_bytes(size)}" for node, size in pages.nodes.items()]
    for size, what in ((pages.absent_bytes, "no page"), (pages.unknown_bytes, "unknown")):
        parts += [f"{what}: {units.format_bytes(size)}"] if size else []
    end = "" if pages.huge_share is None else ";"
    parts = [f"{part}," for part in parts[:-1]] + [f"{part}{end}" for part in parts[-1:]]
    return parts if pages.huge_share is None else [*parts, f"huge {round(100 * pages.huge_share)} %"]


@dataclass(frozen=True)
class LedgerSection(Section[Explained]):
    """Who holds which memory of CUDA, and since when."""

    key, title, short = "ledger", "Pinned memory ledger", "Ledger"
    after = (("text", "blame"), ("json", "blame"))
    absent = (("ledger", None),)

    ledger: Ledger
    start_ns: int
    """Where the timeline begins, on the capture's clock."""

    styles = KIND_STYLES
    pages_parts = staticmethod(pages_parts)

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where no allocation was recorded."""
        ledger = subject.run.ledger
        if ledger is None:
            return None
        start = (
            subject.shared.start_ns
            if subject.shared.start_ns is not None
            else int(ledger.curves.edge_ns.min(initial=0))
        )
        return cls(ledger, start)

    def on_page(self) -> bool:
        """The memory of the device alone is no matter of the host's."""
        return any(site.kind != "device" for site in self.ledger.sites)

    @property
    def rows(self) -> tuple[SiteResult, ...]:
        """The sites that the page shows."""
        return self.ledger.sites[:MOST_ROWS]

    @property
    def others(self) -> dict[str, int]:
        """What the sites have together that the page does not show."""
        return _summed(self.ledger.sites[MOST_ROWS:])

    @property
    def answer(self) -> str:
        """How much page-locked memory was asked for, granted and held, in a sentence."""
        locked = [total for total in self.ledger.totals if total.kind in HOST_KINDS]
        if not locked:
            return "The program allocates no page-locked memory."
        wanted, got = (sum(getattr(total, name) for total in locked) for name in ("requested_bytes", "granted_bytes"))
        live = sum(total.live_granted_bytes for total in locked)
        count = units.format_counted(sum(total.allocations for total in locked), "allocation", "allocations")
        left = f"{units.format_bytes(live)} of it is live at the end" if live else "none of it is live at the end"
        return (
            f"The program requests {units.format_bytes(wanted)} of page-locked memory in {count} and gets "
            f"{units.format_bytes(got)}; {left}."
        )

    @property
    def notes(self) -> list[str]:
        """What the kernel says, and what is uncertain."""
        notes = [kernel_sentence(view) for view in self.ledger.kernel]
        notes += self.growing
        unused = sum(site.unused_bytes or 0 for site in self.ledger.sites if site.kind in HOST_KINDS)
        if unused:
            notes.append(f"{units.format_bytes(unused)} of the live memory at the end was never copied to or from.")
        if self.ledger.unplaced_copies:
            what = units.format_counted(self.ledger.unplaced_copies, "copy", "copies")
            notes.append(f"The recording lacks the address of {what}, so memory that they use may count as unused.")
        if self.ledger.checkpoints_left_out:
            what = units.format_counted(self.ledger.checkpoints_left_out, "more checkpoint", "more checkpoints")
            notes.append(f"The report leaves out {what}.")
        return [*notes, *self.ledger.notes]

    @property
    def places(self) -> bool:
        """Whether the recording knows where pages of some site lie."""
        return any(site.pages for site in self.ledger.sites)

    @property
    def placed(self) -> list[str]:
        """A sentence for each line of the terminal whose pages are known."""
        sites = [site for site in self.ledger.sites if site.kind != "device" and site.pages][:MOST_PLACED]
        return [f"Pages of {line_of(site)}: {pages_text(site)}." for site in sites]

    @property
    def growing(self) -> list[str]:
        """A sentence for each line whose memory grows from step to step."""
        return [
            f"{line_of(site)} holds {units.format_bytes(round(site.growth.bytes_per_step))} more with each step "
            f"({site.growth.steps} steps)."
            for site in self.ledger.sites
            if site.growth and site.growth.significant and site.growth.bytes_per_step > 0
        ][:3]

    @property
    def figure(self) -> dict[str, Any] | None:
        """Live bytes over time, a line for each site that holds most; None where nothing was allocated."""
        curves = self.ledger.curves
        if not len(curves.edge_ns):
            return None
        most = max((int(values.max()) for values in curves.most), default=0)
        power = min(max(most.bit_length() - 1, 0) // 10, 6)
        unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")[power]
        time = [round(value / 1e9, 6) for value in (curves.edge_ns - self.start_ns).tolist()]
        return {
            "data": [
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{KIND_STYLES[kind].label}: {shortened(printable(line or 'caller not known'), 60)}",
                    "meta": KIND_STYLES[kind].level,
                    "x": time,
                    "y": [float(f"{value / 1024**power:.5g}") for value in values.tolist()],
                    "line": {"width": 2, "shape": "hv", "dash": dash},
                    "marker": {"symbol": "circle"},
                    "hovertemplate": f"%{{x:.3g}} s<br><b>%{{y}} {unit}</b><extra>%{{fullData.name}}</extra>",
                }
                for (kind, line), values, dash in zip(curves.labels, curves.most, self._dashes, strict=True)
            ],
            "layout": layout(title("seconds"), {"rangemode": "tozero"} | title(unit), 280, showlegend=True),
        }

    @property
    def _dashes(self) -> list[str]:
        """Curves of one kind have one colour: what tells them apart."""
        kinds = [kind for kind, _ in self.ledger.curves.labels]
        return [DASHES[kinds[:number].count(kind) % len(DASHES)] for number, kind in enumerate(kinds)]

    def to_json(self) -> dict[str, Any]:
        """Sites, totals, checkpoints and the kernel's counters."""
        ledger = self.ledger
        made = ledger.allocations
        return {
            "ledger": {
                "totals": [self._total(total) for total in ledger.totals],
                "sites": [self._site(site) for site in ledger.sites[:MOST_SITES]],
                "others": {"sites": max(len(ledger.sites) - MOST_SITES, 0)} | _summed(ledger.sites[MOST_SITES:]),
                "checkpoints": [self._checkpoint(point) for point in ledger.checkpoints],
                "checkpoints_left_out": ledger.checkpoints_left_out,
                "kernel": {view.counter: self._view(view) for view in ledger.kernel},
                **picked(made, "frees unknown_frees undecided_frees"),
                "unsized_allocations": made.unsized,
                "unplaced_copies": ledger.unplaced_copies,
                "notes": list(ledger.notes),
            }
        }

    def _total(self, total: Any) -> dict[str, Any]:
        names = "requested_bytes granted_bytes live_bytes live_granted_bytes peak_bytes peak_granted_bytes"
        return picked(total, f"kind allocations frees {names}") | {"peak_ns": total.peak_ns - self.start_ns}

    def _site(self, site: SiteResult) -> dict[str, Any]:
        last = None if site.last_copy_ns is None else site.last_copy_ns - self.start_ns
        growth = site.growth and picked(site.growth, "bytes_per_step steps significant")
        return (
            picked(site, "kind api")
            | {"line": clipped(site.line, MOST_NAME), "thread": clipped(site.thread, MOST_NAME)}
            | picked(site, f"pid tid {_SUMMED} peak_bytes peak_granted_bytes")
            | {"peak_ns": site.peak_ns - self.start_ns}
            | picked(site, "unused_bytes reached_bytes requested_by")
            | {"last_copy_ns": last, "growth": growth, "pages": self._pages(site)}
        )

    def _pages(self, site: SiteResult) -> dict[str, Any] | None:
        pages = site.pages
        if pages is None:
            return None
        return (
            {"time_ns": pages.time_ns - self.start_ns}
            | {"nodes": {str(node): size for node, size in pages.nodes.items()}}
            | picked(pages, "absent_bytes unknown_bytes huge_share looked_at")
        )

    def _checkpoint(self, point: Checkpoint) -> dict[str, Any]:
        by_line: dict[str, int] = {}
        for line, amount in point.by_line.items():
            by_line[clipped(line, MOST_NAME)] = by_line.get(clipped(line, MOST_NAME), 0) + amount
        return {
            "name": clipped(point.name, MOST_NAME),
            "edge": point.edge,
            "time_ns": point.time_ns - self.start_ns,
            "pid": point.pid,
            "live_bytes": point.live_bytes,
            "by_kind": dict(point.by_kind),
            "by_line": by_line,
        }

    def _view(self, view: KernelView) -> dict[str, Any]:
        names = "looks counted_bytes ledger_bytes difference_bytes worst_bytes before_bytes beside_bytes agrees"
        return picked(view, names) | {"time_ns": view.time_ns - self.start_ns}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The answer, the sites that hold most, and what the kernel says."""
        sites = tuple(site for site in self.ledger.sites if site.kind != "device")
        if not sites:
            return
        table = figures_table("line", "kind", "count", "requested", "granted", "peak", "at the end")
        for site in sites[:MOST_TEXT_ROWS]:
            table.add_row(
                Text(shortened(line_of(site), _NAME_WIDTH), style_colour(KIND_STYLES[site.kind])),
                KIND_STYLES[site.kind].label,
                units.format_count(site.allocations),
                units.format_bytes(site.requested_bytes),
                units.format_bytes(site.granted_bytes),
                Text(units.format_bytes(site.peak_granted_bytes), "bold"),
                units.format_bytes(site.live_granted_bytes) if site.live_granted_bytes else "–",
            )
        lines: list[RenderableType] = [sentence(self.answer), table]
        if rest := sites[MOST_TEXT_ROWS:]:
            live = units.format_bytes(_summed(rest)["live_granted_bytes"])
            more = units.format_counted(len(rest), "other site holds", "other sites hold")
            lines.append(Text(f"{more} {live} at the end.", "dim"))
        lines += [sentence(printable(note), "dim") for note in (*self.placed, *self.notes)]
        yield from titled(self.title, Group(*lines))

    def for_scripts(self) -> ForScripts:
        """The curves as a figure."""
        figure = self.figure
        return ForScripts(figures={"ledger": figure} if figure else {})


def line_of(site: SiteResult) -> str:
    """Who allocates, as far as it is known."""
    return f"{site.api} in {site.line}" if site.line else site.api


def kernel_sentence(view: KernelView) -> str:
    """What a counter says beside the ledger."""
    what = "VmPin of the program's processes" if view.counter == "VmPin" else "The kernel's count of pinned pages"
    ledger = units.format_bytes(view.ledger_bytes)
    if view.ledger_bytes and not view.counted_bytes:
        return f"{what} stays at 0 while the ledger has {ledger}: the driver does not count this memory there."
    off = units.format_share(abs(view.difference_bytes), max(view.ledger_bytes, 1))
    sign = "more" if view.difference_bytes > 0 else "less"
    before = f" Before the first allocation it had grown by {units.format_bytes(view.before_bytes)}, which the driver "
    before = f"{before}pins for itself." if view.before_bytes > 0 else ""
    if view.beside_bytes > 0:
        grown = units.format_bytes(view.beside_bytes)
        before += f" It grew by {grown} more between the program's calls: memory of the driver, or of other programs."
    if view.agrees:
        return f"{what} agrees with the ledger: {units.format_bytes(view.counted_bytes)} against {ledger}.{before}"
    late = " The kernel's count can lag by up to 125 pages per CPU." if view.counter == "nr_foll_pin" else ""
    return (
        f"{what} grows by {units.format_bytes(max(view.counted_bytes, 0))}, the ledger by {ledger}: {off} {sign}. "
        f"Only the kernel counts other programs and what the driver pins for itself.{late}{before}"
    )


def _summed(sites: tuple[SiteResult, ...]) -> dict[str, int]:
    return {name: sum(getattr(site, name) for site in sites) for name in _SUMMED.split()}
