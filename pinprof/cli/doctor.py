"""`pinprof doctor`: what a recording can have here, with the fix for each gap."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import click

from pinprof.base.terminal import say
from pinprof.cli.progress import working
from pinprof.machine.process_limits import require_memory

_COMMAND = re.compile(r"`[^`]+`")
_MARKS = {"ok": ("✓", "green"), "info": ("·", "dim"), "warning": ("!", "yellow"), "problem": ("✗", "bold red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(as_json: bool) -> int:
    """Record a small program, check this machine, and suggest fixes. The status is 1 if recording is impossible."""
    from pinprof import doctor

    with working("Recording a small program"):
        results = doctor.run()
    impossible = any(result.state == "problem" for result in results)
    if as_json:
        say(json.dumps([asdict(result) for result in results], indent=1))
        return int(impossible)

    from rich.text import Text

    require_memory()
    from pinprof.report.terminal.layout import as_typed, console_of, plain_table, tidy

    table = plain_table(header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for result in results:
        mark, style = _MARKS[result.state]
        fix = _COMMAND.sub(lambda command: as_typed(command[0]), result.fix)
        shown = Text(result.found) + Text(f"\n→ {fix}" if fix else "", "yellow")
        shown += Text(f" This gives {result.gain}" if result.fix and result.gain else "", "dim")
        table.add_row(Text(mark, style), Text(result.name), shown)
    console = console_of()
    with tidy(console):
        console.print(table)
        console.print()
        console.print(Text(doctor.verdict(results), "bold red" if impossible else "bold green"))
    return int(impossible)
