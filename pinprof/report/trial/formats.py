"""The forms of a trial's report, by the name that `--format` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO

from pinprof.report.export import streams
from pinprof.report.trial import document, markdown, page, text
from pinprof.trial.result import TrialResult

WRITERS: Mapping[str, Callable[[TrialResult, IO[str]], None]] = MappingProxyType(
    {"text": text.write, "markdown": markdown.write, "json": document.write, "html": page.write}
)


def write(result: TrialResult, form: str, output: Path | None) -> None:
    """Write a result to a file, or to standard output; CollectError when it cannot be written."""
    if form == "text" and output is None:
        text.print_trial(result)
        return
    with streams.text_output(output) as stream:
        WRITERS[form](result, stream)
