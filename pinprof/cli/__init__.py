"""The command line: which commands there are, and the one place that prints errors and picks exit codes."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from pinprof import __version__
from pinprof.cli import interrupts
from pinprof.errors import PinprofError

COMMANDS = {
    "run": "Run a scenario, and with --record show where its time went.",
    "record": "Record any program: pinprof record -- CMD …",
    "report": "Read a capture or perf.data and say which cause took which time.",
    "bench": "Measure what memory operations cost on this machine, and when pinning pays.",
    "list": "List the scenarios.",
    "doctor": "Check this machine for what recording needs, with the fix for each gap.",
}
"""Command name → one line of help; each lives in `pinprof.cli.NAME` as `command`, imported when it is called."""


class _LazyGroup(click.Group):
    """Imports a command's module only when that command runs, so that --help stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"pinprof.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {near[0]!r}?" if near else " See `pinprof --help`."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_HELP = """Where host-memory time goes between CPU and GPU: page faults, pinning, zeroing, staging, migration.

\b
  pinprof run zerocopy --record      run a scenario, record it, write the page
  pinprof record -- python train.py  record any program
  pinprof report perf.data           explain a recording
"""
"""`\\b` keeps click from joining the lines below it."""


@click.group(cls=_LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pinprof")
def cli() -> None:
    """Every command is a module of its own (COMMANDS)."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 fine, 1 pinprof error, 2 usage, else the program's status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the locale cannot say, such as `→` or `µ`, is spelled out.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with interrupts.as_exceptions():
            status = cli.main(arguments, prog_name="pinprof", standalone_mode=False)
    except PinprofError as error:
        status = fail(error)
    except click.exceptions.Exit as exit_request:
        status = exit_request.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:
        status = interrupts.exit_status(error)
    except BrokenPipeError:
        # The reader of our output has gone (`… | head`); stop Python from complaining again at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except OSError as error:
        remedy = _remedy(error)
        if not remedy:
            raise
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"pinprof: error: {place}{error.strerror}. {remedy}", err=True)
        status = 1
    except MemoryError:
        click.echo("pinprof: error: There is not enough memory for this. Free some, or raise the limit.", err=True)
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def _remedy(error: OSError) -> str:
    """What to do about an error of the system that can come from anywhere; empty for those that must be ours."""
    if error.errno == errno.ENOENT and str(error.strerror).startswith("No usable temporary directory"):
        return "Name a writable folder in TMPDIR."  # as in a container whose root cannot be written to
    return {
        errno.EAGAIN: "No further process can be started: raise `ulimit -u`, or the container's limit of processes.",
        errno.ENOMEM: "There is not enough memory: free some, or raise the container's limit.",
        errno.EMFILE: "Raise the limit of open files: `ulimit -n 65536`.",
        errno.ENFILE: "Raise the machine's limit of open files: `sudo sysctl fs.file-max`.",
        **dict.fromkeys(
            (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM),
            "Choose a writable place with enough room with -o.",
        ),
    }.get(error.errno or 0, "")


def fail(error: PinprofError) -> int:
    """Print an error the way every command does, and return its exit status."""
    click.echo(f"pinprof: error: {error} [{error.slug}]", err=True)
    return error.exit_code
