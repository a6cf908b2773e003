"""The forms of a difference."""

from __future__ import annotations

from pinprof.compare.results import Difference
from pinprof.report.compare import document, markdown, text
from pinprof.report.forms import Forms

FORMS = Forms[Difference](text.parts, document.to_json, markdown.lines)
