"""What `pinprof doctor` checks: each check says what it found, how bad that is, the fix, and what one gains by it.

    rehearsal.py   a recording of a small program, into which the checks look: what they tick was tried
    recording.py   what a recording can have here
    probe.py       tries probes, in a process of its own
    machine.py     the place, its memory and its GPUs
    tools.py       other programs that pinprof uses
    check.py       the result of one check

The reasons and fixes are those of `collect/permission.py`, which recordings give too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.doctor import machine, recording, tools
from pinprof.doctor.check import Check
from pinprof.doctor.rehearsal import rehearsed


def run() -> list[Check]:
    """All checks, in the order in which one would repair."""
    found = rehearsed()
    return [
        machine.place(),
        *(check(found) for check in recording.CHECKS),
        *(check() for check in (*machine.CHECKS, *tools.CHECKS)),
    ]


def verdict(results: Sequence[Check]) -> str:
    """One line for all checks: what a recording has here, and what it lacks."""
    state = {result.name: result.state for result in results}
    if "problem" in state.values():
        return "Recording does not work here: see ✗."
    given = {name for name, found in state.items() if found == "ok"}
    gives = dict(recording.GIVES)
    if recording.TIMERS in given:
        given.add(recording.NATIVE)
        gives |= recording.GIVEN_BY_TIMERS
        del gives["kernel symbols"]
    has = [text for name, text in gives.items() if name in given]
    lacks = [text for name, text in gives.items() if name not in given]
    place = "" if "captures" in given else " The current folder can't take it: give -o PATH."
    if not lacks:
        return f"Recording works here, with everything.{place}"
    return f"A recording here has {_listed(has) or 'memory over time'}, but no {_listed(lacks)}: see !.{place}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


__all__ = ["Check", "run", "verdict"]
