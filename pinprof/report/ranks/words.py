"""The words and figures of a launch that every output shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pinprof.analyze.attribution.categories import MEANING
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns, format_ns_range, format_share
from pinprof.ranks.headline import main_cause, rank_names, when
from pinprof.ranks.results import Excess, Group, Hold, JobOpportunity, Launch, Node

__all__ = ["MEANING", "main_cause", "rank_names", "when"]

HELD_TITLES: Mapping[str, str] = {
    "rss": "in memory (shared pages count in each process)",
    "pinned": "pinned",
    "locked": "locked",
    "shmem": "shared memory",
    "huge": "huge pages",
    "swap": "swapped out",
}
MEETING = "A meeting is a point where ranks wait for each other: a collective, a barrier, a message."


def facts(launch: Launch) -> str:
    """`4 of 8 ranks on 1 machine · 45 meetings · 4 s of work`."""
    count = len(launch.ranks)
    ranks = f"{count} of {format_counted(launch.size, 'rank', 'ranks')}" if launch.missing else f"{count} ranks"
    machines = format_counted(len({rank.machine for rank in launch.ranks}), "machine", "machines")
    meetings = format_counted(len(launch.meetings), "meeting", "meetings")
    return f"{ranks} on {machines} · {meetings} · {format_ns(launch.work_ns)} of work"


def interval(hold: Hold) -> str:
    """`1.1–1.4 s`; empty for what happened once."""
    return "" if hold.how == "once" else format_ns_range(hold.low_ns, hold.high_ns)


def shown(hold: Hold) -> str:
    """How it is known that the awaited ranks take part in these meetings."""
    return (
        f"Their own recordings show them there at {format_share(hold.shown, 1)} of these meetings. At the others,"
        " only these ranks did not wait."
        if len(hold.ranks) > 1
        else f"Its own recording shows it there at {format_share(hold.shown, 1)} of these meetings. At the others,"
        " only this rank did not wait."
    )


def where(hold: Hold) -> str:
    """Where and in which phase the others wait."""
    place = ""
    if hold.place is not None:
        function = f" ({hold.place.function})" if hold.place.function not in ("", hold.place.text) else ""
        place = f"The others wait at {hold.place.text}{function}"
    phase = f", in its {hold.phase} phase" if hold.phase and hold.phase != "work" else ""
    return f"{place}{phase}." if place else ""


def each(hold: Hold, ns: int) -> str:
    """A time per meeting that is held up."""
    return format_ns(ns / max(hold.held, 1))


def gain(one: JobOpportunity) -> str:
    """What the job saves by a change."""
    return format_ns(one.saves_ns) if one.saves_ns else "nothing"


def line_name(line: Excess) -> str:
    """The line, with the range around it."""
    place = line.place.text if line.place else "no line known"
    function = f" {line.place.function}" if line.place and line.place.function not in ("", place) else ""
    return f"{place}{function}" + (f", range {line.range}" if line.range else "")


def mostly(line: Excess) -> str:
    """`69 % fault.anon`."""
    cause, ns, whole = main_cause(line)
    return f"{format_share(ns, whole)} {cause}" if cause else ""


def group_causes(group: Group) -> str:
    """The heaviest causes with their part of the work."""
    return ", ".join(f"{format_share(share, 1)} {cause}" for cause, share in list(group.causes.items())[:3])


def node_lines(node: Node) -> Iterator[tuple[str, str]]:
    """(what, how much, against the machine's memory) of one machine."""
    memory = node.memory_bytes
    for name, title in HELD_TITLES.items():
        if node.together.get(name):
            yield f"{title}, all ranks", _against(node.together[name], memory)
    for title, value in (
        ("page cache, whole machine", node.page_cache_bytes),
        ("huge pages, whole machine", node.huge_bytes),
        ("minimum free memory", node.free_bytes),
    ):
        if value is not None:
            yield title, _against(value, memory)
    if node.numa_misses is not None and node.numa_nodes > 1:
        yield "pages from a different NUMA node than requested", format_count(node.numa_misses)


def node_title(node: Node) -> str:
    """`Machine 0: ranks 0–7, 1.97 TiB of memory, 2 NUMA nodes`."""
    memory = f", {format_bytes(node.memory_bytes)} of memory" if node.memory_bytes else ""
    numa = f", {format_counted(node.numa_nodes, 'NUMA node', 'NUMA nodes')}" if node.numa_nodes else ""
    return f"Machine {node.machine}: {rank_names(node.ranks)}{memory}{numa}"


def _against(value: int, memory: int) -> str:
    return f"{format_bytes(value)} ({format_share(value, memory)})" if memory else format_bytes(value)
