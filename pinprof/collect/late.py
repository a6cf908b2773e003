"""The agent in the process that asks for its own recording: it comes late (inside/late.h), and rests afterwards."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import ToolMissing
from pinprof.collect.collector import Setup, Tool, ToolResult, Waiter
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


class LateAgent(Tool):
    """The agent inside this process, from the moment on at which all other tools record."""

    def __init__(self, setup: Setup) -> None:
        self._folder = (setup.directory / store.INSIDE).resolve()
        self._notes = setup.notes
        setup.places.callback(self._leave)

    def await_ready(self, waiter: Waiter) -> None:
        """Let it in, or note why it stays outside."""
        del waiter
        if why := self._enter():
            self._notes.append(UNTRACED + why)
            files.remove_empty(self._folder)

    def _enter(self) -> str:
        self._folder.mkdir(files.PRIVATE_FOLDER, exist_ok=True)
        self._pid, self._agent = os.getpid(), None
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
        refusal = _kept[0].pinprof_inside_enter(os.fsencode(self._folder))
        if not refusal:
            self._agent = _kept[0]
        return _REFUSALS[refusal]

    def ended(self) -> None:
        """Nothing is recorded from here on."""
        self._leave()

    def _leave(self) -> None:
        """As often as one likes; a forked child leaves its parent's recording alone."""
        agent, self._agent = self._agent, None
        if agent is not None and os.getpid() == self._pid:
            agent.pinprof_inside_leave()
            files.remove_empty(self._folder)

    _agent: ctypes.CDLL | None = None
    _pid = 0

    def result(self) -> ToolResult:
        """Nothing but its files."""
        return ToolResult({})


def _mapped() -> Iterator[str]:
    """The files that this process has mapped."""
    with Path("/proc/self/maps").open("rb") as lines:
        for line in lines:
            fields = line.rstrip(b"\n").split(maxsplit=5)
            if len(fields) > 5:
                yield os.fsdecode(fields[5])
