"""The words that all forms of a fleet's answer share."""

from __future__ import annotations

from pathlib import PurePath

from pinprof.base.units import format_counted, format_ns, format_ns_about, format_ns_range, format_share
from pinprof.fleet.results import CAPTURE, Answer, Because, Change, FleetSaving, Outlier


def who(one: Outlier) -> str:
    """`driver 570.86.10`, or the name of the capture."""
    return PurePath(one.capture).name if one.dimension == CAPTURE else f"{one.dimension} {one.group}"


def about(one: Outlier) -> str:
    """How many captures of which programs."""
    programs = one.programs[0] if len(one.programs) == 1 else f"{len(one.programs)} programs"
    return f"{format_counted(one.captures, 'capture', 'captures')} of {programs}"


def effect(one: Outlier) -> str:
    """`work 31 % slower: 1.31 × instead of 1 ×`."""
    way = "slower" if one.slower else "faster"
    return f"{format_share(abs(one.ratio - 1), 1)} {way}"


def figures(one: Outlier) -> str:
    """`work 2.7 s, expected 1.4 s`."""
    return f"{one.measure} {one.shown(one.value)}, expected {one.shown(one.expected)}"


def because(one: Outlier, cause: Because) -> str:
    """`copy.staging at a.cu:21 2.5 s, elsewhere 1.3 s`."""
    if one.unit == "ns":
        return f"{cause.what} {format_ns(cause.value)}, elsewhere {format_ns(max(cause.expected, 0))}"
    return (
        f"{cause.what} {format_share(cause.value, 1)} of the expected work, elsewhere {format_share(cause.expected, 1)}"
    )


def alike(one: Outlier) -> str:
    """What the same captures share as well; empty without."""
    same = ", ".join(f"{name} {value}" for name, value in one.alike[:4])
    return f"The same captures are {same}, so the cause could be any of them." if same else ""


def chance(p: float) -> str:
    """A corrected p."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def gain(one: FleetSaving) -> str:
    """What an opportunity saves over the fleet."""
    share = f", {format_share(one.saving_ns, one.whole_ns)} of {one.program}" if one.whole_ns else ""
    span = format_ns_range(one.saving_low_ns, one.saving_high_ns, format_ns_about)
    return f"{format_ns_about(one.saving_ns)} ({span}) in {format_counted(one.captures, 'capture', 'captures')}{share}"


def change(one: Change) -> str:
    """A change point in one sentence."""
    what = one.program or "all programs"
    way = "slower" if one.ratio > 1 else "faster"
    much = f"{format_share(abs(one.ratio - 1), 1)} {way}"
    return f"From {one.at[:16].replace('T', ' ')} on, {what}: {much} ({chance(one.p)})."


def tested(answer: Answer) -> str:
    """How much was compared."""
    if not answer.compared:
        return "Comparing needs several captures of one program."
    compared = format_counted(answer.compared, "capture is", "captures are")
    tests = format_counted(answer.tests, "test", "tests")
    return f"{compared} compared with others of the same program; p is corrected for {tests}."


def counted(answer: Answer) -> str:
    """How many captures there are, and which count for nothing."""
    parts = [format_counted(answer.captures, "capture", "captures")]
    parts.append(format_counted(len(answer.programs), "program", "programs"))
    if answer.unreadable:
        parts.append(f"{len(answer.unreadable)} cannot be read")
    if answer.copies:
        parts.append(format_counted(answer.copies, "copy left out", "copies left out"))
    return " · ".join(parts)
