"""`pinprof report`: read a recording and show which cause took which time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pinprof.base.errors import CaptureError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import say
from pinprof.cli import launch
from pinprof.cli.answers import ALL_LINES, FILE, most_lines
from pinprof.cli.forms import form_of, refuse_folder
from pinprof.cli.part import part_alone, part_options, selected
from pinprof.cli.progress import measured, working
from pinprof.machine.process_limits import require_memory

if TYPE_CHECKING:
    from pinprof.analyze import Run
    from pinprof.analyze.completeness import Gap
    from pinprof.analyze.selection import Selection
    from pinprof.read import ReadOptions
    from pinprof.report.export.plain import Style

FORMATS = (
    "html", "text", "json", "folded", "markdown", "agent", "speedscope", "pprof", "firefox", "trace", "csv", "parquet",
)  # fmt: skip
"""Written out, so that --help imports no report module; a test compares it with `report.formats`."""

COLLAPSE_STYLES = ("pinprof", "flamegraph")
"""Likewise; a test compares it with `report.export.plain`."""

DAMAGED = 5
"""Exit status where a recording is damaged: the report is written, and does not show all of the run."""

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("paths", type=FILE, nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Write only this format (default: by the ending of -o, otherwise the summary and the page).",
)
@click.option("-o", "--output", type=FILE, help="Output file (default: standard output; pages: next to PATH).")
@click.option("--kallsyms", type=FILE, help="The recording kernel's /proc/kallsyms, for a bare perf.data.")
@click.option("--symfs", type=FILE, help="Directory that holds the recorded binaries.")
@click.option("--ranges", type=FILE, help="NVTX ranges as JSON lines (name, start_ns, end_ns on CLOCK_MONOTONIC).")
@click.option(
    "--torch",
    type=FILE,
    multiple=True,
    help="A memory snapshot of PyTorch, or torch.cuda.host_memory_stats() as JSON. Repeatable.",
)
@click.option("--interpreter-frames", is_flag=True, help="Keep the Python interpreter's own functions in the stacks.")
@click.option(
    "--all-frames", is_flag=True, help="Show each function without a name. By default, adjacent ones are one frame."
)
@ALL_LINES
@click.option("--rank", type=click.IntRange(0), metavar="N", help="Report on one rank of a launch.")
@part_options
@click.option("--event", help="The event to fold (default: the first one recorded).")
@click.option(
    "--collapse-style",
    "style",
    type=click.Choice(COLLAPSE_STYLES),
    default="pinprof",
    help="Style of folded stacks. flamegraph: process as root, functions marked _[k], _[j] or _[i].",
)
@click.option("--explain", metavar="LEAF", help="List the top stacks of one cause, with the frame that decided each.")
@click.option("--shared-assets", type=_FOLDER, help="Directory for the scripts, so that several pages share one copy.")
@click.option(
    "--share", is_flag=True, help="Only copy the capture, without kernel addresses, so that you can share it."
)
@click.option("--push", metavar="URL", help="Only send the pprof profile to a server of Pyroscope or Alloy.")
@click.option("-q", "--quiet", is_flag=True, help="Write the page; print only errors.")
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--serve", is_flag=True, help="Serve the page at a local address until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Port for --serve (default: any free port).",
)
def command(
    paths: tuple[Path, ...],
    form: str | None,
    output: Path | None,
    all_frames: bool,
    all_lines: bool,
    event: str | None,
    style: Style,
    explain: str | None,
    shared_assets: Path | None,
    share: bool,
    push: str | None,
    quiet: bool,
    **given: Any,
) -> int:
    """Read a recording and show where its time went. Several recordings make one page, side by side.

    PATH is a capture (NAME.pinprof), a folder of ranks (NAME.ranks), one of these packed (NAME.ranks.tar.xz), a
    perf.data file, an Nsight Systems report or export, or a file of another profiler: `perf script` text, folded
    stacks, speedscope, pprof or a Chrome trace.

    Exit status: 5 if a recording is damaged. The report says first what is missing.
    """
    require_memory()
    showing = _Showing(given.pop("open_page"), given.pop("serve"), given.pop("port"))
    selection, reading = selected(given)
    if (rank := reading.pop("rank")) is not None:
        paths = (launch.one_rank([path for given in paths for path in launch.captures_of(given)], rank),)
    if share:
        if selection:
            raise UsageError("--share copies whole captures.", "Leave out the options that choose a part.", "share")
        _share(paths, output)
        return 0
    if push is not None:
        return _push(paths, push, form, output, selection, reading, all_frames=all_frames)
    form = _form(form, output, shown=showing.open_page or showing.serve)
    from pinprof import read

    _refuse_missing(reading)
    folder = paths[0] if len(paths) == 1 else None
    paths = tuple(path for given in paths for path in launch.captures_of(given))
    if reading["torch"] and len(paths) > 1:
        raise UsageError("--torch belongs to one process.", "Give its capture, or --rank N.", "several")
    options = read.ReadOptions(**reading)
    if folder and len(paths) > 1 and not explain:
        if selection:
            raise UsageError("You can choose a part only in the recording of one rank.", "Add --rank N.", "part")
        page, damaged = launch.report_launch(
            folder, paths, form, output, options, pages=not showing.serve, all_lines=all_lines
        )
        showing.show(page)
        return DAMAGED if damaged else 0
    if len(paths) > 1 and (explain or form not in ("html", None)):
        raise UsageError(
            "Several recordings can only be written as a page.",
            "Give one PATH, --rank N of a launch, or --format html.",
            "several",
        )
    if (event or style != "pinprof") and form != "folded":
        raise UsageError("--event and --collapse-style need folded stacks.", "Add --format folded.", "format")
    if form == "folded":
        return _fold(paths[0], options, output, event, style, selection, all_frames=all_frames)

    from pinprof.cli import pipeline

    analyses = [pipeline.explain(path, options, selection=selection, moment=True) for path in paths]
    if explain:
        from pinprof.report import explanation

        explanation.print_explanation(explanation.explain(analyses[0], explain, all_frames=all_frames))
    elif form in ("html", None):
        several = pipeline.default_page(folder) if folder else Path("pinprof-report.html")
        page = output or (pipeline.default_page(paths[0], part=bool(selection)) if len(paths) == 1 else several)
        if quiet:
            pipeline.write_page(analyses, page, shared_assets, all_frames=all_frames)
        else:
            pipeline.present(analyses, page, shared_assets, summary=form is None, all_frames=all_frames)
        showing.show(page)
    else:
        _export(form, analyses[0], output, all_frames=all_frames, all_lines=all_lines)
    return _status([gap for analysis in analyses for gap in analysis.gaps])


def _form(form: str | None, output: Path | None, *, shown: bool) -> str | None:
    """The format that is asked for, None for the summary and the page; `shown`: the page is opened or served."""
    if form is None and (ended := form_of(output, FORMATS, "html")) != "html":
        form = ended
    if shown and form not in ("html", None):
        raise UsageError(f"{form} can't be opened or served.", "Leave out --format, or give html.", "no-page")
    if form in ("html", None) and output:
        refuse_folder(output)  # before anything is read
    if str(output) == "-" and form in ("html", None):
        raise UsageError("An HTML page needs a file name.", "Name it with -o, for example -o report.html.", "output")
    return form


def _status(gaps: Sequence[Gap]) -> int:
    """The exit status of a report that lacks this; damage is said on standard error as well, whatever the format."""
    damage = [gap.text for gap in gaps if gap.damaged]
    for text in dict.fromkeys(damage):
        say(f"pinprof: warning: {text}", error=True)
    return DAMAGED if damage else 0


def _refuse_missing(side_files: Mapping[str, Any]) -> None:
    for side_file in (*side_files.values(), *side_files.get("torch", ())):
        if isinstance(side_file, Path) and not side_file.exists():
            raise CaptureError(f"{side_file} does not exist.", "Give an existing file.", "side-file")


def _export(form: str, analysis: Run, output: Path | None, *, all_frames: bool, all_lines: bool) -> None:
    if form in ("text", "json", "markdown"):
        from pinprof.report.gather import build

        build(analysis, form, all_frames=all_frames).save(form, output, most=most_lines(all_lines=all_lines))
    else:
        from pinprof.report.export import formats

        formats.export(form, analysis, output, all_frames=all_frames)


@dataclass(frozen=True)
class _Showing:
    """What happens to the page once it is written."""

    open_page: bool
    serve: bool
    port: int

    def show(self, page: Path | None) -> None:
        """Open it, and serve it until Ctrl-C, if requested."""
        if page is None:
            return
        if self.open_page:
            click.launch(str(page))
        if self.serve:
            from pinprof.cli import pipeline

            pipeline.serve(page, self.port)


def _share(paths: tuple[Path, ...], output: Path | None) -> None:
    """Copy one capture, beside it where no place is named."""
    from pinprof.streams import share, store

    if len(paths) > 1 or not paths[0].is_dir():
        raise UsageError("--share works on one capture.", "Give one directory that `pinprof record` wrote.", "share")
    name = paths[0].resolve().name.removesuffix(store.PARTIAL).removesuffix(store.SUFFIX)
    with working(f"Copying {paths[0].name}"):
        copy = share.share(paths[0], output or paths[0].resolve().with_name(f"{name}-shared{store.SUFFIX}"))
    say(f"Capture without kernel addresses: {copy}")


def _push(
    paths: tuple[Path, ...],
    url: str,
    form: str | None,
    output: Path | None,
    selection: Selection | None,
    reading: Mapping[str, Any],
    *,
    all_frames: bool,
) -> int:
    """Send the profile of one recording to a server."""
    from pinprof import read
    from pinprof.cli import pipeline
    from pinprof.report.export import push

    if len(paths) > 1 or form not in (None, "pprof") or output is not None:
        raise UsageError(
            "--push sends one recording's pprof profile.", "Give one PATH, no -o, no other format.", "push"
        )
    place = push.place_of(url)
    _refuse_missing(reading)
    analysis = pipeline.explain(paths[0], read.ReadOptions(**reading), selection=selection, moment=True)
    with working("Sending the profile"):
        said = push.push(analysis, place, all_frames=all_frames)
    say(said)
    return _status(analysis.gaps)


def _fold(
    path: Path,
    options: ReadOptions,
    output: Path | None,
    event: str | None,
    style: Style,
    selection: Selection | None,
    *,
    all_frames: bool,
) -> int:
    """Folding needs no analysis: this way imports nothing but the reader. FlameGraph knows no runs of frames."""
    from dataclasses import replace

    from pinprof import read
    from pinprof.report.export import plain, streams
    from pinprof.report.joined_frames import as_shown

    with measured(f"Reading {path.name}") as progress:
        capture = part_alone(read.read(path, replace(options, progress=progress)), selection)
        capture = as_shown(capture, all_frames=all_frames or style == "flamegraph")
    with streams.text_output(output) as stream:
        plain.write_folded(capture, stream, event, style)
    from pinprof.analyze.completeness import gaps_of

    return _status(gaps_of(capture))
