"""What a command writes, by the name of its output; known before anything is read or imported for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from pinprof.base.errors import CollectError, UsageError

_FORMS = {
    ".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".txt": "text", ".folded": "folded",
    ".agent.txt": "agent", ".speedscope.json": "speedscope", ".pb": "pprof", ".firefox.json": "firefox",
    ".trace.json": "trace", ".csv.d": "csv", ".parquet.d": "parquet", ".xml": "junit", ".sarif": "sarif",
}  # fmt: skip
"""Endings of files, without that of a compressed one, and the form of output that each asks for."""


def form_of(output: Path | None, forms: Sequence[str], default: str = "text") -> str:
    """The one of `forms` that a file's ending names, `default` without one; UsageError for an ending of other files."""
    name = output.name.lower().removesuffix(".gz") if output is not None else ""
    named = max((ending for ending in _FORMS if name.endswith(ending)), key=len, default="")
    if named and _FORMS[named] in forms:
        return _FORMS[named]
    import mimetypes

    if not named and mimetypes.guess_type(name)[0] is None:
        return default
    endings = [next((ending for ending, form in _FORMS.items() if form == one), "") for one in forms]
    raise UsageError(
        f"{output}: this command writes no {named or PurePath(name).suffix} file.",
        f"End its name in one of {', '.join(filter(None, endings))}, or choose with --format.",
        "format",
    )


def refuse_folder(page: Path) -> None:
    """CollectError where the page's name is a folder's."""
    if page.is_dir():
        raise CollectError(f"{page} is a directory.", "Give a file name with -o, for example -o report.html.", "output")


def page_of(output: Path | None, default: str) -> Path:
    """The path of a page that belongs to no single recording; UsageError for standard output."""
    if str(output) == "-":
        raise UsageError("An HTML page needs a file name.", f"Name it with -o, for example -o {default}.", "output")
    return output or Path(default)
