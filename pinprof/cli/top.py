"""`pinprof top`: what a running program spends host-memory time on now, refreshed each second."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinprof.base import files, terminal
from pinprof.base.errors import PinprofError, UsageError
from pinprof.base.units import format_ns, parse_duration_ns
from pinprof.cli import naming

if TYPE_CHECKING:
    from pinprof.analyze import Run
    from pinprof.collect.run import CollectorRun
    from pinprof.report.gather import ReportData

WINDOWS_S = (5.0, 10.0, 30.0, 60.0)
"""Lengths of a window that keys choose."""
_EVERY_S, _KEYS_S = 1.0, 0.1
_SHARE = 0.2
"""Of one processor, for what is shown: a larger window is looked at less often."""
_HOME, _TO_THE_END = "\x1b[H", "\x1b[K"
"""To the first cell of the screen, and clear the rest of a line (ECMA-48): nothing flickers."""
_KEYS = "a answer · c causes · l lines · w waits · m memory · g CUDA │ +/- window · p pause · s save · q quit"


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--pid", type=click.IntRange(1), help="A running program.")
@click.option("--window", default="10s", show_default=True, metavar="TIME", help="What is shown: the last seconds.")
@click.option("--count", type=click.IntRange(1), help="End after this many windows.")
@click.option("--frequency", type=int, default=199, show_default=True, help="CPU samples per second and thread.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD [ARG]…]")
def command(program: tuple[str, ...], pid: int | None, window: str, count: int | None, frequency: int) -> int:
    """Watch where a program spends host-memory time, with --pid one that runs already.

    The view shows the last seconds: what to change, causes, lines, waits and memory. `s` saves them as a
    capture with its page. On a pipe, each whole window is printed once.

    Ctrl-C or `q` ends the view, and a program that pinprof started, not one of --pid. What that program prints to the
    terminal is shown when the view ends, and pinprof exits with its status.
    """
    from pinprof import collect, recording
    from pinprof.collect import attach, run
    from pinprof.collect.trouble import Trouble

    length_s = parse_duration_ns(window) / 1e9
    if not _EVERY_S <= length_s <= WINDOWS_S[-1]:
        raise UsageError(f"--window {window} is not possible.", "Give a time from 1s to 60s.", "duration")
    if bool(pid) == bool(program):
        raise UsageError("`pinprof top` watches one program.", "Give --pid N, or `-- CMD`.", "pid")
    words = attach.command_of(pid) if pid else program
    trouble = Trouble(strict=bool(pid), raises=bool(pid))
    request = collect.RecordRequest(
        words, collect.parse_names("auto"), pid=pid or 0, frequency=frequency, gpu="off", python="auto"
    )
    request = collect.resolve(request)
    name = naming.name_of(words) or (attach.name_of(pid) if pid else "")
    view: _View | None = None
    with ExitStack() as places:
        keys = places.enter_context(_keyboard())

        def hooks(folder: Path) -> run.RecordingHooks:
            nonlocal view
            seen = view = _View(folder, words, pid, name, length_s, count, keys)
            # Only now: the view looks whether it has a terminal.
            given_back = places.enter_context(_held_back() if program else contextlib.nullcontext(_nothing))

            def begin() -> None:
                given_back()
                places.enter_context(seen.shown())

            return run.RecordingHooks(watch=seen.watch, meanwhile=begin)

        outcome = recording.follow(request, trouble, hooks, places)
    if outcome.failure is not None:
        trouble.met(outcome.failure)
    if view is not None:
        view.end()
    return trouble.status(outcome.exit_status)


class _View:
    """What is seen of the recording."""

    def __init__(
        self,
        folder: Path,
        words: Sequence[str],
        pid: int | None,
        name: str,
        length_s: float,
        count: int | None,
        keys: _Keys,
    ) -> None:
        """The recording goes into `folder`; `pid`: of a program that ran before, None of one that pinprof starts."""
        from pinprof.portions.following import Following
        from pinprof.read.symbols.kept import KeptSymbols
        from pinprof.report.terminal.layout import console_of

        self._following = Following(folder, words, WINDOWS_S[-1])
        self._folder, self._pid, self._name, self._length_s, self._left = folder, pid, name, length_s, count
        self._keys, self._console, self._symbols = keys, console_of(), KeptSymbols()
        self._interactive = self._console.is_terminal
        self._due = time.monotonic() + _EVERY_S
        self._cut, self._view, self._said, self._paused = 0, "a", "", False
        self._report: ReportData | None = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """On a terminal, on a screen of its own."""
        with self._console.screen(hide_cursor=True) if self._interactive else contextlib.nullcontext():
            yield

    def watch(self, run: CollectorRun) -> float:
        """Look, if it is time, and do what keys ask for; when to call again, in seconds."""
        asked = self._keys.pressed()
        for key in asked:
            self._press(key)
        now = time.monotonic()
        if now >= self._due:
            self._following.look(run)
            spent = self._refresh() if not self._paused else 0.0
            self._due = now + max(_EVERY_S if self._interactive else self._length_s, spent / _SHARE)
        if asked:
            self._draw()
        return min(self._due - time.monotonic(), _KEYS_S) if self._interactive else self._due - time.monotonic()

    def end(self) -> None:
        """Leave the last answer where the view was."""
        if self._interactive and self._report is not None:
            from pinprof.report.terminal.summary import print_answer

            print_answer([self._report])

    def _refresh(self) -> float:
        """Explain the last window and show it; the CPU time that took, in seconds."""
        if (
            self._left == 0
            or not self._following.seen_s
            or (not self._interactive and self._following.seen_s < 0.9 * self._length_s)
        ):
            return 0.0
        from pinprof.report.gather import live_of

        began = time.process_time()
        path = self._window()
        try:
            self._report = live_of(self._explained(path))
        except PinprofError as error:
            self._said = str(error)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        self._draw()
        if self._left is not None:
            self._left -= 1
        if terminal.reader_gone():
            self._left = 0
        # Where nobody reads any more, a program that pinprof started goes on.
        if self._left == 0 and (self._pid or not terminal.reader_gone()):
            os.kill(os.getpid(), signal.SIGINT)
        return time.process_time() - began

    def _window(self) -> Path:
        self._cut += 1
        return self._following.write(self._folder.with_name(f"{self._cut}.pinprof"), self._length_s)

    def _explained(self, path: Path) -> Run:
        from pinprof import analyze, read
        from pinprof.read import machine_rates

        return analyze.analyze(machine_rates.stored(read.read(path, read.ReadOptions(kept=self._symbols))))

    def _draw(self) -> None:
        from pinprof.report.terminal.live import screen

        if self._report is None:
            return
        length = format_ns(min(self._following.seen_s, self._length_s) * 1e9)
        of = f" · {self._pid}" if self._pid else ""
        title = f"{self._name}{of} · last {length}{' · paused' if self._paused else ''}"
        console = self._console
        if not self._interactive:
            terminal.say(screen(self._report, self._view, title, "", console, None))
            return
        drawn = screen(self._report, self._view, title, self._said or _KEYS, console, console.height)
        terminal.write(console.file, _HOME + drawn.replace("\n", f"{_TO_THE_END}\n") + _TO_THE_END)

    def _press(self, key: str) -> None:
        from pinprof.report.terminal.live import VIEWS

        self._said = ""
        if key in VIEWS:
            self._view = key
        elif key in "+-":
            longer = [one for one in WINDOWS_S if one > self._length_s]
            shorter = [one for one in WINDOWS_S if one < self._length_s]
            self._length_s = (longer[:1] or WINDOWS_S[-1:])[0] if key == "+" else (shorter[-1:] or WINDOWS_S[:1])[0]
            self._due = 0.0
        elif key in "p ":
            self._paused = not self._paused
        elif key == "s":
            self._save()
        elif key in "q\x03":
            os.kill(os.getpid(), signal.SIGINT)

    def _save(self) -> None:
        """The window as a capture with its page, in the current directory."""
        from pinprof.cli import pipeline
        from pinprof.streams import store

        if not self._following.seen_s:
            return
        try:
            target = self._following.save(store.default_name(self._name), self._length_s, self._folder.parent)()
            page = pipeline.default_page(target)
            pipeline.write_page([self._explained(target)], page)
            self._said = f"Saved: {target}, {page}"
        except (OSError, PinprofError) as error:
            self._said = str(error)


def _nothing() -> None: ...


@contextlib.contextmanager
def _held_back() -> Iterator[Callable[[], None]]:
    """What a program that starts in the block prints to the terminal comes after it, where the view is seen there.

    Nor does it read the terminal, whose keys are the view's. The function that the block is given has this process
    use the terminal again, once the program has begun.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield _nothing
        return
    with files.nameless() as held, Path(os.devnull).open("rb") as nothing:
        kept: dict[int, int] = {}

        def give_back() -> None:
            sys.stdout.flush()
            sys.stderr.flush()
            while kept:
                number, terminal_of = kept.popitem()
                os.dup2(terminal_of, number)
                os.close(terminal_of)

        for number in [one for one in (0, 1, 2) if os.isatty(one)]:
            kept[number] = os.dup(number)
            os.dup2(held.fileno() if number else nothing.fileno(), number)
        try:
            yield give_back
        finally:
            give_back()
            held.seek(0)
            shutil.copyfileobj(held, sys.stdout.buffer)
            sys.stdout.flush()


class _Keys:
    """What is typed, without waiting; nothing where there is no terminal."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def pressed(self) -> str:
        """The keys since the last time."""
        import select

        typed = ""
        while self._descriptor is not None and select.select([self._descriptor], [], [], 0)[0]:
            got = os.read(self._descriptor, 64)
            typed += got.decode("ascii", "replace")
            if not got:
                self._descriptor = None
        return typed


@contextlib.contextmanager
def _keyboard() -> Iterator[_Keys]:
    """Keys as they are pressed, and the terminal as it was afterwards."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield _Keys(None)
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
