"""Whether a place makes its memory again each time: by the large memory that the agent knows, else by samples.

Where pages fault, memory is new. Whether the place makes it each time, or once and keeps it, depends on when it was
made and given back. The agent knows that of large memory, exactly. Where this does not account for the faults, as with
many small blocks, samples of faults and frees suggest it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.analyze.allocations.blocks import LineBlocks
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.opportunities.page_marks import PageMarks
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.sites import Site
from pinprof.base.columns import ascending, in_parts, pairs_of, taken
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_counted, format_ns
from pinprof.data.activity import Caller
from pinprof.data.model import NO_NODE, Bool, Int64

AGAIN, ONCE = 0.5, 0.1
"""The shares of what is made that is made again: from the first on that is what happens, up to the second it is not."""
EXPLAINS = 0.5
"""The least share of the bytes that fault which large memory has to account for."""
_SAMPLE = 1 << 20
_BYTES_PER_NS = 4.0
"""How fast new pages are written to, where no rate is known."""
LEAST_FREED = 0.05
"""The share of what pages cost at a place: where less is spent on giving memory back, it is made once and kept."""
LEAST_FREED_OF_ALL = 0.08
"""The same of what pages cost at all places, from the first page that one of them makes to its last."""
HUGE_FREED = 0.35
"""The part of these limits for huge pages: freeing takes 4 % of what a huge page costs, and 12 % of what a small page
costs (docs/opportunities.md)."""
LEAST_FREES = 4
"""Samples: fewer of them do not show that huge pages are freed."""
SHRINKS = 0.3
"""The share of the growth of the program's memory: where it shrinks by more meanwhile, huge pages are freed and made
again."""
LEAST_TURNS = 4
"""How often a place makes memory after frees: fewer times, an expression may free what it needs no longer."""
AWAY_NS = 3_000_000
"""A sample may show the line of a moment earlier: once seen elsewhere, a thread was there for this time."""
ZERO_FREED = 0.5
"""The part of LEAST_FREED and LEAST_FREED_OF_ALL for pages that fault twice."""


@dataclass(frozen=True)
class PlaceBlocks:
    """The large memory of one place, without what only grows."""

    lines: tuple[LineBlocks, ...]
    faulting_bytes: float
    """How much new memory costs what the place costs."""

    @property
    def made(self) -> int:
        """How many."""
        return sum(line.made for line in self.lines)

    @property
    def made_bytes(self) -> int:
        """All of them."""
        return sum(line.made_bytes for line in self.lines)

    @property
    def explains(self) -> bool:
        """Whether it accounts for the faults: else they are of many small blocks, or of what other places make."""
        return self.made_bytes >= EXPLAINS * self.faulting_bytes

    @property
    def again(self) -> bool | None:
        """Whether the place makes its memory again each time, and its pages go back to the kernel meanwhile; None
        where that is not certain.
        """
        if not self.explains:
            return None
        share = sum(line.again_bytes for line in self.lines) / max(self.made_bytes, 1)
        if share <= ONCE:
            return False
        gone = sum(line.again_bytes for line in self.lines if line.returned)
        return True if share >= AGAIN and 2 * gone > share * self.made_bytes else None

    @property
    def text(self) -> str:
        """One sentence with figures."""
        given = sum(line.given for line in self.lines)
        lifetime = sum(line.lifetime_ns for line in self.lines) // max(given, 1)
        made = format_counted(self.made, "large block", "large blocks")
        most = sum(line.most_bytes for line in self.lines)
        freed = f"{given:,} are given back, after {format_ns(lifetime)} on average" if given else "none is given back"
        return (
            f"It makes {made} of {format_bytes(self.made_bytes)} in all; {freed}. At most {format_bytes(most)} live at"
            " once."
        )


def blocks_at(scene: Scene, making: Int64) -> PlaceBlocks | None:
    """The large memory that the place of these wall rows makes; None where the recording has none of it."""
    pids = set(ascending(scene.capture.samples.pid[scene.course.wall.sample[making]]).tolist())
    lines = [line for line in scene.blocks if line.pid in pids and not line.grows]
    site = scene.site_of(making)
    mine = _of_place(lines, site, scene.sites.path(site.file))
    if not mine:
        return None
    rate = scene.rates.cost("touch.first", _SAMPLE)
    speed = _SAMPLE / rate.ns if rate and rate.ns > 0 else _BYTES_PER_NS
    return PlaceBlocks(tuple(mine), scene.ns(making) * speed)


def _of_place(lines: Sequence[LineBlocks], site: Site, path: str) -> list[LineBlocks]:
    """Those that the line makes; else those that its function makes, or has made."""
    here = [line for line in lines if site.line and (line.site.caller.line, line.site.caller.path) == (site.line, path)]
    if here or not site.function or site.function.startswith("["):
        return here

    def is_here(caller: Caller) -> bool:
        return caller.function == site.function and (not path or not caller.path or caller.path == path)

    return [line for line in lines if any(map(is_here, line.site.frames))]


def made_again(scene: Scene, marks: PageMarks, made: Int64, group: Int64, rows: Int64) -> tuple[bool, bool]:
    """Whether the place makes its memory repeatedly, and it is freed meanwhile; and whether so if its pages are huge.

    That takes two executions of the place, and frees by its own thread: it frees memory itself, or any place does
    meanwhile, since Python frees here what it made there. Where the thread leaves the place and comes back several
    times, another thread may free what it made. What the program builds before its work, it makes once. Where the
    recording has all large memory with its life, that decides.
    """
    times, thread = scene.course.wall.time_ns, scene.thread
    making = made[~marks.frees[made]]
    if not len(making) or scene.phase_of(making) == "build":
        return False, False
    known = blocks_at(scene, making)
    if known is not None and known.again is not None and not marks.drops[group].any():
        return known.again, known.again
    first, last = times[making].min(), times[making].max()
    makers, made_by = np.unique(thread[making], return_counts=True)
    maker = int(makers[made_by.argmax()])
    anywhere = rows[(times[rows] >= first) & (times[rows] <= last)]
    group, meanwhile = (part[thread[part] == maker] for part in (group, anywhere))
    frees = meanwhile[marks.frees[meanwhile]]
    returns = _returns(scene, making, maker)
    if not (_in_steps(scene, making) or len(_turns(times[making], times[frees])) >= LEAST_TURNS or returns):
        return False, False
    if returns >= LEAST_TURNS:
        meanwhile = anywhere
        frees = meanwhile[marks.frees[meanwhile]]
    part_of_limit = ZERO_FREED if 2 * scene.ns(made[marks.zero[made]]) > scene.ns(made[marks.anonymous[made]]) else 1
    freed = max(
        scene.ns(part[marks.frees[part]]) / (part_of_limit * least * max(scene.ns(part), 1))
        for part, least in ((group, LEAST_FREED), (meanwhile, LEAST_FREED_OF_ALL))
    )
    often = freed >= HUGE_FREED and len(frees) >= LEAST_FREES
    return freed >= 1, bool(freed >= 1 or often or _shrinks(scene, first, last))


def _in_steps(scene: Scene, making: Int64) -> bool:
    """Whether the place of these rows is seen in two steps."""
    times, steps = scene.course.wall.time_ns, scene.course.steps
    return steps is not None and len(ascending(np.searchsorted(steps.starts_ns, times[making], "right"))) > 1


def _returns(scene: Scene, making: Int64, maker: int) -> int:
    """How often the thread was elsewhere, outside of what the place of these rows calls, and came back to it: its waits
    count, too, which nobody may have waited for.
    """
    samples, capture = scene.capture.samples, scene.capture
    times = scene.course.wall.time_ns[making]
    place = ascending(scene.place[making])
    here = np.zeros(len(capture.stacks.frames), np.bool_)
    here[place[place != NOTHING]] = True
    takes_time = np.array([event.costs_time for event in capture.events], np.bool_)
    at = scene.sites.frames(np.append(np.arange(len(capture.stacks), dtype=np.int32), np.int32(NO_NODE)))
    elsewhere = (at != NOTHING) & ~capture.stacks.under(here) & ~np.isin(at, place)
    mine = capture.rows_of(*pairs_of(np.array([maker]))[0])

    def away(part: slice) -> Bool:
        row = mine[part]
        return np.asarray(elsewhere[samples.stack[row]] & takes_time[samples.event[row]])

    other = taken(mine, in_parts(away, len(mine), np.bool_, mine, samples.stack, samples.event))
    returned = _turns(times, samples.time_ns[other])
    alone = len(returned) == 1 and samples.weight[other][np.isin(samples.time_ns[other], returned[0])].sum() < AWAY_NS
    return 0 if alone else len(returned)


def _turns(making: Int64, other: Int64) -> list[Int64]:
    """The times of other samples by the gap between two making ones that they lie in."""
    making, other = np.sort(making), np.sort(other)
    gap = np.searchsorted(making, other)
    inside = (gap > 0) & (gap < len(making))
    return [other[inside & (gap == number)] for number in ascending(gap[inside]).tolist()]


def _shrinks(scene: Scene, first_ns: int, last_ns: int) -> bool:
    """Whether the program's memory shrinks by much of what it grows by, between these times."""
    log = scene.capture.memory
    for process in log.processes if log is not None else ():
        if process.pid == scene.course.pid and "rss" in process.values:
            steps = np.diff(process.values["rss"][(process.time_ns >= first_ns) & (process.time_ns <= last_ns)])
            return bool(-steps[steps < 0].sum() > SHRINKS * steps[steps > 0].sum())
    return False
