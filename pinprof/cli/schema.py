"""`pinprof schema`: the JSON Schema of an answer's `--format json`."""

from __future__ import annotations

import json

import click

from pinprof.base.terminal import say

_ANSWERS = ("report", "diff", "check", "self-test", "ranks", "fleet", "try", "fix", "dump")
"""Those of `answers.SCHEMAS`, which takes long to import."""


@click.command()
@click.argument("answer", type=click.Choice(_ANSWERS), default=_ANSWERS[0], metavar="ANSWER")
def command(answer: str) -> None:
    """Print the JSON Schema of an answer: of `pinprof report --format json`, or of another command's.

    To check documents, or to generate types from. `ranks` is the report of a launch, `self-test` that of
    `pinprof check --self-test`. A new version may add keys. Where a key changes its meaning or goes, `schema` in the
    document changes.
    """
    from pinprof.report.export.answers import SCHEMAS

    say(json.dumps(SCHEMAS[answer](), indent=1))
