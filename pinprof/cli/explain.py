"""`pinprof explain NAME`: what a message, a cause, a finding, a cure, a command or a word means."""

from __future__ import annotations

import re
import textwrap

import click

from pinprof.base import documentation
from pinprof.base.errors import UsageError
from pinprof.base.terminal import printable, say
from pinprof.explain import topics

_WIDEST = 100
"""Columns of text: longer lines are hard to read."""
_LINK = re.compile(r"\[([^\]\n]+)\]\((?!https?:)[^)\s]+\)")
"""A link from one document to another: a terminal cannot follow it."""


@click.command()
@click.argument("name", nargs=-1, metavar="[NAME]")
def command(name: tuple[str, ...]) -> None:
    """Explain a NAME in pinprof's output.

    NAME is the word in brackets after an error message, a cause (pin.faultin), a finding (staging-copies), a cure
    (pool-pinned), a command, a word of the glossary, or a document. Without a NAME, list all names.
    """
    from pinprof.cli import COMMANDS

    known = topics.every(COMMANDS)
    if not name:
        _list(known)
        return
    wanted = " ".join(name)
    if not (found := topics.find(wanted, known)):
        near = topics.near(wanted, known)
        hint = f"Did you mean {', '.join(near)}?" if near else "Run `pinprof explain` to list the names."
        raise UsageError(f"pinprof has no topic named {printable(wanted)!r}.", hint, "topic")
    for number, topic in enumerate(found):
        if number:
            say()
        _show(topic)


def _list(known: dict[str, list[topics.Topic]]) -> None:
    for title, kind in known.items():
        say(title)
        names = ", ".join(dict.fromkeys(topic.name for topic in kind))
        say(textwrap.fill(names, _WIDEST, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
        say()
    say("To explain one: pinprof explain NAME")


def _show(topic: topics.Topic) -> None:
    from rich.markdown import Markdown
    from rich.text import Text

    from pinprof.report.terminal.layout import console_of, tidy

    console = console_of()
    console.width = min(console.width, _WIDEST)
    with tidy(console):
        if topic.kind != "document":
            console.print(Text(topic.name, "bold") + Text(f" ({topic.kind})\n"))
        console.print(Markdown(_LINK.sub(r"\1", topic.body), hyperlinks=False))
        if topic.page and topic.kind != "document":
            more = documentation.address(topic.page, topic.heading) or f"pinprof explain {topic.page}"
            console.print(Text(f"\nMore: {more}"), soft_wrap=True)
