"""The forms of a trial's report."""

from __future__ import annotations

from pinprof.report.forms import Forms
from pinprof.report.trial import document, markdown, page, text
from pinprof.trial.result import TrialResult

FORMS = Forms[TrialResult](text.parts, document.to_json, markdown.lines, {"html": page.write})
