"""A recording that has just ended, explained: the answer first, then the page, then where both lie.

Ctrl-C leaves out what is not made yet, and says so; the exit status stays the program's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import signal
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pinprof.base.errors import PinprofError, packages_named
from pinprof.base.terminal import say
from pinprof.cli import interrupts
from pinprof.machine.process_limits import require_memory

if TYPE_CHECKING:
    from pinprof.collect.idle import Step
    from pinprof.collect.trouble import Trouble
    from pinprof.data.model import Capture
    from pinprof.recording import EndedRecording

ALL = "the answer and the page are missing"


def _import(*names: str) -> None:
    """Import modules, which takes up to a tenth of a second's work, before they are needed."""
    with contextlib.suppress(ModuleNotFoundError, PinprofError):  # which is said when the recording is explained
        require_memory()
        for name in names:
            importlib.import_module(name)


def _prepare_rules() -> None:
    from pinprof.analyze.attribution import matching

    matching.prepare()


def _imports(*names: str) -> list[Step]:
    return [functools.partial(_import, name) for name in names]


NEEDED = _imports(
    "pinprof.read.perf.capture",
    "pinprof.analyze.whole",
    "pinprof.report.sections",
    "pinprof.cli.pipeline",
    "pinprof.report.terminal.summary",
)
"""What every answer needs."""
WANTED: list[Step] = [
    _prepare_rules,
    functools.partial(_import, "pinprof.read.python.frames", "pinprof.read.memory", "numpy.ma"),
    *_imports("pinprof.read.inside.calls", "pinprof.report.page.html", "pinprof.report.page.recorded"),
]
"""What can be made later as well: rules for names that may not come, what reads what may be missing, and the page."""


def explain(recorded: EndedRecording, target: Path, places: Sequence[str], trouble: Trouble, *, quiet: bool) -> None:
    """Print the answer, write the page, and print where it lies, with `places`; if `quiet`, write the page alone.

    What the answer rests on is measured before it, and what else is not known of this machine, after it.
    """
    missing, below, answered = ALL, list(places), False
    try:
        with trouble.kept("The recording is not explained"), packages_named():
            require_memory()
            from pinprof import read
            from pinprof.cli import pipeline

            page = pipeline.default_page(target)
            capture = recorded.capture
            analysis = pipeline.attributed(capture, target) if capture else pipeline.explain(target, read.ReadOptions())
            while (better := _measured(recorded, trouble, analysis.capture, pipeline.guessed(analysis))) is not None:
                analysis = analysis.about(better)
            if not quiet:
                pipeline.answer([analysis], [f"Page: {page}", *places])
                missing, answered = "the page is missing", True
            if (better := _measured(recorded, trouble, analysis.capture)) is not None:
                analysis = analysis.about(better)
            for note in recorded.rates.notes if recorded.rates and not quiet else ():
                say(f"pinprof: {note}", error=True)
            with trouble.kept("The page is not written"):
                pipeline.write_page([analysis], page)
                below.insert(0, f"Page: {page}")
    except KeyboardInterrupt as error:
        say_missing(error, missing, target)
    if not quiet:
        say("\n".join(["", *below] if answered else below))


def _measured(
    recorded: EndedRecording, trouble: Trouble, capture: Capture, measures: Collection[str] | None = None
) -> Capture | None:
    """`EndedRecording.measured`."""
    with trouble.kept("This machine is not calibrated"):
        return recorded.measured(capture, measures)
    return None


def say_missing(error: KeyboardInterrupt, missing: str, target: Path) -> None:
    """Say what Ctrl-C has cost; any other signal goes on."""
    if interrupts.exit_status(error) != 128 + signal.SIGINT:
        raise error
    say(f"pinprof: stopped; {missing}. To get it all: pinprof report {target}", error=True)
