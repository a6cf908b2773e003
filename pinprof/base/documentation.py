"""Where the documentation is on the web, as far as this installation knows."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

_ADDRESS = re.compile(r"^Project-URL: Documentation, (https?://.*?)/*$", re.MULTILINE)


@cache
def site() -> str:
    """The address of the documentation in the package's metadata, without a final `/`; empty if a build named none."""
    # `importlib.metadata` would load a parser of mails for this.
    for folder in sys.path:
        for metadata in Path(folder).glob("pinprof-*.dist-info/METADATA"):
            named = _ADDRESS.search(metadata.read_text("utf-8", "replace").partition("\n\n")[0])
            return named[1] if named else ""
    return ""


def anchor(heading: str) -> str:
    """The name by which a heading is linked to, on the site and on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def address(page: str, heading: str = "") -> str:
    """The address of a document, or of one of its headings; empty without a site."""
    return f"{site()}/{page}/{'#' * bool(heading)}{anchor(heading)}" if site() else ""
