"""The forms of a check's report, and of what became of budgets that were broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.check.selftest import Tested
from pinprof.check.verdicts import Checked
from pinprof.report.check import document, junit, markdown, sarif, text
from pinprof.report.check.annotations import write_github, write_gitlab
from pinprof.report.forms import Forms

FORMS = Forms[Checked](
    text.parts,
    document.to_json,
    markdown.lines,
    {"junit": junit.write, "sarif": sarif.write, "github": write_github, "gitlab": write_gitlab},
)
SELF_TEST = Forms[Sequence[Tested]](text.broken_on_purpose, document.tested_to_json)
