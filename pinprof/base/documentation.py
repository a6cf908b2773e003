"""Where the documentation is on the web, as far as this installation knows."""

from __future__ import annotations

import re
from functools import cache


@cache
def site() -> str:
    """The address of the documentation in the package's metadata, without a final `/`; empty if a build named none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        listed = metadata("pinprof").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    addresses = dict(str(entry).split(", ", 1) for entry in listed if ", " in str(entry))
    found = str(addresses.get("Documentation", "")).rstrip("/")
    return found if re.match(r"https?://", found) else ""


def anchor(heading: str) -> str:
    """The name by which a heading is linked to, on the site and on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def address(page: str, heading: str = "") -> str:
    """The address of a document, or of one of its headings; empty without a site."""
    return f"{site()}/{page}/{'#' * bool(heading)}{anchor(heading)}" if site() else ""
