"""The summary of the GitHub step that runs: a check is added to it as Markdown, where there is one."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping

from pinprof.base import files
from pinprof.base.units import format_bytes
from pinprof.check.verdicts import Checked
from pinprof.report.check.sections import FORMS

SUMMARY = "GITHUB_STEP_SUMMARY"
_LARGEST = 1 << 20
"""Bytes of one step's summary; GitHub shows none of a larger one."""


def append_summary(checked: Checked, environment: Mapping[str, str] = os.environ) -> str:
    """Add the check to the step's summary if the environment names one; a sentence where that fails, else empty.

    A summary that cannot be written changes no verdict, so it raises nothing.
    """
    path = environment.get(SUMMARY, "")
    if not path:
        return ""
    try:
        descriptor = files.append(path)
        with os.fdopen(descriptor, "ab") as file:
            written = io.StringIO("\n")
            written.seek(1)
            FORMS.of(checked).write("markdown", written)
            content = written.getvalue().encode("utf-8", "backslashreplace")
            if file.tell() + len(content) > _LARGEST:
                return f"The step's summary has too little space for this check: its limit is {format_bytes(_LARGEST)}."
            file.write(content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"The step's summary ({SUMMARY}) cannot be written: {reason}."
    return ""
