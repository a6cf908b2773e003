"""The forms of a fleet's answer, and of the lines that go with its page."""

from __future__ import annotations

from functools import partial

from pinprof.fleet.results import Answer
from pinprof.report.fleet import document, text
from pinprof.report.forms import Forms

FORMS = Forms[Answer](text.parts, document.to_json)
SUMMARY = Forms[Answer](partial(text.parts, most=text.FEW), document.to_json)
