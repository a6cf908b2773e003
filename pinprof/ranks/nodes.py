"""What the ranks of one machine hold of its memory together, against what it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.analyze.memory import PAGE_BYTES
from pinprof.base.columns import Int64, ascending
from pinprof.ranks.clocks import RankClocks
from pinprof.ranks.rank_run import RankRun
from pinprof.ranks.results import Node

HELD = ("rss", "pinned", "locked", "shmem", "huge", "swap")
_MOST_TIMES = 4_000


def nodes_of(runs: Sequence[RankRun], clocks: RankClocks) -> tuple[Node, ...]:
    """One per machine whose ranks recorded memory."""
    nodes = []
    for machine in range(clocks.machines):
        mine = [run for run, of in zip(runs, clocks.machine, strict=True) if of == machine]
        if any(run.memory is not None for run in mine):
            nodes.append(_node(machine, mine))
    return tuple(nodes)


def _node(machine: int, runs: Sequence[RankRun]) -> Node:
    host = runs[0].manifest.host
    page = host.get("page_bytes")
    page = page if isinstance(page, int) and page > 0 else PAGE_BYTES
    memory, nodes = host.get("memory_bytes"), host.get("numa_nodes")
    looks = [run.memory.time_ns for run in runs if run.memory is not None]
    times = ascending(np.concatenate(looks))
    times = times[:: max(1, len(times) // _MOST_TIMES)]
    misses = [run.machine["numa_miss"] for run in runs if "numa_miss" in run.machine]
    return Node(
        machine=machine,
        ranks=tuple(run.number for run in runs),
        memory_bytes=memory if isinstance(memory, int) else 0,
        numa_nodes=nodes if isinstance(nodes, int) else 0,
        together={name: total for name in HELD if (total := _together(runs, name, times)) is not None},
        free_bytes=_pages(runs, "nr_free_pages", page, least=True),
        page_cache_bytes=_pages(runs, "nr_file_pages", page),
        huge_bytes=_pages(runs, "nr_anon_transparent_hugepages", int(host.get("huge_page_bytes") or 1 << 21)),
        numa_misses=max(last for *_, last in misses) - min(first for first, *_ in misses) if misses else None,
    )


def _together(runs: Sequence[RankRun], name: str, times: Int64) -> int | None:
    """The most that all of them held at one time; None where nobody recorded it."""
    total, known = np.zeros(len(times), np.int64), False
    for run in runs:
        if run.memory is None or name not in run.memory.together:
            continue
        known = True
        look = np.searchsorted(run.memory.time_ns, times, "right") - 1
        inside = (look >= 0) & (times <= run.memory.time_ns[-1])
        total[inside] += run.memory.together[name][look[inside]]
    return int(total.max(initial=0)) if known else None


def _pages(runs: Sequence[RankRun], counter: str, page: int, *, least: bool = False) -> int | None:
    """The least or the most that the machine's counter showed in any rank's recording, in bytes."""
    seen = [run.machine[counter] for run in runs if counter in run.machine]
    if not seen:
        return None
    return page * (min(low for _, low, _ in seen) if least else max(high for *_, high in seen))
