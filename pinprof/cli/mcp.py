"""`pinprof mcp`: a server of the Model Context Protocol, so that coding agents can record, read and compare.

A tool is a command of pinprof in a process of its own, with the root as its directory: it answers as the command line
does, and a program that it records has neither the server's memory nor its streams. Paths of recordings lie below the
root, wherever their links lead. `record`, `try` and `check` run the program that they are given, with the rights of
the server.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import click

from pinprof import __version__
from pinprof.base.errors import CaptureError, PinprofError, ToolMissing, UsageError

INSTALL = "Install it: pip install 'pinprof[mcp]'."
_MOST = 30_000
"""Characters of an answer: what is longer fills an agent's context."""
_ANSWERS = {"check": (0, 3, 4), "report": (0, 5)}
"""Statuses with which a command has an answer, where that is not 0 alone."""


@click.command()
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Directory that recordings are read from and written to; programs run there.",
)
def command(root: Path) -> None:
    """Serve pinprof to coding agents through the Model Context Protocol, on standard input and output.

    Tools: record, report, explain, diff, try and check.
    """
    server(root).run("stdio")


def server(root: Path) -> Any:
    """An `MCPServer` with the tools; ToolMissing if the package mcp is not installed."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise ToolMissing("`pinprof mcp` needs the Python package mcp, version 2.", INSTALL, "mcp") from None
    tools = Tools(root.resolve())
    made = MCPServer("pinprof", version=__version__, instructions=" ".join((command.help or "").split()))
    for tool in (tools.record, tools.report, tools.explain, tools.diff, tools.try_, tools.check):
        made.add_tool(_telling(tool, ToolError), name=tool.__name__.rstrip("_"))
    return made


def _telling(tool: Callable[..., Awaitable[str]], failure: type[Exception]) -> Callable[..., Awaitable[str]]:
    """A tool whose errors reach the agent: of other exceptions the protocol's package tells nothing."""

    @functools.wraps(tool)
    async def told(*given: Any, **named: Any) -> str:
        try:
            return await tool(*given, **named)
        except PinprofError as error:
            raise failure(str(error)) from error

    return told


class Tools:
    """The tools below one root; their docstrings are what agents read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def inside(self, path: str) -> str:
        """The path of a file below the root; UsageError for one that lies elsewhere, also through a link."""
        found = (self._root / path).resolve()
        if not found.is_relative_to(self._root):
            raise UsageError(f"{path} is not below {self._root}.", "Name a file in the root of `pinprof mcp`.", "mcp")
        return str(found)

    async def record(self, program: list[str], output: str = "") -> str:
        """Run a program (its command line as a list), record it, and answer where host memory costs time.

        `output` names the capture, such as before.pinprof; it is what the other tools read.
        """
        path = self.inside(output or time.strftime("agent-%Y%m%d-%H%M%S.pinprof"))
        status, _, errors = await self._run("record", "--no-report", "-o", path, "--", *program)
        if not Path(path).exists():
            raise _failed(status, errors)
        return f"Capture: {Path(path).relative_to(self._root)}\n{await self.report(path)}"

    async def report(self, path: str, form: Literal["agent", "text", "markdown"] = "agent") -> str:
        """Explain a recording: what to change at which line, what that saves, and the evidence."""
        return await self._answer("report", "--format", form, self.inside(path))

    async def explain(self, name: str) -> str:
        """Explain a word of an answer: a cause (pin.faultin), a finding, a cure, a message or a command."""
        return await self._answer("explain", "--", name)

    async def diff(self, before: list[str], after: list[str]) -> str:
        """Compare recordings from before and after a change: what it saved, and whether that is significant."""
        sides = (("--before", before), ("--after", after))
        given = [word for option, paths in sides for path in paths for word in (option, self.inside(path))]
        return await self._answer("diff", *given)

    async def try_(self, program: list[str], time_limit: str = "2m") -> str:
        """Run a program with and without each cure that needs no change of code, and measure what each saves."""
        return await self._answer("try", f"--time={time_limit}", "--format", "text", "--", *program)

    async def check(self, captures: list[str], program: list[str] | None = None) -> str:
        """Check captures, or a program instead of them, against the budgets of pinprof.toml."""
        given = ["--", *program] if program else [self.inside(path) for path in captures]
        return await self._answer("check", *given)

    async def _answer(self, name: str, *arguments: str) -> str:
        status, output, errors = await self._run(name, *arguments)
        if status not in _ANSWERS.get(name, (0,)):
            raise _failed(status, errors)
        cut = f"\n… ({len(output) - _MOST} more characters)" if len(output) > _MOST else ""
        return output[:_MOST] + cut

    async def _run(self, *arguments: str) -> tuple[int, str, str]:
        """Status, output and messages of `pinprof ARGUMENTS`; the program sees no end of the server's streams."""
        import anyio

        argv = [sys.executable, "-P", "-m", "pinprof", *arguments]
        surroundings = {**os.environ, "COLUMNS": "100"}
        done = await anyio.run_process(argv, cwd=self._root, env=surroundings, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def _failed(status: int, errors: str) -> PinprofError:
    """An error of a command, in its own words."""
    said = errors.strip()[-_MOST:] or f"The command ended with status {status}."
    return CaptureError(said, "", "mcp")
