"""Pages of single captures beside the fleet's page: those that stand out get one, and those that are there a link."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from pinprof import analyze, read
from pinprof.base import files
from pinprof.base.errors import PinprofError
from pinprof.fleet.mapping import fetched
from pinprof.fleet.results import CAPTURE, Answer, Member
from pinprof.fleet.sources import sources_of
from pinprof.report.gather import build
from pinprof.report.page.html import write_html

_SUFFIX = ".pages"


def with_pages(answer: Answer, page: Path, most: int, tell: Callable[[str], None]) -> Answer:
    """The answer whose members know their pages; at most `most` new ones are written to a folder beside `page`.

    A page that was written for the same capture before is not written again.
    """
    folder = page.with_name(page.stem + _SUFFIX)
    wanted = [one.capture for one in answer.outliers if one.dimension == CAPTURE][:most]
    written: dict[str, str] = {}
    for number, path in enumerate(dict.fromkeys(wanted), 1):
        tell(f"Writing page {number} of the outliers")
        if target := _written(path, folder):
            written[path] = quote(f"{folder.name}/{target.name}")
    return replace(answer, members=tuple(_linked(one, page, written) for one in answer.members))


def _written(path: str, folder: Path) -> Path | None:
    """The page of a capture; None where it cannot be made any more."""
    try:
        source = sources_of([path])[0]
        name = hashlib.blake2b(f"{source.path}\0{source.stamp}".encode("utf-8", "surrogateescape"), digest_size=12)
        target = folder / f"{name.hexdigest()}.html"
        if not target.exists():
            with fetched(source) as place:
                capture = replace(read.read(place), path=source.path)
            write_html(build(analyze.analyze(capture)), target, folder)
    except (PinprofError, OSError):
        return None
    return target


def _linked(member: Member, page: Path, written: dict[str, str]) -> Member:
    if member.path in written:
        return replace(member, page=written[member.path])
    beside = Path(member.path.removesuffix(".pinprof") + ".html")
    if "://" in member.path or not beside.is_file() or files.irregular(beside):
        return member
    relative = os.path.relpath(beside.resolve(), page.resolve().parent)
    return replace(member, page=quote(os.fsencode(relative)))
