"""Data that Python's processes pass each other: pickled, copied through a pipe, and made again on the other side."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pinprof.analyze.lines import NOTHING
from pinprof.analyze.opportunities.candidate import Candidate, sampled
from pinprof.analyze.opportunities.knobs import Functions
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import ascending
from pinprof.base.units import format_ns, format_share
from pinprof.data.model import Int64

_PASSES = (
    Functions(r"multiprocessing/(connection|reduction)\.py", ".+"),
    Functions(r"multiprocessing/queues\.py", r"(\w+\.)?(put|get|_feed)"),
)
_SHARES = Functions(r"torch/(multiprocessing/reductions|storage)\.py", ".+")
"""PyTorch puts tensors into shared memory, and passes only their names."""
_THROUGH = re.compile(r"((anon_)?pipe_(read|write)|unix_stream_\w+|sock_(read|write)_iter)(\.\w+)*")
_PIPE = ("copy.kernel", "sys.io.pipe", "sys.io.socket")
PIPED = 0.02
"""The least share in pipes of what passing takes: less, and what is passed are names, as of shared memory."""
REMAINS = (0.1, 0.0, 0.4)
"""Likely, least, most: what was made elsewhere is still copied into the shared block, once instead of five times."""


def pickled(scene: Scene) -> Iterator[Candidate]:
    """What processes spend to pass data to each other, by the line that waits for it."""
    passing = np.flatnonzero(scene.under(*_PASSES) & ~scene.under(_SHARES) & scene.in_own() & ~scene.waits())
    piped = scene.caused_by(*_PIPE) & scene.has(_THROUGH)
    for group in _by_line(scene, passing):
        cost = scene.ns(group)
        through = scene.ns(group[piped[group]])
        if through < PIPED * max(cost, 1) or not piped[group].any():
            continue
        yield _candidate(scene, group, cost, through)


def _by_line(scene: Scene, rows: Int64) -> Iterator[Int64]:
    """These wall rows by the place that waits for them: a forked process has the lines of its parent on its stack."""
    samples, wall = scene.capture.samples, scene.course.wall
    waiting = scene.sites.frames(samples.stack[np.maximum(wall.waiting, 0)])
    place = np.where((wall.waiting >= 0) & (waiting != NOTHING), waiting, scene.place)[rows]
    for one in ascending(place).tolist():
        yield rows[place == one]


def _candidate(scene: Scene, group: Int64, cost: int, through: int) -> Candidate:
    wall = scene.course.wall
    waited = group[wall.waiting[group] >= 0]
    site = scene.waiting_site(waited) if 2 * scene.ns(waited) > cost else scene.site_of(group)
    pids = scene.capture.samples.pid[wall.sample[group]]
    theirs = scene.ns(group[pids != scene.course.pid])
    return sampled(
        scene,
        group,
        site,
        f"{site.place} gets or gives data that is pickled and copied through a pipe between processes.",
        "share-memory",
        REMAINS,
        "Data in shared memory that stays is written once, and read in place.",
        Evidence(
            f"Of that, the pipe takes {format_ns(through)} ({format_share(through, max(cost, 1))}); pickling, and"
            " making the data again, take the rest."
        ),
        Evidence(f"{format_share(theirs, max(cost, 1))} of it is the other processes' time."),
    )
