"""Write a man page for pinprof and each of its commands into a folder, from the commands themselves.

usage: man_pages.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click_man.core import generate_man_page

from pinprof import __version__
from pinprof.cli import COMMANDS, cli


def write(folder: Path) -> None:
    """Write `pinprof.1` and `pinprof-COMMAND.1`."""
    folder.mkdir(parents=True, exist_ok=True)
    context = click.Context(cli, info_name="pinprof")
    cli.short_help = "find host-memory costs in CUDA and PyTorch programs"
    for name, summary in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        command.short_help = summary
        cli.add_command(command, name)
        inner = click.Context(command, parent=context, info_name=name)
        (folder / f"pinprof-{name}.1").write_text(generate_man_page(inner, __version__), "utf-8")
    (folder / "pinprof.1").write_text(generate_man_page(context, __version__), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
