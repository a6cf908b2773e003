"""The forms of a launch's answer."""

from __future__ import annotations

from pinprof.ranks.results import Launch
from pinprof.report.forms import Forms
from pinprof.report.ranks import document, text

FORMS = Forms[Launch](text.parts, document.to_json)
