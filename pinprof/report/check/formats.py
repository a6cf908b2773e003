"""The forms of a check's report, by the name that `--format` and `--write` take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO

from pinprof.check.verdicts import Checked
from pinprof.report.check import document, junit, markdown, sarif, text
from pinprof.report.check.annotations import write_github, write_gitlab
from pinprof.report.export import streams

WRITERS: Mapping[str, Callable[[Checked, IO[str]], None]] = MappingProxyType(
    {
        "text": text.write,
        "json": document.write,
        "markdown": markdown.write,
        "junit": junit.write,
        "sarif": sarif.write,
        "github": write_github,
        "gitlab": write_gitlab,
    }
)


def write(checked: Checked, form: str, output: Path | None) -> None:
    """Write a check to a file, or to standard output for None and `-`; CollectError when it cannot be written."""
    if form == "text" and output is None:
        text.print_check(checked)
        return
    with streams.text_output(output) as stream:
        WRITERS[form](checked, stream)
