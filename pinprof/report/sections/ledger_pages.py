"""Where the pages of a line's memory lie, in words."""

from __future__ import annotations

from pinprof.analyze.ledger.results import SiteResult
from pinprof.base import units


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
