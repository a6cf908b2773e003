"""The page: ReportData through templates into one self-contained file.

Nothing is requested from anywhere: styles, scripts, the flamegraph's columns and plotly's script travel inside the
page, and its Content-Security-Policy forbids everything else; scripts are admitted by their hashes. Data enters only
through the template engine's escaping, as JSON with `<`, `>` and `&` spelled out, or as base64.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pinprof import __version__, units
from pinprof.errors import PinprofError
from pinprof.report import activity_rows, chart, cost_rows, drawing, memory_rows, palette, plots, styles, summary
from pinprof.report.data import Cause, ReportData
from pinprof.report.export.streams import binary_output
from pinprof.report.flame import Thread, pack_columns, pack_strings
from pinprof.report.names import printable
from pinprof.report.panels import panels_for
from pinprof.report.python_data import main_threads

MODULES = (
    "format", "columns", "embedded", "theme", "state",
    "model", "forest", "room", "causes", "finish", "inverted", "derive", "survey", "engine",
    "treetable", "timetable", "painter", "gestures", "graph",
    "frames", "looks", "minimap", "export", "deeds", "details", "filters", "controls", "flamepanel",
    "plotscript", "chart", "plots", "spans", "timeline", "field", "blocks", "instances", "patches",
    "causesview", "rangesview", "activityview", "linked", "page",
)  # fmt: skip
"""ES modules under assets/, each after those it imports; the page carries them as one script."""

PLOT_SCRIPT = "plotly.min.js"
SHARED_NAME = "pinprofPage"
"""The function that a shared page script defines."""

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *//[^\n]*\n|^ */\*\*.*?\*/\n", re.MULTILINE | re.DOTALL)
_INDENT = re.compile(r"^ +", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:class|const|function)\b)", re.MULTILINE)
_LINE_SEPARATORS = {0x2028: "\\u2028", 0x2029: "\\u2029"}


def write_html(data: ReportData, path: Path, shared_assets: Path | None = None) -> None:
    """Write the page to `path`; PinprofError if it cannot be written.

    With `shared_assets`, plotly's script and the page's own are put there once and referred to by relative paths, for a
    folder of pages.
    """
    try:
        page = render(data) if shared_assets is None else render(data, *_share_scripts(data, path, shared_assets))
    except OSError as error:
        raise PinprofError(
            f"The page {path} cannot be written: {error.strerror}.", "Choose another place with -o.", "output"
        ) from error
    write_whole(page, path)


def write_whole(page: str, path: Path) -> None:
    """Write a page's text; PinprofError if it cannot be, and then no half of it is left."""
    with binary_output(path) as file:
        file.write(page.encode("utf-8", "replace"))


def render(data: ReportData, plot_source: str | None = None, script_source: str | None = None) -> str:
    """The page as text; the sources are relative paths of a shared plot script and page script, None to embed them."""
    script = bundle() if script_source is None else f"{SHARED_NAME}();"
    style = asset("page.css") + asset("activity.css") + asset("costs.css") + _colour_rules(data)
    plot = _plot_script() if _has_plot(data) and plot_source is None else None
    figures = _plots(data)
    layout, packed = data.flame.packed() if data.flame else ([], "")
    rows, rows_packed = pack_columns(data.instances.columns()) if data.instances else ([], "")
    instances = (
        {
            "layout": rows,
            "samplesStart": data.instances.samples_start_ns,
            "scoped": data.instances.scoped,
            "merged": data.instances.merged,
            "run": data.activity.analysis.span_ns if data.activity else 0,
        }
        if data.instances
        else None
    )
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            data=data,
            panels=panels_for(data),
            causes=data.by_key(),
            cause_index={cause.key: index for index, cause in enumerate(data.causes)},
            has_chart=_has_chart(data),
            hero_facts=summary.hero_facts,
            quality_tiles=summary.quality_tiles,
            clock_rows=summary.clock_rows,
            quality_notes=summary.quality_notes,
            style=Markup(style),  # noqa: S704  # the project's own style sheet and palette
            script=Markup(script),  # noqa: S704  # the project's own modules
            policy=_policy(script, plot, shared=plot_source is not None or script_source is not None),
            plot_packed=_packed(plot) if plot else None,
            plot_source=plot_source,
            script_source=script_source,
            page_data=embed_json(_page_data(data, layout, instances) | {"plots": figures}),
            plots=figures,
            drawings_packed=drawing.packed(data),
            flame_packed=packed,
            instances_packed=rows_packed,
            names_packed=pack_strings(printable(name) for name in data.names),
            command=summary.quoted(data.capture.command),
            collectors=[(entry.get("name", ""), _command_of(entry)) for entry in data.capture.collectors],
            python_of=lambda name: next((table for table in data.python if table.event == name), None),
            main_threads=main_threads,
            measures=chart.MEASURES,
            purposes=styles.PURPOSES,
            migration_styles=styles.CAUSES,
            directions=styles.DIRECTIONS,
            memory_style=styles.memory_style,
            split_parts=activity_rows.split_parts,
            told_parts=activity_rows.told_parts,
            has_splits=activity_rows.has_splits,
            range_activity=activity_rows.range_activity,
            context_sentence=activity_rows.context_sentence,
            device_sentence=activity_rows.device_sentence,
            memory_tiles=memory_rows.memory_tiles,
            memory_notes=memory_rows.memory_notes,
            uvm_tiles=activity_rows.uvm_tiles,
            uvm_notes=activity_rows.uvm_notes,
            saving_sentence=cost_rows.saving_sentence,
            mode_rows=cost_rows.mode_rows,
            mode_difference=cost_rows.difference,
            mode_notes=cost_rows.notes,
            pinning_rows=cost_rows.pinning_rows,
            pinning_drawing=cost_rows.drawing,
            version=__version__,
        )
    )


def embed_json(value: Any) -> Markup:
    """JSON that may stand in a script element: no character of it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text.translate(_LINE_SEPARATORS))  # noqa: S704  # escaped by the lines above


def bundle() -> str:
    """The page's script."""
    return modules(*MODULES)


def modules(*names: str) -> str:
    """ES modules as one scope: imports between them dropped, exports local names, without comments and indentation."""
    text = "".join(_EXPORT.sub("", _IMPORT.sub("", asset(f"{name}.js"))) for name in names)
    return _INDENT.sub("", _COMMENT.sub("", text))


def flattened(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """(label, text) of every fact, nested ones joined by `›`; empty ones are left out."""
    rows = []
    for key, value in facts.items():
        label = f"{prefix}{str(key).replace('_', ' ')}"
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


def _quantity(key: str, value: Any) -> str:
    """A number in the unit its key ends in, everything else as it is."""
    if isinstance(value, int | float):
        if key.endswith("_bytes"):
            return units.format_bytes(int(value))
        if key.endswith("_ns"):
            return units.format_ns(value)
    return str(value)


def _page_data(
    data: ReportData, layout: list[tuple[str, str, int]], instances: dict[str, Any] | None
) -> dict[str, Any]:
    """What the scripts need: names are made printable here, so that no script has to."""
    flame, timed = data.flame, data.flame is not None and data.flame.timed
    return {
        "causes": [_cause(cause) for cause in data.causes],
        "dsos": [printable(dso) for dso in data.dsos],
        "events": [{"name": printable(event.name), "unit": event.unit, "spans": event.spans} for event in data.events],
        "ranges": [_range(data, index) for index in range(len(data.ranges))],
        "threads": [_thread_name(thread) for thread in data.threads or (flame.threads if flame else ())],
        "timed": timed,
        "title": re.sub(r"[^\w.-]+", "-", data.capture.path) or "pinprof",
        "flame": {
            "layout": layout,
            "facts": {
                "causes": len(data.causes),
                "dsos": len(data.dsos),
                "frames": len(flame.frame_name) if flame else 0,
                "threads": len(flame.threads) if flame else 0,
                "timed": timed,
            },
        },
        "instances": instances,
        "links": _link_rates(data),
    }


def _range(data: ReportData, index: int) -> dict[str, Any]:
    entry = data.ranges[index]
    number = {cause.key: index for index, cause in enumerate(data.causes)}
    return {
        "name": printable(entry.name),
        "label": chart.label(entry),
        "depth": entry.depth,
        "count": entry.count,
        "wall": entry.wall_ns,
        "spread": [entry.wall_min_ns, entry.wall_median_ns, entry.wall_max_ns],
        "leaves": [
            [[number[leaf], weight] for leaf, weight in part.leaves.items()]
            if (part := entry.event(event.name))
            else []
            for event in data.events
        ],
        "tiles": _tiles(data, index),
    }


def _tiles(data: ReportData, index: int) -> list[tuple[str, str, bool]]:
    """Managed memory in a range, as its section tells of the whole recording."""
    if data.activity is None:
        return []
    scope = data.activity.analysis.ranges[index]
    return [(tile.value, tile.label, tile.warn) for tile in activity_rows.uvm_tiles(data.activity, scope)]


def _link_rates(data: ReportData) -> list[float | None]:
    """Per row of the copies' table, the practical rate of its way over the link in bytes per nanosecond."""
    if data.activity is None:
        return []
    link = data.activity.analysis.transfers.link
    return [link.rate(copy.direction) if link else None for copy in data.activity.analysis.whole.copies]


def _cause(cause: Cause) -> dict[str, str]:
    return {
        "key": cause.key,
        "slug": cause.slug,
        "meaning": cause.meaning,
        "remedy": cause.remedy,
        "rule": cause.rule,
    }


def _thread_name(thread: Thread) -> str:
    return printable(f"{thread.name} {thread.tid}".strip())


def _has_chart(data: ReportData) -> bool:
    return any(part.total for entry in data.ranges for part in entry.events)


def _plots(data: ReportData) -> dict[str, Any]:
    """Plots that stand by themselves, by the name of their place on the page."""
    activity = data.activity.analysis if data.activity else None
    figures = {
        "transfers": plots.transfer_figure(activity.transfers, activity.whole.copies) if activity else None,
        "memory": plots.memory_figure(data.memory) if data.memory else None,
    }
    return {name: figure for name, figure in figures.items() if figure}


def _has_plot(data: ReportData) -> bool:
    return _has_chart(data) or bool(_plots(data))


def _colour_rules(data: ReportData) -> str:
    """Custom properties and classes for every cause, module and level, in both themes."""
    pairs = [(cause.key, cause.level) for cause in data.causes]
    slugs = {cause.key: cause.slug for cause in data.causes}
    rules = []
    for selector, dark in ((":root", False), (":root[data-theme=dark]", True)):
        values = {slugs[key]: colour for key, colour in palette.colours(pairs, dark=dark).items()}
        body = "".join(f"--cause-{slug}:{colour};" for slug, colour in values.items())
        body += "".join(f"--module-{rank}:{colour};" for rank, colour in enumerate(palette.modules(dark=dark)))
        body += "".join(f"--mode-{mode}:{colour};" for mode, colour in enumerate(palette.modes(dark=dark)))
        rules.append(f"{selector}{{{body}}}\n")
    rules += [f".c-{slug}{{--c:var(--cause-{slug})}}\n" for slug in slugs.values()]
    return "".join(rules) + level_rules()


def level_rules() -> str:
    """Custom properties and classes for every level, in both themes."""
    rules = []
    for selector, dark in ((":root", False), (":root[data-theme=dark]", True)):
        body = "".join(f"--level-{level}:{palette.level_colour(level, dark=dark)};" for level in palette.FAMILIES)
        rules.append(f"{selector}{{{body}}}\n")
    rules += [f".l-{level}{{--c:var(--level-{level})}}\n" for level in palette.FAMILIES]
    return "".join(rules)


def _policy(script: str, plot: bytes | None, *, shared: bool) -> str:
    """A Content-Security-Policy that admits this page's own scripts by hash, and no connection of any kind.

    Styles are `unsafe-inline` because plotly writes style attributes; no data ever reaches a style.
    """
    hashes = [script_hash(script)] + ([script_hash(plot)] if plot else [])
    scripts = " ".join([*hashes, *(["'self'", "file:"] if shared else [])])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "worker-src blob:; base-uri 'none'; form-action 'none'"
    )


def script_hash(script: str | bytes) -> str:
    """A script as a source expression of a Content-Security-Policy."""
    digest = hashlib.sha256(script if isinstance(script, bytes) else script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _share_scripts(data: ReportData, page: Path, folder: Path) -> tuple[str | None, str]:
    """Paths of the plot script, if the page has plots, and of the page script, as seen from the page."""
    folder.mkdir(parents=True, exist_ok=True)
    # A function, because its text can be asked for: the worker is made of the same script.
    script = f'globalThis.{SHARED_NAME} = function () {{\n"use strict";\n{bundle()}}};\n'.encode()
    own = f"pinprof-{hashlib.sha256(script).hexdigest()[:12]}.js"
    plot = _share(page, folder / PLOT_SCRIPT, _plot_script()) if _has_plot(data) else None
    return plot, _share(page, folder / own, script)


def _share(page: Path, target: Path, script: bytes) -> str:
    if not target.exists() or target.read_bytes() != script:
        target.write_bytes(script)
    return Path(_relative(target.resolve(), page.resolve().parent)).as_posix()


def _relative(target: Path, start: Path) -> str:
    """`target` seen from the directory `start`; both absolute."""
    shared = 0
    for mine, other in zip(target.parts, start.parts, strict=False):
        if mine != other:
            break
        shared += 1
    return str(Path(*[".."] * (len(start.parts) - shared), *target.parts[shared:]))


@lru_cache(maxsize=1)
def _packed(script: bytes) -> str:
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode("ascii")


def _plot_script() -> bytes:
    """The plot script as plotly's Python package carries it, without importing that package's figure classes."""
    return (resources.files("plotly") / "package_data" / PLOT_SCRIPT).read_bytes()


def asset(name: str) -> str:
    """The text of a file under assets/."""
    return (resources.files("pinprof.report") / "assets" / name).read_text("utf-8")


def _command_of(collector: Mapping[str, Any]) -> str:
    command = collector.get("command", ())
    return command if isinstance(command, str) else summary.quoted([str(word) for word in command])


def environment() -> jinja2.Environment:
    """The templates, with autoescape and the filters that show quantities."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pinprof.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "show": lambda value: printable(str(value)),
        "weight": units.format_weight,
        "ns": units.format_ns,
        "count": units.format_count,
        "bytes": units.format_bytes,
        "rate": units.format_rate,
        "share": units.format_share,
        "facts": flattened,
    }
    return environment
