"""`pinprof schema`: the JSON Schema of `pinprof report --format json`."""

from __future__ import annotations

import json

import click

from pinprof.base.terminal import say


@click.command()
def command() -> None:
    """Print the JSON Schema of `pinprof report --format json`, to check documents or to generate types from.

    A new version may add keys. Where a key changes its meaning or goes, `schema` in the document changes.
    """
    from pinprof.report.export.schema import schema

    say(json.dumps(schema(), indent=1))
