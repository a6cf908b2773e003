"""The reference of the command line as Markdown, from the commands themselves."""

from __future__ import annotations

import html
import re

import click

from pinprof.cli import COMMANDS, cli
from pinprof.explain.topics import PAGES

HEAD = """# The command line

Each command has `--help`. `pinprof --version` prints the version. `pinprof explain NAME` explains a name in the output.

| exit status | meaning |
|---|---|
| 0 | The command succeeded. |
| 1 | An error. The message says what is wrong and what to do, and ends with its entry in [Messages](messages.md). |
| 2 | The command has no such option, argument or value. |
| 141 | Nobody reads the output any more, as in `pinprof report … | head`. |
| other | `record` ends with the status of the program that it runs; [`check`](check.md) has 3 and 4 for its verdicts. |

"""


def markdown() -> str:
    """Every command: how it is called, what it does, its arguments and options."""
    context = click.Context(cli, info_name="pinprof")
    sections = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        sections.append(_section(name, command, click.Context(command, parent=context, info_name=name)))
    return HEAD + "\n".join(sections)


def _section(name: str, command: click.Command, context: click.Context) -> str:
    usage = " ".join(["pinprof", name, *command.collect_usage_pieces(context)])
    records = [each.get_help_record(context) for each in command.get_params(context)]
    options = [_row(*record) for record in records if record and record[1]]
    table = "".join(("| option | meaning |\n|---|---|\n", *options)) if options else ""
    more = f"More: [{PAGES[name]}]({PAGES[name]}.md).\n" if name in PAGES else ""
    return f"## pinprof {name}\n\n```console\n$ {usage}\n```\n\n{_prose(command.help or '')}\n\n{more}\n{table}"


def _prose(text: str) -> str:
    """Help as paragraphs; what follows a line with click's mark for unchanged text is an example."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines and lines[0] == "\b":
            found.append("```console\n" + "\n".join(lines[1:]) + "\n```")
        else:
            found.append(" ".join(lines).replace("<", "&lt;"))
    return "\n\n".join(found)


def _row(name: str, text: str) -> str:
    """One option; a name in the words of click, such as `-o, --output PATH`. Only choices may end a line."""
    words = [_code(word) for word in name.split()]
    return f"| {' '.join(words)} | {_cell(text)} |\n"


def _code(word: str) -> str:
    escaped = html.escape(word).replace("*", "&#42;")
    kind = "choice" if "|" in word else "word"
    return f'<code class="{kind}">{escaped.replace("|", "&#124;<wbr>")}</code>'


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
