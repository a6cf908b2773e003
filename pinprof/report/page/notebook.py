"""Reports in a notebook: what all of them share is stored once, each cell's output holds the rest.

A page is cut where a shared part stands: the plot script, the page's own script and its styles. The notebook's script
(`assets/notebook.js`) joins the pieces again and shows the page in a frame that may run scripts and nothing else.
Notebooks that show each output in a document of its own (Colab) need `whole`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from functools import lru_cache

from markupsafe import Markup

from pinprof.report.flame import pack
from pinprof.report.page.bundle import asset, bundle, packed_plot_script
from pinprof.report.page.recorded import SHEETS

_NOTICE = "The report's script is missing: run the cell with %load_ext pinprof again, or add --whole to this cell."


@lru_cache(maxsize=1)
def _parts() -> tuple[str, ...]:
    """Texts that reports have in common."""
    return packed_plot_script(), bundle("report.js"), "".join(map(asset, SHEETS))


@lru_cache(maxsize=1)
def _identity() -> str:
    """Which parts these are: another version of pinprof has others."""
    return hashlib.sha256("\0".join(_parts()).encode()).hexdigest()[:12]


def shared() -> str:
    """The output that all reports of a notebook need, 0.6 MB, as HTML."""
    ids = [f"pinprof-{_identity()}-{number}" for number in range(len(_parts()))]
    stored = Markup().join(_stored(name, part) for name, part in zip(ids, _parts(), strict=True))
    # A function, so that its names stay its own; a script of type module would not know its element.
    script = Markup("(function () {\n%s})();") % Markup(bundle("notebook.js"))  # noqa: S704 - the project's own
    return stored + Markup('<script data-parts="{}" data-shared="{}">{}</script>').format(
        " ".join(ids), _identity(), script
    )


def cell(page: str, tallest: int) -> str:
    """One report as HTML for the output of a cell, at most `tallest` pixels high."""
    name = f"pinprof-{secrets.token_hex(8)}"
    pieces: list[str | int] = [page]
    for number, part in enumerate(_parts()):
        pieces = [piece for text in pieces for piece in _cut(text, part, number)]
    call = json.dumps([name, _identity(), tallest])
    return (
        _stored(f"{name}-page", json.dumps(pieces, ensure_ascii=False))
        + Markup('<div id="{}">{}</div>').format(name, _NOTICE)
        + Markup("<script>(globalThis.pinprofCells ??= []).push({})</script>").format(Markup(call))  # noqa: S704
    )


def whole(page: str, height: int) -> str:
    """One report as HTML that needs nothing else, 2.5 MB."""
    return Markup(
        '<iframe srcdoc="{}" sandbox="allow-scripts" width="100%" height="{}" '
        'style="border: 1px solid #8884; border-radius: 6px" title="pinprof report"></iframe>'
    ).format(page, height)


def _stored(name: str, text: str) -> Markup:
    return Markup('<script type="application/octet-stream" id="{}">{}</script>').format(
        name, pack(text.encode("utf-8", "replace"))
    )


def _cut(text: str | int, part: str, number: int) -> list[str | int]:
    """A text at the places where a part stands, with the part's number between the pieces."""
    if isinstance(text, int):
        return [text]
    first, *others = text.split(part)
    return [first, *(piece for other in others for piece in (number, other))]
