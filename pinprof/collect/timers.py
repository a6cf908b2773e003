"""CPU time where the kernel tells nothing: by timers inside the program, which the agent (inside.py) keeps.

They need no right at all. What they cannot see is the kernel from within; the agent notes waits for others itself.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence

from pinprof import __version__
from pinprof.base.errors import CollectError, ToolMissing
from pinprof.collect import inside, permission, python
from pinprof.collect.collector import SAMPLES_LOST, Collector, Setup, Tool, ToolResult
from pinprof.collect.limits import check_request
from pinprof.collect.request import RecordRequest
from pinprof.machine.libraries import INSIDE
from pinprof.streams.store import INSIDE as FOLDER

USUAL_RATE = 250
"""Most kernels look at such timers as often as this; none is asked oftener than the frequency of a request."""
_OLDEST = 5, 10
"""Before this kernel the signal of a timer could end a system call of the program early."""


def check(request: RecordRequest) -> None:
    """Raise where no timers can be in the program."""
    check_request(request)
    if reason := _reason(request):
        raise CollectError(reason, "Record it with native.", "timers")
    INSIDE.find()


def serves(request: RecordRequest) -> bool:
    """Whether timers can do it."""
    try:
        check(request)
    except (CollectError, ToolMissing):
        return False
    return True


def _reason(request: RecordRequest) -> str:
    if request.system_wide:
        return "Timers inside a program can't show other programs."
    if "nsys" in request.collectors:
        return "Nsight Systems and timers inside a program disturb each other."
    if request.region_only or request.delay_s or request.call_graph != "fp":
        return "Timers inside the program record all of its run, and no copies of stacks."
    if request.inside == "off":
        return "Timers are inside the program, but --inside off keeps the agent out."
    if platform.machine() not in ("x86_64", "aarch64"):
        return f"Timers inside the program can't unwind stacks on {platform.machine()}."
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release and (int(release[1]), int(release[2])) < _OLDEST:
        return f"Linux {release[0]} may end system calls of the program early when a timer runs out."
    return inside.reason(request)


class _Timers(Tool):
    """The timers of one recording."""

    def __init__(self, rate: int, unreadable: str) -> None:
        """`unreadable`: why the program's memory is not read from outside."""
        self._rate, self._unreadable = rate, unreadable

    def under_way(self) -> ToolResult:
        """What they are."""
        return ToolResult({"name": "timers", "version": __version__, "options": {"frequency": self._rate}})

    def result(self) -> ToolResult:
        """The same, with why there is no more."""
        nothing = permission.sampling_errno(kernel=False)
        number = nothing or permission.sampling_errno()
        why = f" {permission.refusal(number, system_wide=False, user=nothing > 0)}" if number else ""
        if self._unreadable and not number:
            why = (
                " pinprof is not permitted to read the program's memory, which Python lines beside samples of the "
                f"kernel need: {self._unreadable}. {permission.allow()}"
            )
        note = (
            f"Timers inside the program recorded its CPU time, but neither the kernel's own stacks nor some waits.{why}"
        )
        return ToolResult(self.under_way().facts, (note,))


def _join(setup: Setup) -> Sequence[Tool]:
    rate = min(setup.request.frequency, USUAL_RATE)
    setup.environment[inside.RATE_VARIABLE] = str(rate)
    return [_Timers(rate, python.unreadable(setup.request))]


COLLECTOR = Collector(_join, check, samples=True, inside=True, lost=SAMPLES_LOST, leaves=(f"{FOLDER}/*.bin",))
