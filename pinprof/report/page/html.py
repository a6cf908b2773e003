"""The page: ReportData through templates into one self-contained file.

Nothing is requested from anywhere: styles, scripts, the flamegraph's columns and plotly's script travel inside the
page, and its Content-Security-Policy forbids everything else; scripts are admitted by their hashes. Data enters only
through the template engine's escaping, as JSON with `<`, `>` and `&` spelled out, or as base64.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from pinprof import __version__
from pinprof.base import cache, documentation, units
from pinprof.base.errors import unwritable
from pinprof.report.data import share_of
from pinprof.report.export.streams import binary_output
from pinprof.report.flame import pack
from pinprof.report.forms import Written
from pinprof.report.gather import ReportData
from pinprof.report.names import event_label, event_labels, printable
from pinprof.report.page.bundle import (
    SHARED_NAME,
    asset,
    bundle,
    packed_plot_script,
    plot_script,
    script_hash,
    share_scripts,
)
from pinprof.report.section import ForScripts

LOADER: jinja2.BaseLoader = jinja2.PackageLoader("pinprof.report", "templates")
"""Where templates come from."""

_LINE_SEPARATORS = {0x2028: "\\u2028", 0x2029: "\\u2029"}


def write_html(data: ReportData, path: Path, shared_assets: Path | None = None) -> None:
    """Write the page to `path`; PinprofError if it cannot be written.

    With `shared_assets`, plotly's script and the page's own are put there once and referred to by relative paths, for a
    folder of pages.
    """
    given = for_scripts(data)
    try:
        plot, script = share_scripts(path, shared_assets, plot=bool(given.plots)) if shared_assets else (None, None)
    except OSError as error:
        raise unwritable(f"The page {path}", error) from error
    write_whole(render(data, plot, script, given), path)


def write_whole(page: str, path: Path) -> None:
    """Write a page's text; PinprofError if it cannot be, and then no half of it is left."""
    with binary_output(path) as file:
        file.write(page.encode("utf-8", "replace"))


def render(
    answer: Written[Any],
    plot_source: str | None = None,
    script_source: str | None = None,
    given: ForScripts | None = None,
) -> str:
    """The page as text; the sources are relative paths of a shared plot script and page script, None to embed them.

    `given` is what `for_scripts` makes of the answer, where it is made already.
    """
    design = answer.forms.page_design()
    script = bundle(design.script) if script_source is None else f"{SHARED_NAME}();"
    given = given or for_scripts(answer)
    plot = plot_script() if given.plots and plot_source is None else None
    hashes = [script_hash(script), *([script_hash(plot)] if plot else [])]
    shared = plot_source is not None or script_source is not None
    return page(
        "page.html.j2",
        "".join(map(asset, design.sheets)) + design.colours(answer),
        script,
        " ".join([*hashes, *(["'self'", "file:"] if shared else [])]),
        "worker-src blob:; " if design.flame else "",
        design=design,
        title=design.title(answer),
        sections=[section for section in answer.sections.values() if section.on_page()],
        plot_source=plot_source,
        script_source=script_source,
        page_data=embed_json({**given.data, "plots": given.figures}) if given.data else "",
        packed={**given.packed, **({"plot-script": packed_plot_script()} if plot else {})},
        **design.context(answer),
    )


def page(template: str, style: str, script: str, scripts: str, directives: str = "", **values: Any) -> str:
    """A page's text, of the project's own styles and modules and what its template shows.

    Its Content-Security-Policy admits `scripts` (hashes of the page's own) and no connection of any kind; `directives`
    are further ones. Styles are `unsafe-inline` because plotly writes style attributes; no data ever reaches a style.
    """
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        f"{directives}base-uri 'none'; form-action 'none'"
    )
    own = {"style": Markup(style), "script": Markup(script)}  # noqa: S704  # the project's own
    return environment().get_template(template).render(policy=policy, version=__version__, **own, **values)


def for_scripts(answer: Written[Any]) -> ForScripts:
    """What the page's scripts read, of all sections together; names are made printable, so that no script has to."""
    parts = [answer.forms.page_design().data(answer), *(section.for_scripts() for section in answer.sections.values())]
    data, packed = dict[str, Any](), dict[str, str]()
    figures, drawings = dict[str, Any](), dict[str, Any]()
    for part in parts:
        data |= part.data
        figures |= part.figures
        drawings |= part.drawings
        packed |= part.packed
    if drawings:
        text = json.dumps(drawings, ensure_ascii=False, separators=(",", ":"))
        packed["drawings"] = pack(text.encode("utf-8", "replace"))
    return ForScripts(data, figures, drawings, packed, bool(figures) or any(part.plots for part in parts))


def embed_json(value: Any) -> Markup:
    """JSON that may stand in a script element: no character of it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text.translate(_LINE_SEPARATORS))  # noqa: S704  # escaped by the lines above


def flattened(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """(label, text) of every fact, nested ones joined by `›`; empty ones are left out."""
    rows = []
    for key, value in facts.items():
        label = prefix + _label(str(key), value)
        if isinstance(value, Mapping):
            rows += flattened(value, f"{label} › ")
        elif isinstance(value, list | tuple):
            if all(isinstance(item, Mapping) for item in value):
                for index, item in enumerate(value):
                    rows += flattened(item, f"{label} {index} › " if len(value) > 1 else f"{label} › ")
            else:
                rows.append((label, ", ".join(str(item) for item in value)))
        elif isinstance(value, bool):
            rows.append((label, "yes" if value else "no"))
        elif value not in (None, ""):
            rows.append((label, _quantity(str(key), value)))
    return [row for row in rows if row[1]]


_LABELS = {"page_bytes": "page size", "huge_page_bytes": "huge page size", "gpus": "GPU", "cpus": "CPUs", "os": "OS"}
_ABBREVIATIONS = re.compile(r"\b(cpu|cuda|gpu|iommu|numa|nvidia|pci|thp)\b")


def _label(key: str, value: Any) -> str:
    """A fact's name as a reader knows it, without the unit, which the figure has."""
    if isinstance(value, int | float):
        key = _LABELS.get(key, key.removesuffix("_bytes").removesuffix("_ns"))
    words = _LABELS.get(key, key).replace("_", " ")
    return _ABBREVIATIONS.sub(lambda match: match[0].upper(), words)


def _quantity(key: str, value: Any) -> str:
    """A number in the unit its key ends in, everything else as it is."""
    if isinstance(value, int | float):
        if key.endswith("_bytes"):
            return units.format_bytes(int(value))
        if key.endswith("_ns"):
            return units.format_ns(value)
    return str(value)


_COMMAND = re.compile("`([^`]+)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_QUANTITY = re.compile(r"(?<=\d) (?=(?:[num\u00b5]?s|[KMGTP]?i?B|GB/s|%)\b|%)")


def prose(text: object) -> Markup:
    """A sentence: what stands between backticks as code; no line ends inside an option or between number and unit."""
    parts = _COMMAND.split(str(escape(printable(str(text)))))
    parts[::2] = [
        _OPTION.sub(r'<span class="together">\g<0></span>', _QUANTITY.sub("\u00a0", part)) for part in parts[::2]
    ]
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return Markup("".join(parts))  # noqa: S704  # escaped above


def words(command: str) -> Markup:
    """A command line whose lines end between its words only, not after the hyphens of an option."""
    return Markup(" ").join(Markup('<span class="word">{}</span>').format(word) for word in command.split(" "))


def environment() -> jinja2.Environment:
    """The templates, with autoescape and the filters that show quantities."""
    kept = cache.folder()
    environment = jinja2.Environment(
        loader=LOADER,
        bytecode_cache=jinja2.FileSystemBytecodeCache(str(kept)) if kept else None,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["share_of"] = share_of
    environment.globals["event_label"] = event_label
    environment.globals["event_labels"] = event_labels
    environment.globals["about"] = documentation.address
    environment.filters |= {
        "show": lambda value: printable(str(value)),
        "prose": prose,
        "words": words,
        "weight": units.format_weight,
        "ns": units.format_ns,
        "count": units.format_count,
        "bytes": units.format_bytes,
        "rate": units.format_rate,
        "share": units.format_share,
        "facts": flattened,
    }
    return environment
