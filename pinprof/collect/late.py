"""The agent in the process that asks for its own recording: it comes late (inside/late.h), and rests afterwards."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import ToolMissing
from pinprof.collect.collector import Setup, Tool, Waiter
from pinprof.collect.recorder import STOP_SIGNALS
from pinprof.collect.signals import postponed
from pinprof.machine.libraries import INSIDE
from pinprof.streams import store

UNTRACED = "CUDA calls were not traced: "
"""Begins every note that says why."""
_REFUSALS = (
    "",
    "the agent is in this process already, for another recording.",
    "the program has a sanitizer, whose calls the agent does not change.",
    "the program has another C library than glibc.",
    "the agent found no memory.",
)
"""By `enum refusal`."""
_kept: list[ctypes.CDLL] = []
"""The agent, once this process has loaded it: it stays."""


class OwnAgent:
    """The agent in this process: one at a time."""

    def __init__(self, folder: Path, *, asked: bool = False) -> None:
        """It writes into `folder`; if its calls are `asked` for, also where there are none."""
        self._folder, self._asked = folder, asked
        self._pid = 0
        """The process that it is in; 0 for none."""

    def enter(self) -> str:
        """Begin to record; why that cannot be, as a note, or nothing."""
        self._folder.mkdir(files.PRIVATE_FOLDER, exist_ok=True)
        with postponed(STOP_SIGNALS):  # an agent that came in is one that this knows to leave
            why = self._refusal()
            self._pid = 0 if why else os.getpid()
        if why:
            files.remove_empty(self._folder)
            return UNTRACED + why
        return ""

    def _refusal(self) -> str:
        try:
            if not _kept:
                path = INSIDE.find()
                if any(Path(name).name.startswith(INSIDE.prefix) for name in _mapped()):
                    return _REFUSALS[1]
                _kept.append(ctypes.CDLL(str(path)))
        except ToolMissing as error:
            return str(error)
        except OSError as error:
            return f"the agent can't be loaded ({error.strerror or error})."
        return _REFUSALS[_kept[0].pinprof_inside_enter(os.fsencode(self._folder), int(self._asked))]

    def part(self) -> None:
        """A part of the recording begins or ends here: what the agent sums is of one part."""
        if self._pid == os.getpid():
            _kept[0].pinprof_inside_part()

    def leave(self) -> None:
        """Record no more, if it does; a forked child leaves its parent's recording alone."""
        if self._pid == os.getpid():
            _kept[0].pinprof_inside_leave()
            self._pid = 0
            files.remove_empty(self._folder)


class LateAgent(Tool):
    """The agent in a recording of this process, from the moment on at which all other tools record."""

    def __init__(self, setup: Setup) -> None:
        self._agent = OwnAgent((setup.directory / store.INSIDE).resolve())
        self._notes = setup.notes
        setup.places.callback(self._agent.leave)

    def await_ready(self, waiter: Waiter) -> None:
        """Let it in, or note why it stays outside."""
        del waiter
        self._notes.append(self._agent.enter())

    def ended(self) -> None:
        """Nothing is recorded from here on."""
        self._agent.leave()


def _mapped() -> Iterator[str]:
    """The files that this process has mapped."""
    with Path("/proc/self/maps").open("rb") as lines:
        for line in lines:
            fields = line.rstrip(b"\n").split(maxsplit=5)
            if len(fields) > 5:
                yield os.fsdecode(fields[5])
