"""The command line: the list of commands, and the only place that prints errors and picks exit codes."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from pinprof import __version__
from pinprof.base import settings, terminal
from pinprof.base.errors import PinprofError, UsageError, packages_named, system_error
from pinprof.cli import defaults, interrupts

COMMANDS = {
    "run": "Run a scenario; with --record, also profile it.",
    "record": "Record a program: pinprof record -- CMD …",
    "report": "Report where host-memory time went, from a capture or perf.data.",
    "top": "Watch where a running program spends host-memory time.",
    "dump": "Show what every thread of a running program does now.",
    "diff": "Compare recordings from before and after a change.",
    "check": "Check captures or a program against budgets for host memory.",
    "try": "Measure what cures save that need no code changes.",
    "fix": "Change a program's code in a copy, measure what that saves, and write the patch.",
    "fleet": "Find outliers and the largest savings in many captures.",
    "bench": "Measure the cost of memory operations on this machine.",
    "list": "List the scenarios.",
    "doctor": "Check this machine and suggest fixes.",
    "explain": "Explain a message, cause, finding, cure or word.",
    "schema": "Print the JSON Schema of reports.",
    "mcp": "Serve record, report and more to coding agents.",
}
"""Command name → one line of help; each lives in `pinprof.cli.NAME` as `command`, imported when it is called."""

_MODULES = {"try": "trial"}
"""Commands whose name cannot be that of a module."""


_READER_GONE = 141
"""128 + SIGPIPE, as a shell reports a program that printed into a pipe without a reader."""


@contextlib.contextmanager
def _reader_may_go() -> Iterator[None]:
    """End with the status of SIGPIPE if nobody reads help or an export (`… | head`); click alone ends with 1."""
    try:
        yield
    except BrokenPipeError:
        terminal.forget(sys.stdout)
        raise click.exceptions.Exit(_READER_GONE) from None


class _LazyGroup(click.Group):
    """Imports a command's module only when that command runs, so that --help stays instant."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with _reader_may_go():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader_may_go():
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help where nothing is asked for."""
        if not args and not ctx.resilient_parsing:
            terminal.say(ctx.get_help(), error=True)
            ctx.exit(UsageError.exit_code)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"pinprof.cli.{_MODULES.get(cmd_name, cmd_name)}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command if there is no command of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else _meant(args[0]) or "See `pinprof --help`."
            raise UsageError(f"There is no command {args[0]!r}.", hint, "usage")
        name, command, others = super().resolve_command(ctx, args)
        if (
            command is not None
            and name in settings.COMMANDS
            and not (ctx.resilient_parsing or ctx.params["no_settings"])
        ):
            wants_help = any(word in ("-h", "--help") for word in others[:1])
            ctx.default_map = {} if wants_help else {name: defaults.defaults_of(command, name)}
        return name, command, others

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _meant(word: str) -> str:
    """The message for a file in the place of a command."""
    if word.endswith((".pinprof", ".ranks")) or word == "perf.data":
        return f"Did you mean `pinprof report {word}`?"
    if word.endswith(".py"):
        return f"Did you mean `pinprof record -- python {word}`?"
    import shutil

    program = os.path.isfile(word) or shutil.which(word)  # noqa: PTH113 - fast
    return f"Did you mean `pinprof record -- {word} …`?" if program else ""


_HELP = """Find host-memory costs in CUDA and PyTorch programs, and what to change.

\b
  pinprof run zerocopy --record      run a scenario, record it, write the page
  pinprof record -- python train.py  record any program
  pinprof report perf.data           report on a recording
  pinprof explain pin.faultin        explain a name in the output
"""
"""`\\b` keeps click from joining the lines below it."""


@click.group(cls=_LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pinprof")
@click.option("--no-settings", is_flag=True, help="Ignore options in pinprof.toml and pyproject.toml.")
def cli(no_settings: bool) -> None:
    """Every command is a separate module (COMMANDS)."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 fine, 1 pinprof error, 2 usage, 141 no reader, else the program's status."""
    terminal.open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the locale cannot say, such as `→` or `µ`, is spelled out.
        sys.stdout.reconfigure(errors="backslashreplace")
    status = _answered(arguments)
    if status:
        with contextlib.suppress(OSError):  # what went wrong is said
            terminal.flush()
    else:
        status = _answered_for(terminal.flush)
    sys.exit(_READER_GONE if not status and terminal.reader_gone() else status)


def _answered(arguments: Sequence[str] | None) -> int:
    """Run a command, print its error if there is one, and return its exit status."""

    def run() -> int:
        with interrupts.as_exceptions(), packages_named():
            status = cli.main(arguments, prog_name="pinprof", standalone_mode=False)
        return status if isinstance(status, int) else 0

    return _answered_for(run)


def _answered_for(step: Callable[[], int | None]) -> int:
    """The exit status of a step; every error is said here, in words where it is one of the user's or the system's."""
    try:
        return step() or 0
    except PinprofError as error:
        return fail(error)
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.ClickException as error:
        return fail(_misused(error))
    except (KeyboardInterrupt, click.Abort) as error:
        terminal.say(interrupts.said(error), error=True)
        return interrupts.exit_status(error)
    except MemoryError:
        problem = "There is not enough memory for this."
        return fail(PinprofError(problem, "Free some, or raise the limit.", "memory"))
    except OSError as error:
        known = system_error(error)
        return fail(known) if known else _unexpected(error)
    except Exception as error:
        return _unexpected(error)


_CLICK = (
    (r"Got unexpected extra argument \((.*)\)", r"'\1' is one argument too many"),
    (r"Got unexpected extra arguments \((.*)\)", r"'\1' are too many arguments"),
    (r"Directory ('.*') is a file", r"\1 is a file, not a directory"),
    (r"(\d)\.0 is not in", r"\1 is not in"),
    (r"is not in the range (\S+)<=x<=(\S+?)\.?$", r"is not between \1 and \2"),
    (r"is not in the range (\S+)<x<=(\S+?)\.?$", r"is not above \1 and at most \2"),
    (r"is not in the range x>=(\S+?)\.?$", r"is less than \1"),
)
"""(what click says, what a person says)."""


def _misused(error: click.ClickException) -> PinprofError:
    """What click says of a command line, as pinprof says it."""
    said = error.format_message()
    for kind, meant in (("integer", "a whole number"), ("float", "a number")):
        said = said.replace(f"a valid {kind} range.", f"{meant}.").replace(f"a valid {kind}.", f"{meant}.")
    for pattern, meant in _CLICK:
        said = re.sub(pattern, meant, said)
    said += "" if said.endswith((".", "?", "?)")) else "."
    if word := re.search(r": '(.*)' is not one of '", said):
        import difflib

        near = difflib.get_close_matches(word[1], re.findall(r"'(.*?)'", said[word.end() - 1 :]), 1)
        said += f" Did you mean {near[0]!r}?" if near else ""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "pinprof"
    return UsageError(said, "" if said.endswith(("?", "?)")) else f"See `{command} --help`.", "usage")


def _unexpected(error: Exception) -> int:
    """Print everything that helps to find a bug in pinprof."""
    terminal.say("".join(traceback.format_exception(error)), error=True, end="")
    return 1


def fail(error: PinprofError) -> int:
    """Print an error the way every command does, and return its exit status."""
    terminal.say(f"pinprof: error: {error} [{error.slug}]", error=True)
    return error.exit_code
